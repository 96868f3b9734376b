"""A scheduler's word for why a job waits → what it means, and whether such a job competes for free resources.

Slurm: the words of src/common/job_state_reason.c, and what src/slurmctld/job_scheduler.c does with each
(https://slurm.schedmd.com/job_reason_codes.html). Grid Engine: the letters of a job's state, sge_status(5). HTCondor:
the agent's words for the two states in which a job waits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from apps.contrib.schedulers.models import Scheduler


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for which the scheduler keeps a job waiting."""

    code: Annotated[str, "The scheduler's word"]
    key: str
    text: str
    label: Annotated[str, "In a word or two"]
    is_order: Annotated[bool, "Whether the order of jobs is the reason"]


@dataclass(frozen=True, slots=True)
class _Rule:
    """Words of a scheduler that mean one thing.

    competes: such a job takes the next free resources by its priority, so jobs of lower priority start after it.
    is_of_partition: all jobs of the partition wait for this, and go by priority among themselves.
    """

    key: str
    pattern: str
    competes: bool
    is_of_partition: bool = False


class _Meaning(NamedTuple):
    """What a reason means: in a word or two, and in a sentence."""

    label: Promise
    text: Promise


_MEANINGS: dict[str, _Meaning] = {
    "priority": _Meaning(
        gettext_lazy("priority"), gettext_lazy("The scheduler starts jobs with a higher priority first.")
    ),
    "resources": _Meaning(gettext_lazy("free resources"), gettext_lazy("It waits for free resources.")),
    "dependency": _Meaning(
        gettext_lazy("another job"), gettext_lazy("It waits for another job. Fair share has no influence.")
    ),
    "time": _Meaning(
        gettext_lazy("begin time"), gettext_lazy("Its begin time is in the future. Fair share has no influence.")
    ),
    "cleaning": _Meaning(
        gettext_lazy("its earlier run"), gettext_lazy("Its earlier run is still ending. Fair share has no influence.")
    ),
    "held": _Meaning(
        gettext_lazy("hold"), gettext_lazy("It is held. Fair share has no influence until it is released.")
    ),
    "limit": _Meaning(
        gettext_lazy("limit"),
        gettext_lazy("A limit of its account, user or QOS is reached. Fair share has no influence."),
    ),
    "partition": _Meaning(
        gettext_lazy("partition"), gettext_lazy("Its partition doesn’t admit it now. Fair share has no influence.")
    ),
    "nodes": _Meaning(
        gettext_lazy("nodes down or reserved"),
        gettext_lazy("Nodes that it needs are down or reserved. Fair share has no influence."),
    ),
    "licenses": _Meaning(gettext_lazy("licences"), gettext_lazy("It waits for licences. Fair share has no influence.")),
    "burst_buffer": _Meaning(
        gettext_lazy("burst buffer"), gettext_lazy("It waits for its burst buffer. Fair share has no influence.")
    ),
    "error": _Meaning(
        gettext_lazy("error state"),
        gettext_lazy("It is in an error state. Fair share has no influence until the error is cleared."),
    ),
    "none": _Meaning(gettext_lazy("not considered yet"), gettext_lazy("The scheduler hasn’t considered it yet.")),
    "other": _Meaning(
        gettext_lazy("another reason"), gettext_lazy("The scheduler gives a reason that isn’t about the order of jobs.")
    ),
}
# Of a job that waits for free resources with none ahead of it by priority.
_NEXT = gettext_lazy("It is next in its partition and waits for free resources.")
# Who holds a job, from the scheduler's word.
_HOLDERS = (
    (re.compile(r".*Admin.*|.*[so]hold.*"), gettext_lazy("administrator’s hold")),
    (re.compile(r".*User.*|.*uhold.*"), gettext_lazy("own hold")),
)

