"""Store the usage that a peer reports: hourly sums by account and running jobs, no records.

Sums are absolute: they replace the stored sums of their hours, so that repetition and order change nothing. Their
totals are stored as sealed hours, against which the bucket audit checks the buckets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.db import IntegrityError, connection, transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.entry_accounts import ENTRY_NAMESPACE
from apps.core.errors import Conflict, FieldProblem, Invalid
from apps.runs.fault_points import fault_point
from apps.usage import bucket_deltas, buckets, changed_hours, pgbinary
from apps.usage.bucket_deltas import AMOUNTS, QUANTA, RESOURCES
from apps.usage.columns import RATE_ARRAYS
from apps.usage.models import JobClass, Overlap, Source
from apps.usage.parsers.base import (
    F8,
    FINISHED,
    I8,
    NO_TIME,
    RUNNING,
    Flags,
    RecordBatch,
    instant,
    text_column,
)
from apps.usage.pgbinary import float8_array, int8_array, timestamptz_array
from apps.usage.records import overlaps
from apps.usage.records.ingest import read_limits
from apps.usage.records.record_rows import copy_records, hold_references
from apps.usage.records.stored_versions import lock_source

MOST_ORIGIN = 128
_SLUG = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ADD_SEALED = f"""
INSERT INTO usage_sealedhour AS known (source_id, hour_at, n_records, {", ".join(AMOUNTS)})
SELECT %s::int8, given.hour_at, 0, {", ".join(f"given.{name}" for name in AMOUNTS)}
FROM unnest(%s::timestamptz[], {", ".join(["%s::float8[]"] * len(AMOUNTS))}) AS given(hour_at, {", ".join(AMOUNTS)})
ON CONFLICT (source_id, hour_at) DO UPDATE SET {", ".join(f"{name} = EXCLUDED.{name}" for name in AMOUNTS)}
WHERE ({", ".join(f"known.{name}" for name in AMOUNTS)}) <> ({", ".join(f"EXCLUDED.{name}" for name in AMOUNTS)})
"""  # noqa: S608 - constants only

_ADVANCE = """
UPDATE usage_source SET watermark = watermark + %s, last_record_end_at = GREATEST(last_record_end_at, %s),
    last_submit_at = GREATEST(last_submit_at, %s), last_received_at = GREATEST(last_received_at, %s)
WHERE id = %s
"""

_STORED_RUNNING = f"""
SELECT array_agg(id), array_agg(account_id), array_agg(start_at), {RATE_ARRAYS},
    array_agg(COALESCE(requested_s, 'NaN'))
