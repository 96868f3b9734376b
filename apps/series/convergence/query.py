"""Reads the parameters of a convergence query and finds its data: period, kind of share, members and their series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from django.db.models import Min

from apps.policies.models import Entry, Policy
from apps.priorities.selectors.rows import PolicyView
from apps.series.convergence.periods import Period
from apps.series.daily_series import DailySeries, Mask
from apps.series.stored_series import load_against_today, load_children, load_hours, load_series
from apps.series.visible_days import as_visible

DAILY_UP_TO = 400  # days; longer periods are drawn and listed weekly
DAY_S = 86_400

COLUMNS = (
    "used",
    "peers_used",
    "decayed",
    "peers_decayed",
    "target",
    "target_global",
    "exists",
    "competes",
    "waited_core_s",
    "knows_waiting",
    "n_active",
    "largest",
)
MOST_CONVERGENCE_MEMBERS = 500
MOST_CONVERGENCE_ENTRY_DAYS = 500_000  # entries × days in memory
BEFORE_ENTRY = "before_entry"  # state of a day whose revision is older than the entry
DECAYED, WINDOWED, RAW = VIEWS = ("decayed", "windowed", "raw")
PARENT, TOTAL = OFS = ("parent", "total")


def select_days(series: DailySeries, keep: Mask) -> DailySeries:
    """Return all entries on some of the days."""
    if keep.all():
        return series
    at = np.flatnonzero(keep)
    return DailySeries(series.uids, series.days.select(at), *(getattr(series, name)[:, at] for name in COLUMNS))


def select_entries(series: DailySeries, rows: list[int]) -> DailySeries:
    """Return some of the entries, in this order, on all days."""
    if rows == list(range(len(series.uids))):
        return series
    uids = tuple(series.uids[i] for i in rows)
    return DailySeries(uids, series.days, *(getattr(series, name)[rows] for name in COLUMNS))


@dataclass(frozen=True, slots=True)
class Member:
    """One panel. is_here: in the current tree. target: its current share of its parent, None if it doesn't compete."""

    uid: UUID
    name: str
    kind: str
    is_here: bool
    n_children: int = 0
    target: float | None = None


