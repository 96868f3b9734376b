"""Detect hours of a site that two sources cover, and hold them until a manager decides.

Two sources overlap in an hour of a site if both have usage there, and either
- they have different origins (a peer may report what an upload contains too), and the site has a name; or
- they have the same origin and namespace, and both contain the same job (cluster, id, array task, submission, restart);
  up to sixteen jobs of each site and day are checked.
The hours of the second source are held. Later hours of the same two sources follow this order, and hours within a day
of decided ones follow that decision. Hours are compared, not records: sources that don't overlap cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
from django.db import connection, transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.core.errors import FieldProblem, Invalid, NotFound
from apps.usage import changed_hours
from apps.usage.authority import require_create
from apps.usage.bucket_deltas import RESOURCES, Delta
from apps.usage.models import Overlap, Source
from apps.usage.parsers.base import I8, RecordBatch
from apps.usage.pgbinary import cursor, int8_array, text_array
from apps.usage.records.stored_versions import find_stored, lock_source

HOUR = timedelta(hours=1)
_NEAR = timedelta(days=1)
_LOCK = 0x66734F76  # one process at a time checks for overlaps
_JOBS_A_DAY = 16
_DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTE = """
INSERT INTO usage_siteday (source_id, site, day, hours)
SELECT %s::int8, site, DATE '1970-01-01' + day::int, hours::int FROM unnest(%s::text[], %s::int8[], %s::int8[])
    AS given(site, day, hours)
ON CONFLICT (site, day, source_id) DO UPDATE SET hours = usage_siteday.hours | EXCLUDED.hours
    WHERE usage_siteday.hours | EXCLUDED.hours <> usage_siteday.hours
"""
_COMMON = """
SELECT theirs.source_id, other.origin <> mine.origin, theirs.site, theirs.day - DATE '1970-01-01',
    theirs.hours & given.hours::int
FROM unnest(%s::text[], %s::int8[], %s::int8[]) AS given(site, day, hours)
JOIN usage_siteday AS theirs ON theirs.site = given.site AND theirs.day = DATE '1970-01-01' + given.day::int
JOIN usage_source AS mine ON mine.id = %s
JOIN usage_source AS other ON other.id = theirs.source_id
WHERE other.id <> mine.id AND theirs.hours & given.hours::int <> 0
    AND other.archived_at IS NULL
    AND (other.origin <> mine.origin AND given.site <> ''
        OR other.origin = mine.origin AND other.namespace = mine.namespace)
"""

_REBUILD = """
WITH now AS (
    SELECT site, (hour_at AT TIME ZONE 'UTC')::date AS day,
        bit_or(1 << extract(hour FROM hour_at AT TIME ZONE 'UTC')::int) AS hours
    FROM usage_bucket WHERE source_id = %(source)s AND hour_at >= %(from_at)s AND hour_at < %(to_at)s
        AND cpu_s + gpu_s + mem_gb_s + node_s + billing > 0 GROUP BY 1, 2),
gone AS (
    DELETE FROM usage_siteday AS old WHERE source_id = %(source)s
        AND day >= (%(from_at)s AT TIME ZONE 'UTC')::date AND day < (%(to_at)s AT TIME ZONE 'UTC')::date
        AND NOT EXISTS (SELECT FROM now WHERE now.site = old.site AND now.day = old.day))
UPDATE usage_siteday AS old SET hours = now.hours FROM now
WHERE old.source_id = %(source)s AND old.site = now.site AND old.day = now.day AND old.hours <> now.hours
"""
_DELETE_RESOLVED = """
DELETE FROM usage_overlap AS overlap
WHERE (held_id = %(source)s OR kept_id = %(source)s) AND state = 'held' AND NOT EXISTS (
    SELECT FROM usage_siteday AS a JOIN usage_siteday AS b ON b.site = a.site AND b.day = a.day
    WHERE a.source_id = held_id AND b.source_id = kept_id AND a.site = overlap.site AND a.hours & b.hours <> 0
        AND a.day >= (from_at AT TIME ZONE 'UTC')::date AND a.day <= (to_at AT TIME ZONE 'UTC')::date)