# The first match counts. A job of `limit` is passed over, unless SchedulerParameters has assoc_limit_stop; one of
# `licenses`, unless it has bf_licenses. Neither is the default, and the queue doesn't show it.
_SLURM = (
    _Rule("priority", r"Priority", competes=True),  # a job of higher priority closed the partition
    # Also the description of a job of too many nodes, and busy ports: each closes the partition to lower priorities.
    _Rule("resources", r"Resources|Nodes[ _]required[ _]for[ _]job.*|MpiPortsBusy", competes=True),
    _Rule("none", r"None|", competes=True),
    # _job_runnable_test1 leaves these out of the queue.
    _Rule("dependency", r"Dependency.*|JobArrayTaskLimit", competes=False),
    _Rule("time", r"BeginTime", competes=False),
    _Rule("cleaning", r"Cleaning", competes=False),
    _Rule("held", r"JobHeld.*|JobHoldMaxRequeue|Held.*|AdminHold|UserHold|ReservationDeleted", competes=False),
    # Descriptions that squeue prints instead of a word: "launch failed requeued held", "job requeued in held state".
    _Rule("held", r".*requeued[ _](?:in[ _])?held.*", competes=False),
    # job_limits_check leaves these out of the queue.
    _Rule("partition", r"Partition(?:Down|Inactive)", competes=False, is_of_partition=True),
    _Rule("partition", r"Partition.*|InvalidQOS|QOSNotAllowed|InvalidAccount|AccountNotAllowed", competes=False),
    # The scheduler passes over these and tests the next job.
    _Rule("nodes", r"ReqNodeNotAvail.*|NodeDown|FrontEndDown|MaxPoweredUpNodes|(?:Bad)?Constraints", competes=False),
    _Rule("nodes", r"Reservation.*", competes=False),
    _Rule("licenses", r"Licenses.*", competes=False),
    _Rule("burst_buffer", r"BurstBuffer.*", competes=False),
    _Rule("limit", r"(?:Assoc|QOS|Max).*|AccountingPolicy.*", competes=False),
)
# A limit of resource quotas or of running jobs leaves a job in qw, like one that waits for its turn.
_GRIDENGINE = (
    _Rule("error", r"E.*", competes=False),
    _Rule("held", r"Held|[uso]?hold.*|hR?[qw]+", competes=False),
    _Rule("dependency", r"Dependency.*", competes=False),
    _Rule("priority", r"Priority|R?qw?|", competes=True),
)
# An idle job that matches no machine looks like one that waits for its turn.
_HTCONDOR = (_Rule("held", r"Held", competes=False), _Rule("priority", r"Idle|", competes=True))
_TABLES = {Scheduler.Kind.SLURM: _SLURM, Scheduler.Kind.GRIDENGINE: _GRIDENGINE, Scheduler.Kind.HTCONDOR: _HTCONDOR}
_UNKNOWN = _Rule("other", r".*", competes=True)


def reason_of(kind: str, code: str, *, is_held: bool) -> Reason:
    """What a scheduler of this kind means by its word for a job that is held or not."""
    key = _rule_of(kind, code).key
    if is_held and key in ("priority", "resources", "none", "other"):
        key = "held"
    return Reason(code, key, str(_MEANINGS[key].text), str(_label(key, code)), key in ("priority", "resources"))


def with_place(reason: Reason, ahead: int | None) -> Reason:
    """The reason with what the number of jobs ahead adds: only a job with none ahead is next."""
    return replace(reason, text=str(_NEXT)) if reason.key == "resources" and ahead == 0 else reason


def _label(key: str, code: str) -> Promise:
    if key == "held":
        return next((label for pattern, label in _HOLDERS if pattern.fullmatch(code)), _MEANINGS[key].label)
    return _MEANINGS[key].label


def competes(kind: str, code: str, *, with_one_of: str) -> bool:
    """Whether a job with this word takes what a job with the word `with_one_of` of its partition waits for."""
    rule = _rule_of(kind, code)
    return rule.competes or (rule.is_of_partition and code == with_one_of)


@lru_cache(maxsize=1_024)
def _rule_of(kind: str, code: str) -> _Rule:
    table = _TABLES[Scheduler.Kind(kind)]
    return next((rule for rule in table if re.fullmatch(rule.pattern, code, re.DOTALL)), _UNKNOWN)
