"""Members of a convergence figure, archived ones included, and their days from before there was an entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from django.db.models import Min

from apps.analytics.convergence.query import Period, pick
from apps.analytics.series.daily_series import DailySeries, Mask
from apps.analytics.series.stored_series import load_against_today, load_children, load_hours, load_series
from apps.analytics.series.visible_days import as_visible
from apps.policies.models import Entry, Policy
from apps.priorities.selectors.rows import PolicyView

MOST_MEMBERS = 500
MOST_CELLS = 500_000  # entries × days that are held at once


@dataclass(frozen=True, slots=True)
class Member:
    """One panel. `is_here`: in the current tree; `target`: of its parent now, None where it has none."""

    uid: UUID
    name: str
    kind: str
    is_here: bool
    n_children: int = 0
    target: float | None = None


def leaves_of(members: Sequence[Member]) -> Mask:
    """Which of them are entries without children, whose tolerance may be their own."""
    return np.array([member.is_here and not member.n_children for member in members], dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Found:
    """Members beside the rows of their series, and their visible days. n_all: before the smallest were cut."""

    members: list[Member]
    series: DailySeries
    told: Mask
    n_all: int


def find_members(
    view: PolicyView, at: int, period: Period, *, itself: bool = False, against_today: bool = False
) -> Found:
    """The children of the entry `at`, or it alone; of very many children those with the largest targets.

    against_today: all days measured against the head. Who sees sums only doesn't see such days: their difference
    from the days as they were may be one person's.
    """
    policy = view.policy
    if against_today:
        return _against_today(view, at, period, itself=itself)
    if itself or not len(view.tree.children(at)):
        series = load_series(policy, [view.tree.uuid(at)], from_on=period.from_on, to_on=period.to_on)
        return _found(view, series, 1)
    children = view.visible_children(at)
    most = max(12, min(MOST_MEMBERS, MOST_CELLS // period.n_days))
    if len(view.tree.children(at)) > most:
        uids = [view.tree.uuid(i) for i in _largest(view, children, most)]
        series = load_series(policy, uids, from_on=period.from_on, to_on=period.to_on)
        return _found(view, series, len(children))
    series = load_children(policy, view.tree.uuid(at), from_on=period.from_on, to_on=period.to_on)
    known = set(series.uids)
    came_later = [uid for uid in map(view.tree.uuid, children) if uid not in known]
    if came_later and series.days.on:
        uids = [*series.uids, *came_later]
        series = load_series(policy, uids, from_on=period.from_on, to_on=period.to_on)
    found = _found(view, series, 0)
    return Found(found.members, found.series, found.told, len(found.members))


def _against_today(view: PolicyView, at: int, period: Period, *, itself: bool) -> Found:
    shown, n_all = _shown(view, at, itself=itself)
    uids = [view.tree.uuid(i) for i in shown]
    return _outright(
        view, shown, n_all, load_against_today(view.policy, uids, from_on=period.from_on, to_on=period.to_on)
    )


def find_selection(view: PolicyView, rows: Sequence[int], period: Period) -> Found:
    """These entries of the head, in their order."""
    uids = [view.tree.uuid(i) for i in rows]
    return _found(view, load_series(view.policy, uids, from_on=period.from_on, to_on=period.to_on), len(uids))


def find_selection_by_hour(view: PolicyView, rows: Sequence[int]) -> Found:
    """By the hour."""
    shown = list(rows)
    return _outright(view, shown, len(shown), load_hours(view.policy, [view.tree.uuid(i) for i in shown]))


def find_members_by_hour(view: PolicyView, at: int, *, itself: bool = False) -> Found:
    """By the hour. Readers of sums only don't see hours: two sums an hour apart differ by one person's use."""
    shown, n_all = _shown(view, at, itself=itself)
    return _outright(view, shown, n_all, load_hours(view.policy, [view.tree.uuid(i) for i in shown]))


def _shown(view: PolicyView, at: int, *, itself: bool) -> tuple[list[int], int]:
    """Entries of the head, and how many there are."""
    children = [] if itself else view.visible_children(at)
    return (_largest(view, children, MOST_MEMBERS), len(children)) if children else ([at], 1)


def _outright(view: PolicyView, shown: list[int], n_all: int, series: DailySeries) -> Found:
    """Only for entries visible in full."""
    outright = view.visibility.outright[np.array(shown, np.int64)]
    told = np.repeat(outright[:, None], len(series.days.on), axis=1)
    return Found([_member(view, i, view.tree.uuid(i), {}) for i in shown], series, told, n_all)


def _largest(view: PolicyView, children: Sequence[int], most: int) -> list[int]:
    target = np.where(view.competes, view.target[0], 0.0)
    return sorted(sorted(children, key=lambda i: (-target[i], i))[:most])


def _found(view: PolicyView, series: DailySeries, n_all: int) -> Found:
    """Without what the actor may not see; what has left the tree only for those who see all of it."""
    places = [view.tree.index_of_uid(uid) for uid in series.uids]
    sees_all = view.visibility.all_visible
    kept = [row for row, i in enumerate(places) if (sees_all if i is None else view.visibility.may_see(i))]
    left = _names_of(view.policy, [series.uids[row] for row in kept if places[row] is None])
    series = pick(series, kept)
    series, told = as_visible(series, view=view)
    if sees_all and bool(view.visibility.outright.all()):
        told = np.ones_like(told)
    members = [_member(view, places[row], series.uids[n], left) for n, row in enumerate(kept)]
    return Found(members, series, told, n_all)


def _member(view: PolicyView, i: int | None, uid: UUID, left: dict[UUID, tuple[str, str]]) -> Member:
    if i is None:
        name, kind = left.get(uid, (str(uid), ""))
        return Member(uid, name, kind, is_here=False)
    tree = view.tree
    target = float(view.target[0][i]) if view.competes[i] else None
    kind = tree.kind_names[int(tree.kind_code[i])]
    return Member(uid, tree.name[i], kind, is_here=True, n_children=int(tree.n_children[i]), target=target)


def _names_of(policy: Policy, uids: Sequence[UUID]) -> dict[UUID, tuple[str, str]]:
    """What entries were called last."""
    if not uids:
        return {}
    versions = Entry.objects.filter(policy=policy, uid__in=uids).order_by("since")
    return {uid: (name, kind) for uid, name, kind in versions.values_list("uid", "name", "kind")}


BEFORE_ENTRY = "before_entry"  # the state of such a day


def days_before_entry(policy: Policy, series: DailySeries) -> Mask:
    """(entries, days) whose revision is older than the first one with the entry."""
    n_days = len(series.days.on)
    firsts = Entry.objects.filter(policy=policy, uid__in=series.uids).values_list("uid").annotate(first=Min("since"))
    since = dict(firsts)
    first = np.array([since.get(uid, 0) for uid in series.uids], np.int64).reshape(len(series.uids), 1)
    found: Mask = ~series.exists & (series.days.revision.reshape(1, n_days) < first)
    return found