FROM usage_record WHERE source_id = %s AND state <> {FINISHED}
"""  # noqa: S608 - constants only
_DELETE_RUNNING = f"""
DELETE FROM usage_record WHERE source_id = %s::int4 AND state <> {FINISHED} AND id + 0 = ANY(%s::int8[])
"""  # noqa: S608 - constants only


@dataclass(frozen=True, slots=True)
class HourSums:
    """Usage by hour and account, each pair once.

    hour: since 1970. amounts: (n, 6), in the order and units of bucket_deltas.AMOUNTS, multiples of 2⁻¹⁰.
    """

    hour: I8
    account_id: I8
    amounts: F8


@dataclass(frozen=True, slots=True)
class RunningJobs:
    """RunningJobs jobs. start_us: since 1970. billing: units per second. requested_s: NaN if unknown."""

    account_id: I8
    start_us: I8
    cpus: F8
    gpus: F8
    mem_mb: F8
    nodes: F8
    billing: F8
    requested_s: F8

    def __len__(self) -> int:
        return len(self.account_id)


@transaction.atomic
def make_peer_source(*, slug: str, name: str, origin: str, site: str, at: datetime, actor: Actor) -> Source:
    """Create the source of a peer's feed. The caller checks permission.

    Raises:
        Conflict: a source with this slug exists.
        Invalid: an invalid name, or no origin: usage without an origin is local.
    """
    _check_names(slug, name, origin, site)
    try:
        with transaction.atomic():
            source = Source.all_objects.create(
                slug=slug,
                name=name.strip(),
                origin=origin,
                site=site,
                namespace=ENTRY_NAMESPACE,
                kind=Source.Kind.PEER,
                watermark=changed_hours.first_watermark(slug),
                created_at=at,
            )
    except IntegrityError as error:
        raise Conflict(f"There is a usage source {slug!r} already.", code="source_exists") from error
    changed_hours.note_all_changed([source.pk])
    details = {"namespace": source.namespace, "origin": origin, "site": site}
    audit.record(actor=actor, verb="source.made", at=at, subject=slug, details=details)
    return source


def replace_sums(source: Source, *, hours: I8, rows: HourSums, at: datetime) -> None:
    """Replace the sums of these hours of a peer, in the caller's transaction; identical sums change nothing.

    hours: all reported hours since 1970, including those without usage.

    Raises:
        ValueError: rows of an unreported hour, duplicate, negative or not finite; a validated document has none.
    """
    _refuse_others(source)
    job_class_id = _empty_job_class_id()
    lock_source(source.pk)
    hours = np.unique(hours)
    used = _checked(hours, rows)
    hold_references(source.pk, used.account_id, np.array([job_class_id]))
    facts = buckets.ReportedHours(hours, source.site, job_class_id, used.hour, used.account_id, used.amounts)
    changed = buckets.replace_hours(source.pk, facts)
    # Totals by hour, shape (hours, 6); exact, as sums of multiples of 2⁻¹⁰.
    index = np.searchsorted(hours, used.hour)
    columns = [np.bincount(index, weights=column, minlength=len(hours)) for column in used.amounts.T]
    totals = np.stack(columns, axis=1).astype(np.float64)
    _seal(source.pk, hours, totals)
    if len(changed):
        changed_hours.note_hour(source.pk, int(changed.min()))
        _note_presence(source, hours, totals, changed, at)
    fault_point("usage.sums.before_commit")
    _advance(source, at, is_changed=bool(len(changed)), last_end_at=_last_end(hours, totals, at))


def replace_running(source: Source, running: RunningJobs, *, at: datetime) -> None:
    """Replace the running jobs of a peer, in the caller's transaction; identical jobs change nothing.

    Jobs have no names here: unchanged ones stay, others are deleted and inserted.
    """
    _refuse_others(source)
    job_class_id = _empty_job_class_id()
    lock_source(source.pk)
    stored_id, stored = _stored_running(source.pk)
    kept, known = _match(stored, running)
    gone, new = np.flatnonzero(~kept), np.flatnonzero(~known)
    if len(gone):
        with pgbinary.cursor() as db_cursor:
            db_cursor.execute(_DELETE_RUNNING, [source.pk, int8_array(stored_id[gone])])
    if len(new):
        number = Source.all_objects.values_list("watermark", flat=True).get(pk=source.pk)
        batch = _batch_of(running, new, site=source.site, number=number)
        job_class = np.full(len(new), job_class_id, np.int64)
        copy_records(source.pk, batch, running.account_id[new], job_class, None, at)
    last_us = int(running.start_us[new].max()) if len(new) else NO_TIME
    _advance(source, at, is_changed=bool(len(gone) or len(new)), last_submit_at=instant(last_us))


@transaction.atomic
def record_contact(source_id: int, *, at: datetime) -> None:
    """Confirm the peer's last report: its jobs have been running until now."""
    Source.all_objects.filter(pk=source_id, kind=Source.Kind.PEER).update(last_received_at=at)


@transaction.atomic
def delete_peer_source(source: Source, *, at: datetime, actor: Actor) -> None:
    """Delete a peer's source and all its usage. Hours held as duplicates of it count again."""
    _refuse_others(source)
    lock_source(source.pk)
    for held_id, from_at in _held_by(source):
        changed_hours.note_change(held_id, from_at)
        overlaps.raise_watermarks([held_id])
    buckets.delete_source_buckets(source.pk)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM usage_record WHERE source_id = %s", [source.pk])
    watermark = Source.all_objects.values_list("watermark", flat=True).get(pk=source.pk)
    details = {"origin": source.origin, "site": source.site, "watermark": watermark}
    audit.record(actor=actor, verb="source.forgotten", at=at, subject=source.slug, details=details)
    Source.all_objects.get(pk=source.pk).delete()