def leaf_mask(members: Sequence[Member]) -> Mask:
    """Mask of members that are leaves of the current tree; leaves may have a tolerance of their own."""
    return np.array([member.is_here and not member.n_children for member in members], dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class MemberSelection:
    """Members with the rows of their series and their visible days. n_all: count before the smallest were dropped."""

    members: list[Member]
    series: DailySeries
    visible: Mask
    n_all: int


def find_members(
    view: PolicyView, at: int, period: Period, *, itself: bool = False, against_today: bool = False
) -> MemberSelection:
    """Find the children of entry `at`, or the entry alone; of very many children those with the largest targets.

    against_today: compute all days with the head revision. Readers of sums don't see such days: the difference from the
    stored days may reveal one person's usage.
    """
    policy = view.policy
    if against_today:
        return _against_today(view, at, period, itself=itself)
    if itself or not len(view.tree.children(at)):
        series = load_series(policy, [view.tree.uuid(at)], from_on=period.from_on, to_on=period.to_on)
        return _visible_members(view, series, 1)
    children = view.visible_children(at)
    most = max(12, min(MOST_CONVERGENCE_MEMBERS, MOST_CONVERGENCE_ENTRY_DAYS // period.n_days))
    if len(view.tree.children(at)) > most:
        uids = [view.tree.uuid(i) for i in _largest(view, children, most)]
        series = load_series(policy, uids, from_on=period.from_on, to_on=period.to_on)
        return _visible_members(view, series, len(children))
    series = load_children(policy, view.tree.uuid(at), from_on=period.from_on, to_on=period.to_on)
    known = set(series.uids)
    added_later = [uid for uid in map(view.tree.uuid, children) if uid not in known]
    if added_later and series.days.on:
        uids = [*series.uids, *added_later]
        series = load_series(policy, uids, from_on=period.from_on, to_on=period.to_on)
    selection = _visible_members(view, series, 0)
    return MemberSelection(selection.members, selection.series, selection.visible, len(selection.members))


def _against_today(view: PolicyView, at: int, period: Period, *, itself: bool) -> MemberSelection:
    shown, n_all = _shown_entries(view, at, itself=itself)
    uids = [view.tree.uuid(i) for i in shown]
    return _fully_visible(
        view, shown, n_all, load_against_today(view.policy, uids, from_on=period.from_on, to_on=period.to_on)
    )


def find_hourly_members(view: PolicyView, at: int, *, itself: bool) -> MemberSelection:
    """As find_members, with hourly series. Readers of sums don't see hours: two sums an hour apart may differ by one
    person's usage.
    """
    shown, n_all = _shown_entries(view, at, itself=itself)
    return _fully_visible(view, shown, n_all, load_hours(view.policy, [view.tree.uuid(i) for i in shown]))


def _shown_entries(view: PolicyView, at: int, *, itself: bool) -> tuple[list[int], int]:
    """Return the shown entries of the head, and the number of all."""
    children = [] if itself else view.visible_children(at)
    return (_largest(view, children, MOST_CONVERGENCE_MEMBERS), len(children)) if children else ([at], 1)


def _fully_visible(view: PolicyView, shown: list[int], n_all: int, series: DailySeries) -> MemberSelection:
    """Build the result for hourly or recomputed series, of which only entries visible in full are visible."""
    outright = view.visibility.outright[np.array(shown, np.int64)]
    visible = np.repeat(outright[:, None], len(series.days.on), axis=1)
    return MemberSelection([_member(view, i, view.tree.uuid(i), {}) for i in shown], series, visible, n_all)


def _largest(view: PolicyView, children: Sequence[int], most: int) -> list[int]:
    target = np.where(view.competes, view.target[0], 0.0)
    return sorted(sorted(children, key=lambda i: (-target[i], i))[:most])


def _visible_members(view: PolicyView, series: DailySeries, n_all: int) -> MemberSelection:
    """Drop entries that the actor may not see; removed entries are shown only to those who see the whole tree."""
    indices = [view.tree.index_of_uid(uid) for uid in series.uids]
    sees_all = view.visibility.all_visible
    shown_rows = [row for row, i in enumerate(indices) if (sees_all if i is None else view.visibility.may_see(i))]
    removed = _last_names(view.policy, [series.uids[row] for row in shown_rows if indices[row] is None])
    series = select_entries(series, shown_rows)
    series, visible = as_visible(series, view=view)
    if sees_all and bool(view.visibility.outright.all()):
        visible = np.ones_like(visible)
    members = [_member(view, indices[row], series.uids[n], removed) for n, row in enumerate(shown_rows)]
    return MemberSelection(members, series, visible, n_all)


def _member(view: PolicyView, i: int | None, uid: UUID, removed: dict[UUID, tuple[str, str]]) -> Member:
    if i is None:
        name, kind = removed.get(uid, (str(uid), ""))
        return Member(uid, name, kind, is_here=False)
    tree = view.tree
    target = float(view.target[0][i]) if view.competes[i] else None
    kind = tree.kind_names[int(tree.kind_code[i])]
    return Member(uid, tree.name[i], kind, is_here=True, n_children=int(tree.n_children[i]), target=target)


def _last_names(policy: Policy, uids: Sequence[UUID]) -> dict[UUID, tuple[str, str]]:
    """Return the last name and kind of each entry."""
    if not uids:
        return {}
    versions = Entry.objects.filter(policy=policy, uid__in=uids).order_by("since")
    return {uid: (name, kind) for uid, name, kind in versions.values_list("uid", "name", "kind")}


def days_before_entry(policy: Policy, series: DailySeries) -> Mask:
    """Mask (entries, days) of days whose revision is older than the first one with the entry."""
    n_days = len(series.days.on)
    firsts = Entry.objects.filter(policy=policy, uid__in=series.uids).values_list("uid").annotate(first=Min("since"))
    since = dict(firsts)
    first = np.array([since.get(uid, 0) for uid in series.uids], np.int64).reshape(len(series.uids), 1)
    is_before: Mask = ~series.exists & (series.days.revision.reshape(1, n_days) < first)
    return is_before
