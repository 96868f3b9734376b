"""The table of waits by group under a variant, beside the error of the replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments.group_waits import GroupWait, summary_of
from apps.contrib.lab.experiments.records import ExperimentDetail
from apps.contrib.lab.experiments.selectors import list_group_waits
from apps.core.errors import Conflict, NotFound
from apps.priorities.sentences import numbers
from apps.priorities.sentences.wait_text import wait_change, wait_text

MOST_WAIT_ROWS = 30
_VERDICTS = {
    True: gettext_lazy("more than the error"),
    False: gettext_lazy("within the error"),
    None: "–",
}


@dataclass(frozen=True, slots=True)
class GroupWaitRow:
    """A group's waits as texts. exceeds: yes, no or unknown, for the page."""

    path: str
    happened: str
    replayed: str
    off: str
    variant: str
    change: str
    verdict: str
    exceeds: str


@dataclass(frozen=True, slots=True)
class GroupWaitTable:
    sentence: str
    rows: Sequence[GroupWaitRow]
    n_more: int


def group_wait_table(detail: ExperimentDetail, index: int, *, at: datetime, actor: Actor) -> GroupWaitTable | None:
    """Of a variant that is no base; None for an experiment that is no replay, or hasn't run."""
    if not index or detail.history is None:
        return None
    try:
        waits = list_group_waits(
            policy_slug=detail.row.policy, experiment_id=detail.row.id, index=index, at=at, actor=actor
        )
    except (Conflict, NotFound):
        return None
    if not waits:
        return None
    return GroupWaitTable(
        _sentence(waits), [_row(each) for each in waits[:MOST_WAIT_ROWS]], len(waits[MOST_WAIT_ROWS:])
    )


def _row(wait: GroupWait) -> GroupWaitRow:
    return GroupWaitRow(
        path=wait.path,
        happened=wait_text(wait.happened_s),
        replayed=wait_text(wait.replayed_s),
        off=numbers.UNKNOWN if wait.off_s is None else wait_change(wait.replayed_s, wait.happened_s),
        variant=wait_text(wait.variant_s),
        change=wait_change(wait.variant_s, wait.replayed_s) or numbers.UNKNOWN,
        verdict=str(_VERDICTS[wait.exceeds_error]),
        exceeds={True: "yes", False: "no", None: "unknown"}[wait.exceeds_error],
    )


def _sentence(waits: Sequence[GroupWait]) -> str:
    n_less, n_longer, n_within = summary_of(waits)
    if not n_less and not n_longer:
        if not n_within:
            if any(each.change_s is not None for each in waits):
                return _("The base changes the policy, so how far the replay is off isn’t known.")
            return _("Too few jobs to compare waits by group.")
        return _("No group’s wait changes by more than the replay was off in the past.")
    text = ngettext(
        "By more than the replay was off in the past, %(less)s group waits less and %(longer)s longer.",
        "By more than the replay was off in the past, %(less)s groups wait less and %(longer)s longer.",
        n_less,
    )
    return text % {"less": numbers.count(n_less), "longer": numbers.count(n_longer)}