def _refuse_others(source: Source) -> None:
    if source.kind != Source.Kind.PEER:
        raise ValueError(f"{source.slug} is not a peer's source: its usage comes from records.")


def _check_names(slug: str, name: str, origin: str, site: str) -> None:
    problems = []
    if not _SLUG.fullmatch(slug):
        problems.append(FieldProblem("slug", "A slug has 1 to 64 letters, digits, - and _."))
    for where, text, most in (("name", name, 128), ("origin", origin, MOST_ORIGIN), ("site", site, 128)):
        if not text.strip() or len(text) > most or not text.isprintable():
            problems.append(FieldProblem(where, f"Write 1 to {most} printable characters."))
    if problems:
        raise Invalid("These names can't be used for a peer's source.", code="bad_source", fields=problems)


def _empty_job_class_id() -> int:
    """The job class without queue, partition and quality of service: peers don't report them."""
    return JobClass.objects.get_or_create(queue="", partition="", qos="")[0].pk


def _checked(hours: I8, rows: HourSums) -> HourSums:
    """Check and sort rows, round to multiples of 2⁻¹⁰, and drop rows that are all 0."""
    if not (np.isfinite(rows.amounts).all() and (rows.amounts >= 0).all()):
        raise ValueError("Sums are finite and at least 0.")
    if not np.isin(rows.hour, hours).all():
        raise ValueError("There are sums of an hour that is not reported.")
    amounts = np.rint(rows.amounts * QUANTA) / QUANTA
    order = np.lexsort((rows.account_id, rows.hour))
    hour, account_id = rows.hour[order], rows.account_id[order]
    if ((hour[1:] == hour[:-1]) & (account_id[1:] == account_id[:-1])).any():
        raise ValueError("An account is reported twice in one hour.")
    order = order[amounts[order].any(axis=1)]
    return HourSums(rows.hour[order], rows.account_id[order], amounts[order])


def _seal(source_id: int, hours: I8, totals: F8) -> None:
    """Store the totals of each reported hour; an hour without usage is deleted, as if never reported."""
    is_used = totals.any(axis=1)
    with pgbinary.cursor() as cursor:
        empty = timestamptz_array(hours[~is_used] * bucket_deltas.HOUR_US)
        cursor.execute(
            "DELETE FROM usage_sealedhour WHERE source_id = %s AND hour_at = ANY(%s::timestamptz[])", [source_id, empty]
        )
        amounts = [float8_array(np.ascontiguousarray(column)) for column in totals[is_used].T]
        cursor.execute(_ADD_SEALED, [source_id, timestamptz_array(hours[is_used] * bucket_deltas.HOUR_US), *amounts])


