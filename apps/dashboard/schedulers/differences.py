"""Differences between a scheduler's numbers and ours in words: rows with the reason of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.dashboard.shell import presentation
from apps.schedulers.shadow_differences import Comparison, Difference, UsageComparison, UsageDifference

MOST_ROWS = 20
_DIGITS = 6  # as sshare prints them
REASONS: dict[str, Any] = {
    "usage": gettext_lazy("usage differs"),
    "tree": gettext_lazy("tree differs"),
    "rule": gettext_lazy("rule differs"),
    "rounding": gettext_lazy("rounding"),
    "none": gettext_lazy("equal"),
}
USAGE_REASONS: dict[str, Any] = {
    "all_alike": gettext_lazy("all by the same factor: another instant, or other weights of resources"),
    "removed_limits": gettext_lazy("Slurm loses the end of each job: AccountingStorageEnforce lacks limits"),
    "reset": gettext_lazy("Slurm’s usage was reset, or the association is new"),
    "running": gettext_lazy("a job is running: the log has it when it ends"),
    "earlier": gettext_lazy("the log begins too late for jobs that still count"),
    "longer": gettext_lazy("the log has more than Slurm charged"),
    "shorter": gettext_lazy("jobs are missing from the log"),
    "same": gettext_lazy("equal"),
}


@dataclass(frozen=True, slots=True)
class UsageLine:
    group: str
    user: str
    ours: str
    theirs: str
    difference: str
    reason: str
    reason_key: str


@dataclass(frozen=True, slots=True)
class DifferenceLine(UsageLine):
    """One association; the parts add up to the difference."""

    parts: str


def difference_lines(found: Comparison) -> list[DifferenceLine]:
    return [_line(one) for one in found.ordered()[:MOST_ROWS]]


def _line(one: Difference) -> DifferenceLine:
    parts = {"usage": _signed(one.by_usage), "tree": _signed(one.by_tree), "rule": _signed(one.by_rule)}
    return DifferenceLine(
        group=one.group,
        user=one.user,
        ours=presentation.number(one.ours, _DIGITS),
        theirs=presentation.number(one.theirs, _DIGITS),
        difference=_signed(one.difference),
        reason=str(REASONS[one.reason]),
        reason_key=one.reason,
        parts=_("usage %(usage)s, tree %(tree)s, rule %(rule)s") % parts,
    )


def usage_lines(found: UsageComparison) -> list[UsageLine]:
    return [_usage_line(row) for row in found.rows[:MOST_ROWS] if row.reason != "same"]


def _usage_line(row: UsageDifference) -> UsageLine:
    return UsageLine(
        group=row.pair.group,
        user=row.pair.user,
        ours=presentation.count(row.pair.ours),
        theirs=presentation.count(row.pair.theirs),
        difference=_signed(row.difference, 0),
        reason=str(USAGE_REASONS[row.reason]),
        reason_key=row.reason,
    )


def _signed(value: float, digits: int = _DIGITS) -> str:
    text = presentation.number(abs(value), digits) if digits else presentation.count(abs(value))
    if not text.strip("0.,"):
        return "0"
    return f"{presentation.MINUS if value < 0 else '+'}{text}"


def headline(found: Comparison) -> str:
    """How far ours is from theirs, in one sentence."""
    n = len(found.differences)
    if not n:
        return _("None of its users has an entry here.")
    given = {"n": presentation.count(found.n_equal), "of": presentation.count(n)}
    if found.n_equal == n:
        text = ngettext("%(of)s user has the scheduler’s number", "All %(of)s users have the scheduler’s numbers", n)
        return text % given
    if found.scale == "factor":
        given["most"] = presentation.number(found.largest, 3)
        return _("%(n)s of %(of)s users have the scheduler’s numbers; the largest difference is %(most)s") % given
    given["most"] = presentation.percent(found.largest)
    return _("%(n)s of %(of)s users have the scheduler’s place in the order; the largest move is %(most)s") % given


def by_reason(differences: Sequence[Difference]) -> list[tuple[str, str, int]]:
    """Key, words and number of each reason that is there, without those that are equal."""
    counted = [(key, str(words), sum(one.reason == key for one in differences)) for key, words in REASONS.items()]
    return [one for one in counted if one[2] and one[0] != "none"]
