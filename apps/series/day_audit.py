"""Days of the stored daily series, computed again from the buckets: a few in each run, all with the same chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from secrets import randbelow
from typing import Any

import numpy as np
from django.db import connection

from apps.core.blobs import CorruptBlob
from apps.core.postgresql import consistent_read
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.priorities.metering import window_of
from apps.series.builder import Builder, BuiltDay
from apps.series.daily_series import COMPETES, EXISTS, KNOWS_WAITING
from apps.series.days import Day, days_of, site_zone
from apps.series.inputs import read_inputs, stale_from
from apps.series.models import Series, SeriesDay
from apps.series.revision_context import PolicyState
from apps.series.stored_series import load_series
from apps.series.usage_and_demand import window_start_s

MOST_ENTRY_DAYS = 20_000  # compared in a run, but for at least one day: a second or two
MOST_AUDITED_ENTRIES = 4_096  # of a day, adjacent in the tree
MOST_AUDITED_BUCKETS = 1_000_000  # of all hours that count on a day: read in some seconds
_NEAR = 1e-9  # relative to the largest value: sums may be added up in another order
_OF_DAY = ("used", "peers_used", "largest", "n_active", "target", "target_global")
_OF_WINDOW = ("decayed", "peers_decayed")
_ONE_DAY = {"length_s": 86_400, "aging": "none"}
_EVER = datetime(1970, 1, 1, tzinfo=UTC)
_COUNT = """
SELECT count(*) FROM (SELECT FROM usage_bucket WHERE hour_at >= %s AND hour_at < %s LIMIT %s) AS buckets
"""
Draw = Callable[[int], int]


class _Damaged(Exception):
    """Stored days that can't be read."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored value of an entry on a day that isn't what the buckets give: of the day's, the one furthest off."""

    on: date
    path: str
    name: str
    stored: float
    computed: float


@dataclass(frozen=True, slots=True)
class Audit:
    """What was compared of one policy. has_windows: whether usage of earlier days was read, and decayed usage compared.

    differences: at most one a day. damage: why stored days can't be read; "" if they can.
    """

    policy: str
    days: tuple[date, ...]
    n_stored: int
    has_windows: bool
    differences: tuple[Difference, ...]
    damage: str = ""


