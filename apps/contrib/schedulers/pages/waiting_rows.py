"""Why a job waits, as rows: the terms of its priority and who is ahead."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.contrib.schedulers.waiting import Waiting
from apps.priorities.sentences import numbers

TERMS = {
    "age": gettext_lazy("Age"),
    "assoc": gettext_lazy("Association"),
    "fairshare": gettext_lazy("The scheduler’s own fair share"),
    "jobsize": gettext_lazy("Job size"),
    "partition": gettext_lazy("Partition"),
    "qos": gettext_lazy("QOS"),
    "site": gettext_lazy("This policy’s fair share"),
    "nice": gettext_lazy("Nice value"),
}
_WIDTH = 160


@dataclass(frozen=True)
class TermLine:
    name: str
    label: str
    value: float
    percent: float | None
    width: float
    is_fairshare: bool


@dataclass(frozen=True)
class AheadLine:
    path: str
    jobs: int
    cpus: float
    width: float


def term_lines(waiting: Waiting) -> list[TermLine]:
    """The terms that add to the priority or take from it."""
    return [
        TermLine(
            name=part.name,
            label=str(TERMS[part.name]),
            value=part.value,
            percent=part.share,
            width=round((part.share or 0.0) * _WIDTH, 1),
            is_fairshare=part.is_fairshare,
        )
        for part in waiting.terms
        if part.value
    ]


def zero_terms_text(waiting: Waiting) -> str:
    """The other terms, in one sentence; empty without any."""
    names = [str(TERMS[part.name]) for part in waiting.terms if not part.value]
    return _("Terms of 0: %(names)s.") % {"names": ", ".join(names)} if names else ""


def ahead_lines(waiting: Waiting) -> list[AheadLine]:
    most = max((group.jobs for group in waiting.groups), default=1)
    return [
        AheadLine(group.path, group.jobs, group.cpus, round(group.jobs / most * _WIDTH, 1)) for group in waiting.groups
    ]


def verdict(waiting: Waiting) -> str:
    """The sentence on the jobs ahead, and one on whether fair share decides the job's position."""
    return f"{waiting.ahead_text} {_fair_share_text(waiting)}".strip()


def _fair_share_text(waiting: Waiting) -> str:
    """Empty where the sentence on the jobs ahead says it already."""
    if not waiting.reason.is_order:
        return _("Fair share doesn’t decide: the scheduler waits for something else.")
    if waiting.by_fairshare is None:
        return _("The scheduler doesn’t split this priority, so the effect of fair share is unknown.")
    if not waiting.by_fairshare and not waiting.kept_behind:
        return _("Fair share changes nothing here: without it the order would be the same.")
    if not waiting.kept_behind:
        return ""
    text = ngettext(
        "Fair share keeps %(n)s job behind it.", "Fair share keeps %(n)s jobs behind it.", waiting.kept_behind
    )
    return text % {"n": numbers.count(waiting.kept_behind)}
