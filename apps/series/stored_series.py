"""Loads the series of some entries as arrays: as stored, or recomputed as if the head revision had been current on
every day.

The second form is computed on request and not stored. It is not the history, and every view that shows it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.db import connection
from django.db.models import Q
from django.utils.translation import gettext as _

from apps.accounts.request_cache import once_per_request
from apps.core import blobs, clock
from apps.core.errors import TooLarge
from apps.core.postgresql import consistent_read
from apps.policies.changesets.change_sets import load_revision
from apps.policies.models import Entry, Policy
from apps.policies.tree.document_merge import indexes_of
from apps.policies.tree.stored import load_tree
from apps.runs.models import Run
from apps.runs.waiting import waiting_of
from apps.series.builder import Builder, BuiltDay
from apps.series.daily_series import (
    COMPETES,
    DAY_TILES,
    EXISTS,
    HOUR_S,
    HOURS_A_DAY,
    KNOWS_WAITING,
    DailySeries,
    SeriesDays,
    SeriesState,
)
from apps.series.days import days_of, site_zone
from apps.series.inputs import read_inputs, stale_from
from apps.series.models import Series, SeriesDay, SeriesHour
from apps.series.revision_context import PolicyState
from apps.series.runs import KIND, subject_of
from apps.series.tiles import AMOUNTS, BLOCK, Month, empty_month, find_slots, read_tiles, require_days
from apps.usage import pgbinary

IndexArray = npt.NDArray[np.int64]
# Days, slots of the entries and tiles in one statement, so that all are of one state of the database.
# Aggregated into one row of arrays: receiving one row per day would take as long as all other work.
_READ = f"""
SELECT days.*, slots.*, tiles.*
FROM (
    SELECT array_agg(day."on" ORDER BY day."on") AS "on",
        array_agg(extract(epoch FROM day.ends_at)::float8 ORDER BY day."on"),
        array_agg(day.revision_number ORDER BY day."on"),
        array_agg(day.is_before_first ORDER BY day."on"),
        array_agg(day.root_used ORDER BY day."on"),
        array_agg(day.root_decayed ORDER BY day."on")
    FROM analytics_seriesday AS day
    WHERE day.policy_id = %(policy)s AND day."on" BETWEEN %(from_on)s AND %(to_on)s
) AS days, (
    SELECT array_agg(uid ORDER BY slot), array_agg(slot ORDER BY slot) AS slot
    FROM analytics_seriesslot WHERE policy_id = %(policy)s AND uid = ANY(%(uids)s::uuid[])
) AS slots, LATERAL (
    SELECT array_agg(block ORDER BY block, month_on), array_agg(month_on ORDER BY block, month_on),
        array_agg(data ORDER BY block, month_on), array_agg(digest ORDER BY block, month_on)
    FROM analytics_seriestile
    WHERE policy_id = %(policy)s
        AND block = ANY(ARRAY(SELECT DISTINCT slot / {BLOCK} FROM unnest(slots.slot) AS slot))
        AND month_on = ANY(ARRAY(SELECT DISTINCT date_trunc('month', "on")::date FROM unnest(days."on") AS "on"))
) AS tiles
"""  # noqa: S608 - constants only
MOST_SERIES_DAYS = 100
MOST_SERIES_BUCKETS = 1_000_000  # in the period: computed in some seconds
_COUNT = """
SELECT count(*) FROM (SELECT FROM usage_bucket WHERE hour_at >= %s AND hour_at < %s LIMIT %s) buckets
"""


def load_series(policy: Policy, uids: Sequence[UUID], *, from_on: date, to_on: date) -> DailySeries:
    """Daily series of these entries, in their order, on the built days from `from_on` to `to_on`, both included.

    An entry that the series doesn't know has zeros, and `exists` is false.

    Raises CorruptBlob if stored days are damaged.
    """
    days, slots, tiles = _read_series(policy, uids, from_on, to_on)
    month = empty_month(len(uids), len(days.on))
    indices = group_by_block([slots.get(uid, -1) for uid in uids])
    spans = {block: (_span(of_block), _span(columns)) for block, (of_block, columns) in indices.items()}
    for month_on, there in _by_month(days.on).items():
        rows = _span(np.array([days.on[at].day - 1 for at in there]))
        at = slice(there[0], there[-1] + 1)  # days of a month are adjacent
        for block, (of_block, columns) in spans.items():
            tile = tiles.get((block, month_on))
            if tile is None:
                continue  # of entries that are newer than the month
            require_days(tile, days.on[there[-1]].day)
            for name, values in tile.items():
                month[name][of_block, at] = values[rows][:, columns].T
    return build_series(uids, days, month)


def load_children(policy: Policy, parent_uid: UUID, *, from_on: date, to_on: date) -> DailySeries:
    """Load all entries that were children of this one on any of these days, ordered by name."""
    series_days = SeriesDay.objects.filter(policy=policy, on__range=(from_on, to_on))
    revisions = sorted(series_days.order_by().distinct().values_list("revision_number", flat=True))
    if not revisions:
        return load_series(policy, (), from_on=from_on, to_on=to_on)
    entries = Entry.objects.filter(policy=policy, parent_uid=parent_uid, since__lte=revisions[-1])
    spans = entries.filter(Q(until=None) | Q(until__gt=revisions[0])).order_by("name", "since")
    uids = {
        uid: None
        for uid, since, until in spans.values_list("uid", "since", "until")
        if any(since <= number and (until is None or number < until) for number in revisions)
    }
    return load_series(policy, list(uids), from_on=from_on, to_on=to_on)


def series_state(policy: Policy) -> SeriesState:
    """Return how far the series is built and whether it is current. Starts no build; cached for the request."""
    return once_per_request(("series state", policy.pk, policy.head_number), lambda: _state(policy))


def _state(policy: Policy) -> SeriesState:
    series = Series.objects.filter(policy=policy).defer("carry").first()
    runs = Run.objects.filter(kind=KIND, subject=subject_of(policy), state__in=(Run.State.QUEUED, Run.State.RUNNING))
    run = runs.order_by("-state", "-id").first()  # a running one before a waiting one
    progress = None if run is None else run.progress_done / run.progress_total if run.progress_total else 0.0
    hours = {} if series is None else {name: getattr(series, name) for name in ("hours_from_at", "hours_through_at")}
    build = SeriesState(
        run=None if run is None else run.pk, progress=progress, waiting=waiting_of(run, at=clock.now()), **hours
    )
    if series is None or series.through_on is None:
        return build
    zone = site_zone()
    stale_on = stale_from(policy, series, read_inputs(policy, zone), zone)
    local_since = {
        UUID(uid): datetime.fromisoformat(since) for uid, since in series.inputs.get("fallbacks", {}).items()
    }
    return replace(
        build,
        first_on=series.first_on,
        through_on=series.through_on,
        stale_from_on=stale_on,
        local_since=local_since,
    )


def _read_series(
    policy: Policy, uids: Sequence[UUID], from_on: date, to_on: date
) -> tuple[SeriesDays, dict[UUID, int], dict[tuple[int, date], Month]]:
    """Days, slots by entry, and tiles by block and month."""
    params = {"policy": policy.pk, "uids": list(uids), "from_on": from_on, "to_on": to_on}
    with pgbinary.cursor() as cursor:
        row = cursor.execute(_READ, params, binary=True).fetchone() or ()
    on, ends_s, revision, is_first, used, decayed, known, slots, *tiles = (
        () if column is None else column for column in row
    )
    days = SeriesDays(
        on=tuple(on),
        ends_s=np.array(ends_s, np.float64),
        revision=np.array(revision, np.int32),
        is_before_first=np.array(is_first, np.bool_),
        root_used=np.array(used, np.float64),
        root_decayed=np.array(decayed, np.float64),
    )
    by_key = {(block, on): blobs.unpack(data, digest)[0] for block, on, data, digest in zip(*tiles, strict=True)}
    return days, dict(zip(known, slots, strict=True)), by_key


def _by_month(days: Sequence[date]) -> dict[date, list[int]]:
    """Indices of the days of each month, by the month's first day."""
    by_month: dict[tuple[int, int], list[int]] = {}
    for at, on in enumerate(days):
        by_month.setdefault((on.year, on.month), []).append(at)
    return {date(year, month, 1): indices for (year, month), indices in by_month.items()}