RETURNING held_id, from_at
"""


class Presence(NamedTuple):
    """Hours with new usage by site and day. Bit n of `hours` is hour n of the day (UTC)."""

    sites: list[bytes]
    day: I8
    hours: I8


def compute_presence(delta: Delta) -> Presence:
    # Jobs are ignored: one that ends exactly on the hour is counted in the next hour, and uses nothing there.
    used = delta.amounts[:, : len(RESOURCES)]
    added = np.flatnonzero(used.max(axis=1, initial=0) > 0)
    day, hour = np.divmod(delta.hour[added], 24)
    n_sites = max(len(delta.sites), 1)
    key = day * n_sites + delta.site_index[added]
    order = np.argsort(key, kind="stable")
    keys, first = np.unique(key[order], return_index=True)
    hours = np.bitwise_or.reduceat(np.left_shift(1, hour[order]), first) if len(keys) else np.zeros(0, np.int64)
    return Presence(delta.sites[keys % n_sites].tolist() if len(keys) else [], keys // n_sites, hours)


def lock_overlaps() -> None:
    """Lock all overlaps against other writers until the end of the transaction; after the sources that it writes."""
    with cursor() as db_cursor:
        db_cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", [_LOCK])


def add_presence(source: Source, delta: Delta, written: RecordBatch, *, has_rivals: bool, at: datetime) -> None:
    """Store in which hours the source has usage now, and hold those that another source covers; in the caller's
    transaction.
    """
    seen = compute_presence(delta)
    if not len(seen.day):
        return
    parameters = [text_array(np.array(seen.sites, np.bytes_)), int8_array(seen.day), int8_array(seen.hours)]
    if has_rivals:
        lock_overlaps()
    with cursor() as db_cursor:
        db_cursor.execute(_NOTE, [source.pk, *parameters])
        common = db_cursor.execute(_COMMON, [*parameters, source.pk]).fetchall() if has_rivals else []
    if common:
        _hold_common(source, common, written, at)


def _hold_common(
    source: Source, common: Sequence[tuple[int, bool, str, int, int]], written: RecordBatch, at: datetime
) -> None:
    alike = {other_id for other_id, is_elsewhere, *_ in common if not is_elsewhere}
    days_of = {other_id: _days_of_same_jobs(other_id, written) for other_id in alike}
    hours: dict[tuple[int, str], set[int]] = {}
    for other_id, is_elsewhere, site, day, mask in common:
        if is_elsewhere or day in days_of[other_id]:
            common_hours = hours.setdefault((other_id, site), set())
            common_hours |= {day * 24 + n for n in range(24) if mask >> n & 1}
    moved = {_hold(other_id, source.pk, site, hour_set, at) for (other_id, site), hour_set in sorted(hours.items())}
    raise_watermarks(moved - {0, source.pk})


def _days_of_same_jobs(other_id: int, written: RecordBatch) -> set[int]:
    """Days on which the other source has some of these jobs; at most sixteen jobs of each day are checked."""
    day = written.end_us // _DAY_US
    usable = np.flatnonzero(written.end_us > 0)
    order = usable[np.argsort(day[usable], kind="stable")]
    _, first, size = np.unique(day[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(first, size)
    few = written.take(np.sort(order[rank % np.maximum(np.repeat(size, size) // _JOBS_A_DAY, 1) == 0]))
    same = np.flatnonzero(find_stored(other_id, few).id)
    spans = zip((few.start_us[same] // _DAY_US).tolist(), (few.end_us[same] // _DAY_US).tolist(), strict=True)
    return {epoch_day for first_day, last_day in spans for epoch_day in range(first_day, last_day + 1)}


def _hold(other_id: int, source_id: int, site: str, hours: set[int], at: datetime) -> int:
    """Hold hours that no overlap covers yet; returns the source whose countable usage this changes, or 0."""
    pair = Overlap.objects.filter(site=site, kept_id__in=(other_id, source_id), held_id__in=(other_id, source_id))
    known = list(pair.select_for_update(no_key=True).order_by("from_at"))
    kept_id, held_id = (known[0].kept_id, known[0].held_id) if known else (other_id, source_id)
    covered = {n for overlap in known for n in range(_hour(overlap.from_at), _hour(overlap.to_at))}
    for first, last in _runs(sorted(hours - covered)):
        from_at, to_at = _EPOCH + first * HOUR, _EPOCH + (last + 1) * HOUR
        beside = next(
            (overlap for overlap in known if overlap.from_at <= to_at + _NEAR and overlap.to_at >= from_at - _NEAR),
            None,
        )
        if beside is not None and (beside.to_at == from_at or beside.from_at == to_at):
            beside.from_at, beside.to_at = min(beside.from_at, from_at), max(beside.to_at, to_at)
            beside.save(update_fields=["from_at", "to_at"])
            continue
        made = Overlap(site=site, kept_id=kept_id, held_id=held_id, from_at=from_at, to_at=to_at, found_at=at)
        if beside is not None:
            made.state, made.reason = beside.state, beside.reason
            made.decided_at, made.decided_by_id = beside.decided_at, beside.decided_by_id
        made.save()
        known.append(made)
    if not hours - covered:
        return 0
    changed_hours.note_hour(held_id, min(hours - covered))
    return int(held_id)


def raise_watermarks(source_ids: Iterable[int]) -> None:
    """Raise the watermarks of sources whose countable usage changed, so that the next recompute reads it again."""
    with connection.cursor() as plain:
        ids = sorted(source_ids)
        if ids:
            plain.execute("UPDATE usage_source SET watermark = watermark + 1 WHERE id = ANY(%s)", [ids])


@transaction.atomic
def decide_overlap(
    *, site: str, kept_slug: str, held_slug: str, counts: bool, reason: str, at: datetime, actor: Actor
) -> int:
    """Decide an overlap of two sources at a site: both count (different jobs), or only the first. Returns the number of
    rows.

    Raises:
        NotAllowed: the actor is not an administrator.
        NotFound: these two sources don't overlap there.
        Invalid: the reason is missing.
    """
    require_create(actor, held_slug)
    if not reason.strip():
        message = "Enter a reason: readers of the numbers will need it."
        raise Invalid(message, fields=[FieldProblem("reason", message)])
    held = Source.all_objects.filter(slug=held_slug).first()
    if held is None:
        raise NotFound(f"There is no usage source {held_slug[:64]!r}.")
    lock_source(held.pk)
    rows = Overlap.objects.filter(site=site, kept__slug=kept_slug, held=held)
    state = Overlap.State.COUNTED if counts else Overlap.State.DROPPED
    n = rows.update(state=state, decided_at=at, decided_by=actor.user, reason=reason.strip())
    if not n:
        raise NotFound(f"{held_slug[:64]!r} and {kept_slug[:64]!r} don't overlap at {site[:64]!r}.")
    changed_hours.note_change(held.pk, min(rows.values_list("from_at", flat=True)))
    raise_watermarks([held.pk])
    details = {"site": site, "kept": kept_slug, "counts": counts, "reason": reason.strip()}
    audit.record(actor=actor, verb="usage.overlap_decided", at=at, subject=held_slug, details=details)
    return n


def remove_presence(source_id: int, *, from_at: datetime, to_at: datetime) -> None:
    """After a removal of usage: recompute in which hours the source still has usage, and delete resolved overlaps."""
    first, last = (at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) for at in (from_at, to_at))
    parameters: dict[str, int | datetime] = {"source": source_id, "from_at": first, "to_at": last + timedelta(days=1)}
    with connection.cursor() as plain:
        plain.execute(_REBUILD, parameters)
        plain.execute(_DELETE_RESOLVED, parameters)
        settled: dict[int, datetime] = {}
        for held_id, since_at in plain.fetchall():
            settled[held_id] = min(settled.get(held_id, since_at), since_at)
    for held_id, since_at in sorted(settled.items()):
        changed_hours.note_change(held_id, since_at)
    raise_watermarks(settled.keys() - {source_id})  # the caller raises that of source_id


def _hour(at: datetime) -> int:
    return (at - _EPOCH) // HOUR


def _runs(hours: list[int]) -> list[tuple[int, int]]:
    """Ranges of consecutive hours as (first, last)."""
    runs: list[tuple[int, int]] = []
    for n in hours:
        if runs and runs[-1][1] == n - 1:
            runs[-1] = (runs[-1][0], n)
        else:
            runs.append((n, n))
    return runs
