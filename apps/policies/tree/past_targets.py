"""Targets of entries by day: what their part of the whole was under the revision of each day.

The revision that is current at a day's end decides the whole day, as in daily series; days before the first revision
with entries have that one's targets. Read from the versions of the entries on the way up and of their siblings, so that
neither whole trees nor the engine are needed; the formula is the engine's (`engine.algorithms.inputs.prepare`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from math import fsum
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Q

from apps.policies.models import Entry, Policy, Revision

_EVER = datetime.min.replace(tzinfo=UTC)
_FIELDS = ("uid", "parent_uid", "shares", "since", "until")


class TargetSpan(NamedTuple):
    """A target of the whole policy, 0..1, from an instant on until that of the next span. None: the entry inherited or
    didn't exist.
    """

    since: datetime
    target_global: float | None


class _Version(NamedTuple):
    uid: UUID
    parent_uid: UUID | None
    shares: float | None
    since: int
    until: int | None

    def holds_at(self, number: int) -> bool:
        return self.since <= number and (self.until is None or number < self.until)


def past_targets(*, policy: Policy, uids: Collection[UUID], zone: ZoneInfo) -> dict[UUID, list[TargetSpan]]:
    """For each entry its spans without a gap, from the beginning of time to the last revision's; neighbours differ.

    zone: whose days count. Entries of another policy have one span without a target.
    """
    days = _deciding_revisions(policy, zone)
    if not days:
        return {uid: [TargetSpan(_EVER, None)] for uid in uids}
    versions = _load(policy, uids, first=days[0][1])
    return {uid: list(_spans(versions, uid, days)) for uid in uids}


def _deciding_revisions(policy: Policy, zone: ZoneInfo) -> list[tuple[datetime, int]]:
    """(start of the day, number) of each day's last revision with entries below the root; first the first of all, from
    ever on.
    """
    revisions = Revision.objects.filter(policy=policy).order_by("number")
    rows = list(revisions.values_list("number", "published_at", "n_entries"))
    first = next((at for at, row in enumerate(rows) if row[2] > 1), 0)
    by_day: dict[datetime, int] = {}
    for number, published_at, _n_entries in rows[first:]:
        by_day[published_at.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)] = number
    return [(_EVER, rows[first][0]), *sorted(by_day.items(), key=lambda each: each[1])] if rows else []


@dataclass(frozen=True, eq=False)
class _Versions:
    """Versions of entries by uid, and of children by their parent's uid."""

    of_entry: Mapping[UUID, Sequence[_Version]]
    children: Mapping[UUID, Sequence[_Version]]
    sums: dict[tuple[UUID, int], float]

    def at(self, uid: UUID, number: int) -> _Version | None:
        return next((each for each in self.of_entry.get(uid, ()) if each.holds_at(number)), None)

    def sum_at(self, uid: UUID, number: int) -> float:
        """Σ shares of what competes below an entry: children, and those of children that inherit."""
        key = uid, number
        if key not in self.sums:
            self.sums[key] = fsum(self._competing(uid, number))
        return self.sums[key]

    def _competing(self, uid: UUID, number: int) -> Iterator[float]:
        for child in self.children.get(uid, ()):
            if not child.holds_at(number):
                continue
            if child.shares is None:
                yield from self._competing(child.uid, number)
            else:
                yield child.shares

    def target_at(self, uid: UUID, number: int) -> float | None:
        """Π shares ÷ Σ shares of the competitors on the way up; 0 where a sum is 0."""
        entry = self.at(uid, number)
        if entry is None or (entry.shares is None and entry.parent_uid is not None):
            return None
        target = 1.0
        while entry.parent_uid is not None:
            above = self.at(entry.parent_uid, number)
            while above is not None and above.shares is None and above.parent_uid is not None:
                above = self.at(above.parent_uid, number)
            if above is None:
                return None
            whole = self.sum_at(above.uid, number)
            target *= (entry.shares or 0.0) / whole if whole > 0 else 0.0
            entry = above
        return target

    def is_same(self, number: int, later: int) -> bool:
        """Whether no version begins or ends between two revisions, so that no target changes."""
        return bisect_right(self.changes, number) == bisect_right(self.changes, later)

    @cached_property
    def changes(self) -> list[int]:
        """Numbers of the revisions with which a version begins or ends, ascending."""
        versions = [each for group in (*self.of_entry.values(), *self.children.values()) for each in group]
        return sorted({each.since for each in versions} | {each.until for each in versions if each.until is not None})


def _load(policy: Policy, uids: Collection[UUID], *, first: int) -> _Versions:
    """Versions since revision `first` of the entries and all above them, and of the children of those above."""
    known = Entry.objects.filter(Q(until=None) | Q(until__gt=first), policy=policy).order_by("since")
    of_entry: dict[UUID, list[_Version]] = {}
    wanted = set(uids)
    while wanted:
        for each in (_Version(*row) for row in known.filter(uid__in=wanted).values_list(*_FIELDS)):
            of_entry.setdefault(each.uid, []).append(each)
        parents = {each.parent_uid for uid in wanted for each in of_entry.get(uid, ())}
        wanted = {uid for uid in parents if uid is not None and uid not in of_entry}
    children: dict[UUID, list[_Version]] = {}
    groups = {each.parent_uid for versions in of_entry.values() for each in versions if each.parent_uid is not None}
    while groups:
        rows = [_Version(*row) for row in known.filter(parent_uid__in=groups).values_list(*_FIELDS)]
        for each in rows:
            if each.parent_uid is not None:
                children.setdefault(each.parent_uid, []).append(each)
        groups = {each.uid for each in rows if each.shares is None and each.uid not in children}
    return _Versions(of_entry, children, {})


def _spans(versions: _Versions, uid: UUID, days: Sequence[tuple[datetime, int]]) -> Iterator[TargetSpan]:
    target = versions.target_at(uid, days[0][1])
    yield TargetSpan(days[0][0], target)
    for (_before, earlier), (day, number) in pairwise(days):
        if versions.is_same(earlier, number):
            continue
        last, target = target, versions.target_at(uid, number)
        if target != last:
            yield TargetSpan(day, target)