def _note_presence(source: Source, hours: I8, totals: F8, changed: I8, at: datetime) -> None:
    """Update in which hours the site has usage, from the changed hours: other sources may overlap."""
    amounts = np.rint(totals * QUANTA).astype(np.int64)
    is_used = amounts[:, : len(RESOURCES)].any(axis=1)
    is_changed = np.isin(hours, changed)
    there, empty = np.flatnonzero(is_changed & is_used), hours[is_changed & ~is_used]
    zero = np.zeros(len(there), np.int64)
    sites = text_column([source.site])
    delta = bucket_deltas.Delta(zero, sites[zero], zero, hours[there], amounts[there], zero, sites)
    nothing = RecordBatch.from_rows([])
    overlaps.add_presence(source, delta, nothing, has_rivals=read_limits(source.pk).has_rivals, at=at)
    for day in np.unique(empty // 24).tolist():
        from_at = instant(day * 24 * bucket_deltas.HOUR_US)
        if from_at is not None:
            overlaps.remove_presence(source.pk, from_at=from_at, to_at=from_at)


def _last_end(hours: I8, totals: F8, at: datetime) -> datetime | None:
    """End of the last hour with usage, or `at` if that hour is not over."""
    used = hours[totals.any(axis=1)]
    end_at = instant((int(used.max()) + 1) * bucket_deltas.HOUR_US) if len(used) else None
    return None if end_at is None else min(end_at, at)


def _advance(
    source: Source,
    at: datetime,
    *,
    is_changed: bool,
    last_end_at: datetime | None = None,
    last_submit_at: datetime | None = None,
) -> None:
    """Set the last contact, and raise the watermark only if something changed."""
    with connection.cursor() as cursor:
        cursor.execute(_ADVANCE, [int(is_changed), last_end_at, last_submit_at, at, source.pk])


def _stored_running(source_id: int) -> tuple[I8, RunningJobs]:
    columns = pgbinary.fetch_columns(_STORED_RUNNING, [source_id])
    if columns:
        return columns[0], RunningJobs(*columns[1:])
    none, nothing = np.zeros(0, np.int64), np.zeros(0)
    return none, RunningJobs(none, none, *[nothing] * 6)


def _match(stored: RunningJobs, reported: RunningJobs) -> tuple[Flags, Flags]:
    """Which stored and which reported jobs have an equal counterpart, pairing equal jobs one to one."""
    rows = np.concatenate([_comparable_rows(stored), _comparable_rows(reported)])
    _, kind = np.unique(rows, axis=0, return_inverse=True)
    stored_kind, reported_kind = kind.ravel()[: len(stored)], kind.ravel()[len(stored) :]
    n_stored, n_reported = (
        np.bincount(each, minlength=int(kind.max(initial=0)) + 1) for each in (stored_kind, reported_kind)
    )
    both = np.minimum(n_stored, n_reported)
    return _occurrence(stored_kind) < both[stored_kind], _occurrence(reported_kind) < both[reported_kind]


def _comparable_rows(running: RunningJobs) -> I8:
    """Shape (n, 8): equal rows are equal jobs. NaN and −0 are normalised."""
    numbers = (running.cpus, running.gpus, running.mem_mb, running.nodes, running.billing, running.requested_s)
    bits = [np.where(np.isnan(number), np.nan, number + 0.0).view(np.int64) for number in numbers]
    return np.stack([running.account_id, running.start_us, *bits], axis=1)


def _occurrence(kind: I8) -> I8:
    """For each element, the number of earlier elements of the same kind."""
    order = np.argsort(kind, kind="stable")
    first = np.searchsorted(kind[order], kind[order], side="left")
    index = np.empty(len(kind), np.int64)
    index[order] = np.arange(len(kind)) - first
    return index


def _batch_of(running: RunningJobs, chosen: I8, *, site: str, number: int) -> RecordBatch:
    """Records of the chosen jobs.

    number: makes their names differ from those of jobs received at other times.
    """
    n = len(chosen)
    zero, nothing = np.zeros(n, np.int64), np.zeros(n, dtype="S1")
    start_us = running.start_us[chosen]
    return RecordBatch(
        line=zero,
        job=text_column([f"{number}.{index}" for index in range(n)]),
        array_task=nothing,
        cluster=nothing,
        site=np.full(n, site.encode()),
        restart=zero,
        revision=zero,
        state=np.full(n, RUNNING, np.int64),
        who=zero,
        job_class=zero,
        submit_us=start_us,
        start_us=start_us,
        end_us=np.full(n, NO_TIME, np.int64),
        cpus=running.cpus[chosen],
        gpus=running.gpus[chosen],
        nodes=running.nodes[chosen],
        mem_mb=running.mem_mb[chosen],
        billing=running.billing[chosen],
        requested_s=running.requested_s[chosen],
        is_charge=np.zeros(n, np.bool_),
        people=[],
        job_classes=[],
    )


def _held_by(source: Source) -> Sequence[tuple[int, datetime]]:
    """Sources with hours that don't count because this source covers them, and the first such hour."""
    held: dict[int, datetime] = {}
    undecided = Overlap.objects.filter(kept=source).exclude(state=Overlap.State.COUNTED)
    for held_id, from_at in undecided.values_list("held_id", "from_at"):
        held[held_id] = min(held.get(held_id, from_at), from_at)
    return sorted(held.items())