def audit_days(*, draw: Draw = randbelow) -> Iterator[Audit]:
    """Compare days with the buckets, from a drawn one on: as many as MOST_ENTRY_DAYS allow, at least one.

    Days that wait to be built again are left out. draw: any number below the given one, each as likely.
    """
    policies = list(Policy.objects.filter(head_number__gte=1, daily_series__through_on__isnull=False).order_by("pk"))
    first, left = draw(len(policies)) if policies else 0, MOST_ENTRY_DAYS
    for policy in [*policies[first:], *policies[:first]]:
        with consistent_read():
            current = _current_days(policy)
            n_entries = len(load_tree(policy))
            n_days = min(len(current), max(1, left // n_entries))
            if left > 0 and n_days:
                left -= n_days * n_entries
                start = draw(len(current))
                parts = [current[start : start + n_days], current[: max(0, start + n_days - len(current))]]
                chosen = [days for days in parts if days]
                try:
                    audit = _audit(policy, len(current), chosen, draw)
                except _Damaged as error:
                    listed = tuple(sorted(day.on for days in chosen for day in days))
                    audit = Audit(policy.slug, listed, len(current), False, (), damage=str(error).rstrip("."))
                yield audit


def _current_days(policy: Policy) -> list[Day]:
    """The stored days whose inputs haven't changed since they were built."""
    series, zone = Series.objects.defer("carry").get(policy=policy), site_zone()
    if series.first_on is None or series.through_on is None:
        return []
    stale_on = stale_from(policy, series, read_inputs(policy, zone), zone)
    last_on = series.through_on if stale_on is None else min(series.through_on, stale_on - timedelta(days=1))
    return days_of(series.first_on, last_on, zone)


def _audit(policy: Policy, n_stored: int, chosen: Sequence[Sequence[Day]], draw: Draw) -> Audit:
    has_windows = all(_is_readable(policy, days) for days in chosen)
    if not has_windows:
        chosen = [chosen[0][:1]]
        has_windows = _is_readable(policy, chosen[0])
    differences: list[Difference] = []
    for days in chosen:
        for context, built in groupby(_build(policy, days, has_windows=has_windows), key=lambda day: day.context):
            differences += _compare(policy, context.tree, list(built), draw, has_windows=has_windows)
    listed = tuple(sorted(day.on for days in chosen for day in days))
    return Audit(policy.slug, listed, n_stored, has_windows, tuple(sorted(differences, key=lambda each: each.on)))


def _is_readable(policy: Policy, days: Sequence[Day]) -> bool:
    """Whether few enough buckets count on these days."""
    windows = [window_of(settings_of(policy, number).window) for number in _revisions(policy, days)]
    begins_s = [window_start_s(window, days[0].to_s) for window in windows]
    from_at = min((_EVER if at_s is None else datetime.fromtimestamp(at_s, UTC) for at_s in begins_s), default=_EVER)
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [from_at, days[-1].to_at, MOST_AUDITED_BUCKETS + 1])
        return int(cursor.fetchone()[0]) <= MOST_AUDITED_BUCKETS


def _revisions(policy: Policy, days: Sequence[Day]) -> list[int]:
    stored = SeriesDay.objects.filter(policy=policy, on__range=(days[0].on, days[-1].on)).order_by("revision_number")
    return list(stored.values_list("revision_number", flat=True).distinct())


def _build(policy: Policy, days: Sequence[Day], *, has_windows: bool) -> Iterator[BuiltDay]:
    if has_windows:
        return Builder(policy, days, reads_carry=False).build(days)
    (number,) = _revisions(policy, days) or [policy.head_number]
    settings = replace(settings_of(policy, number), window=_ONE_DAY)
    state = PolicyState.of_revision(policy, number, settings)
    return Builder(policy, days, state=state, reads_carry=False).build(days)


def _compare(
    policy: Policy, tree: TreeColumns, built: Sequence[BuiltDay], draw: Draw, *, has_windows: bool
) -> Iterator[Difference]:
    """Compare days of one revision with what is stored."""
    first = draw(len(tree) - MOST_AUDITED_ENTRIES + 1) if len(tree) > MOST_AUDITED_ENTRIES else 0
    here = slice(first, min(first + MOST_AUDITED_ENTRIES, len(tree)))
    uids = [tree.uuid(i) for i in range(here.start, here.stop)]
    try:
        stored = load_series(policy, uids, from_on=built[0].day.on, to_on=built[-1].day.on)
    except CorruptBlob as error:
        raise _Damaged(str(error)) from error
    except ValueError as error:
        raise _Damaged("days that are listed are missing") from error
    names = (*_OF_DAY, *(_OF_WINDOW if has_windows else ()))
    for day in built:
        if day.day.on not in stored.days.on:
            yield Difference(day.day.on, "/", "revision", 0, day.context.number)
            continue
        at = stored.days.on.index(day.day.on)
        computed: dict[str, Any] = {name: np.asarray(day.values.columns[name][here], np.float64) for name in names}
        found: dict[str, Any] = {name: np.asarray(getattr(stored, name)[:, at], np.float64) for name in names}
        flags = day.values.columns["flags"][here].astype(np.uint8)
        computed |= {"exists": (flags & EXISTS) > 0, "competes": (flags & COMPETES) > 0}
        found |= {"exists": stored.exists[:, at], "competes": stored.competes[:, at]}
        if not day.records_deleted:
            computed |= {"knows_waiting": (flags & KNOWS_WAITING) > 0}
            found |= {"knows_waiting": stored.knows_waiting[:, at]}
        if not day.records_deleted and has_windows:
            computed["waited_core_s"] = np.asarray(day.values.columns["waited_core_s"][here], np.float64)
            found["waited_core_s"] = stored.waited_core_s[:, at]
        furthest = _furthest(found, computed)
        if furthest is not None:
            name, i = furthest
            path = tree.path(here.start + i)
            yield Difference(day.day.on, path, name, float(found[name][i]), float(computed[name][i]))
        elif not np.isclose(stored.days.root_used[at], day.values.root_used, rtol=_NEAR, atol=0):
            yield Difference(day.day.on, "/", "root_used", stored.days.root_used[at], day.values.root_used)


def _furthest(stored: Mapping[str, Any], computed: Mapping[str, Any]) -> tuple[str, int] | None:
    """The column and index of the value that is furthest off, relative to the largest of its column; None for none."""
    worst: tuple[float, str, int] | None = None
    for name, values in computed.items():
        off = np.abs(np.asarray(stored[name], np.float64) - np.asarray(values, np.float64))
        off /= max(float(np.abs(values).max(initial=0)), float(np.abs(stored[name]).max(initial=0)), 1e-300)
        i = int(off.argmax())
        if off[i] > _NEAR and (worst is None or off[i] > worst[0]):
            worst = float(off[i]), name, i
    return None if worst is None else worst[1:]
