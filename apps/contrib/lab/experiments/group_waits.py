"""Waits by group under a variant, beside how far the replay of the published policy was off in the same days.

What a draft changes is known from simulation alone. What the simulation gets wrong is known for the policy as it was
published: its replay of past days beside what happened. So a change of a wait counts only where it is larger than that
error. The error is of each group by itself: one of all jobs may hide that one group's is large.

A job that still waits at the end counts with its wait so far, in fact as in both replays. Left out, those that wait the
longest would shorten the median.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from uuid import UUID

from apps.contrib.lab.experiments.records import EntryNumbers, VariantReport

LEAST_GROUP_JOBS = 5  # in the replay; of fewer, no wait is shown


class GroupWait(NamedTuple):
    """Median waits of a top group in seconds. Null: fewer than LEAST_GROUP_JOBS jobs, or no such group there. off_s and
    exceeds_error are null, too, where the base changes the policy.
    """

    entry: UUID
    path: str
    n_jobs: Annotated[int | None, "Jobs of the replay; null: fewer than 5"]
    happened_s: Annotated[float | None, "What its jobs waited in fact, those that still wait until the end"]
    replayed_s: Annotated[float | None, "What they wait in the replay of the base"]
    off_s: Annotated[float | None, "How far the replay of the policy as published is from what happened"]
    variant_s: Annotated[float | None, "What the jobs wait that the variant counts to the group"]
    change_s: Annotated[float | None, "Variant less base, both replayed"]
    exceeds_error: Annotated[bool | None, "Whether the change is larger than the replay was off; null: not known"]


def group_waits(history: VariantReport, variant: VariantReport, *, is_published: bool) -> list[GroupWait]:
    """Of the top groups that have jobs in the replay, the one with the most core-hours first.

    history: the replay of the base beside what happened, as `get_history_report` has it. is_published: the base is the
    policy as published. Otherwise the two differ also by what the base changes, and the error isn't known.
    """
    by_entry = {each.entry: each for each in variant.entries}
    groups = [each for each in history.entries if each.depth == 1 and each.n_jobs]
    groups.sort(key=lambda each: (-each.core_h, each.path))
    return [_group_wait(each, by_entry.get(each.entry), is_published) for each in groups]


def _group_wait(replayed: EntryNumbers, variant: EntryNumbers | None, is_published: bool) -> GroupWait:
    if replayed.n_jobs < LEAST_GROUP_JOBS:
        return GroupWait(replayed.entry, replayed.path, None, None, None, None, None, None, None)
    variant_s = None if variant is None or variant.n_jobs < LEAST_GROUP_JOBS else variant.wait_median_s
    off_s = _difference(replayed.wait_median_s, replayed.wait_median_was_s) if is_published else None
    change_s = _difference(variant_s, replayed.wait_median_s)
    return GroupWait(
        entry=replayed.entry,
        path=replayed.path,
        n_jobs=replayed.n_jobs,
        happened_s=replayed.wait_median_was_s,
        replayed_s=replayed.wait_median_s,
        off_s=off_s,
        variant_s=variant_s,
        change_s=change_s,
        exceeds_error=None if off_s is None or change_s is None else abs(change_s) > abs(off_s),
    )


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


def summary_of(rows: Sequence[GroupWait]) -> tuple[int, int, int]:
    """Number of groups that wait less and longer by more than the error, and of those whose change is within it."""
    clear = [each.change_s for each in rows if each.exceeds_error and each.change_s is not None]
    within = sum(each.exceeds_error is False for each in rows)
    return sum(change < 0 for change in clear), sum(change > 0 for change in clear), within