def group_by_block(slots: Sequence[int]) -> dict[int, tuple[IndexArray, IndexArray]]:
    """Group indices of entries and their columns by block; entries with slot −1 are skipped."""
    by_block: dict[int, tuple[list[int], list[int]]] = {}
    for index, slot in enumerate(slots):
        if slot >= 0:
            indices, columns = by_block.setdefault(slot // BLOCK, ([], []))
            indices.append(index)
            columns.append(slot % BLOCK)
    return {block: (np.array(indices), np.array(columns)) for block, (indices, columns) in by_block.items()}


def _span(indices: IndexArray) -> IndexArray | slice:
    """Return a slice if the indices are consecutive, as for siblings and days mostly: slices copy faster."""
    return slice(int(indices[0]), int(indices[-1]) + 1) if (np.diff(indices) == 1).all() else indices


def build_series(uids: Sequence[UUID], days: SeriesDays, month: Month) -> DailySeries:
    """Build a DailySeries from stored fields, arrays (entries, days)."""
    n = len(days.on)
    flags = month["flags"][:, :n]
    return DailySeries(
        uids=tuple(uids),
        days=days,
        exists=(flags & EXISTS) > 0,
        competes=(flags & COMPETES) > 0,
        knows_waiting=(flags & KNOWS_WAITING) > 0,
        n_active=month["n_active"][:, :n],
        **{name: month[name][:, :n] for name in AMOUNTS},
    )


def load_hours(policy: Policy, uids: Sequence[UUID]) -> DailySeries:
    """Load all built hours of entries in the given order; `days.on` holds the instants at which the hours start."""
    with consistent_read():
        rows = list(SeriesHour.objects.filter(policy=policy).order_by("begins_at"))
        slots = find_slots(policy, uids)
        on = sorted({row.begins_at.astimezone(UTC).date() for row in rows})
        blocks = {slot // BLOCK for slot in slots.values()}
        tiles = read_tiles(policy, on, blocks, tiles=DAY_TILES) if slots and on else {}
    for tile in tiles.values():
        require_days(tile, HOURS_A_DAY)
    month = empty_month(len(uids), len(rows))
    indices = group_by_block([slots.get(uid, -1) for uid in uids])
    for at, row in enumerate(rows):
        begins_at = row.begins_at.astimezone(UTC)
        for block, (of_block, columns) in indices.items():
            for name, values in tiles.get((block, begins_at.date()), {}).items():
                month[name][of_block, at] = values[begins_at.hour, columns]
    return build_series(uids, _hours(rows), month)


def _hours(rows: Sequence[SeriesHour]) -> SeriesDays:
    zone = site_zone()
    return SeriesDays(
        on=tuple(row.begins_at.astimezone(zone) for row in rows),
        ends_s=np.array([row.begins_at.timestamp() + HOUR_S for row in rows], np.float64),
        revision=np.array([row.revision_number for row in rows], np.int32),
        is_before_first=np.array([row.is_before_first for row in rows], np.bool_),
        root_used=np.array([row.root_used for row in rows], np.float64),
        root_decayed=np.array([row.root_decayed for row in rows], np.float64),
    )


def load_against_today(policy: Policy, uids: Sequence[UUID], *, from_on: date, to_on: date) -> DailySeries:
    """Load entries of the head as if it had been current on all built days between two days, both included.

    Raises TooLarge `too_many_days` over MOST_SERIES_DAYS days or MOST_SERIES_BUCKETS usage buckets.
    """
    stored = SeriesDay.objects.filter(policy=policy, on__range=(from_on, to_on)).order_by("on")
    on = list(stored.values_list("on", flat=True))
    days = days_of(on[0], on[-1], site_zone()) if on else []
    _reject_too_many(len(days), (days[0].from_at, days[-1].to_at) if days else None)
    tree = load_tree(policy)
    raw = np.frombuffer(b"".join(uid.bytes for uid in uids), np.uint8).reshape(len(uids), 16)
    indices = indexes_of(raw, tree)
    month = empty_month(len(uids), len(days))
    built_days: list[BuiltDay] = []
    head = PolicyState.of_revision(policy, policy.head_number, load_revision(policy, policy.head_number)[1])
    for at, day in enumerate(Builder(policy, days, state=head).build(days) if days else ()):
        built_days.append(day)
        for name, values in day.values.columns.items():
            month[name][: len(uids), at] = np.where(indices >= 0, values[np.maximum(indices, 0)], 0)
    return build_series(uids, _series_days(built_days), month)


def _series_days(built_days: Sequence[BuiltDay]) -> SeriesDays:
    return SeriesDays(
        on=tuple(built_day.day.on for built_day in built_days),
        ends_s=np.array([built_day.day.to_s for built_day in built_days], np.float64),
        revision=np.array([built_day.context.number for built_day in built_days], np.int32),
        is_before_first=np.zeros(len(built_days), np.bool_),
        root_used=np.array([built_day.values.root_used for built_day in built_days], np.float64),
        root_decayed=np.array([built_day.values.root_decayed for built_day in built_days], np.float64),
    )


def _reject_too_many(n_days: int, span: tuple[datetime, datetime] | None) -> None:
    n_buckets = 0
    if span is not None and n_days <= MOST_SERIES_DAYS:
        with connection.cursor() as cursor:
            cursor.execute(_COUNT, [*span, MOST_SERIES_BUCKETS + 1])
            n_buckets = int(cursor.fetchone()[0])
    if n_days > MOST_SERIES_DAYS or n_buckets > MOST_SERIES_BUCKETS:
        message = _(
            "At most %(days)s days with %(n)s hours of usage can be compared with the current policy: choose "
            "fewer days."
        )
        raise TooLarge(message % {"days": MOST_SERIES_DAYS, "n": f"{MOST_SERIES_BUCKETS:,}"}, code="too_many_days")
