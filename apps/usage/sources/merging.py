"""Merge a source into another that reports the same jobs: each job counts once, and later ones are kept."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max, Min, Q, QuerySet

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.core.errors import Conflict, FieldProblem, Invalid, NotFound
from apps.usage.authority import require_create, require_open
from apps.usage.models import Overlap, Record, SiteDay, Source
from apps.usage.parsers.base import RecordBatch, RecordRow
from apps.usage.pgbinary import cursor as binary_cursor
from apps.usage.records.ingest import fill_defaults, ingest_batch, rebuild
from apps.usage.records.overlaps import lock_overlaps
from apps.usage.records.record_keys import OF_KEYS, key_parameters
from apps.usage.records.stored_runs import adopt_lines, row_of
from apps.usage.records.stored_versions import VANISHED, find_stored, lock_source
from apps.usage.records.versions import Counts
from apps.usage.sources.services import set_archived

MOST_MERGED = 500_000
_PIECE = 20_000
_DAY = timedelta(days=1)
_MARK_VANISHED = f"UPDATE usage_record AS record SET note = '{VANISHED}' FROM {OF_KEYS}"  # noqa: S608 - constants only
_COLLECTING = ("kind", "collecting", "collect_every_s", "collect_due_at", "cursor", "collected_at", "is_paused")


@transaction.atomic
def merge_sources(*, kept_slug: str, merged_slug: str, reason: str, at: datetime, actor: Actor) -> Counts:
    """Add the jobs of a source to another one of the same site and namespace, and archive it.

    The other source is then collected as this one was, unless it already is. Hours of the archived source are not
    counted if it is restored.

    Raises:
        NotAllowed: the actor is not an administrator.
        NotFound: there is no such source.
        Invalid: the reason is missing.
        Conflict: the sources have other namespaces or origins, records were removed of a time of which the merged one
            has jobs, or there are too many.
    """
    for slug in (kept_slug, merged_slug):
        require_create(actor, slug)
    if not reason.strip():
        message = "Enter a reason: readers of the numbers will need it."
        raise Invalid(message, fields=[FieldProblem("reason", message)])
    sources = {source.slug: source for source in Source.objects.filter(slug__in=(kept_slug, merged_slug))}
    if len(sources) < 2:
        raise NotFound(f"There are no two usage sources {kept_slug[:64]!r} and {merged_slug[:64]!r}.")
    kept, merged = sources[kept_slug], sources[merged_slug]
    _refuse(kept, merged)
    for source_id in sorted((kept.pk, merged.pk)):
        lock_source(source_id)
    lock_overlaps()
    set_archived(merged.pk, at)
    counts, by_lines = Counts(), adopt_lines(kept, merged)
    records = Record.objects.filter(source=merged)
    for piece in _pieces(records.exclude(note=VANISHED)):
        counts.add(ingest_batch(source=kept, rows=piece, at=at))
    rebuild(kept, by_lines, at=at)
    for piece in _pieces(records.filter(note=VANISHED)):
        counts.add(_adopt_vanished(kept, piece, at))
    _keep_uncounted(kept, merged, reason.strip(), at, actor)
    _go_on_collecting(kept, merged)
    details = {"kept": kept.slug, "reason": reason.strip(), **counts.as_dict()}
    audit.record(actor=actor, verb="usage.sources_merged", at=at, subject=merged.slug, details=details)
    return counts


def _refuse(kept: Source, merged: Source) -> None:
    require_open(kept)
    if (kept.namespace, kept.origin) != (merged.namespace, merged.origin):
        raise Conflict("Only sources of one namespace and site can be merged.", code="not_mergeable")
    if merged.sealed_before_at is not None:
        raise Conflict("Its old records were removed, so that they can't be added to another source.", code="sealed")
    if kept.sealed_before_at is not None and Record.objects.filter(
        Q(end_at__lt=kept.sealed_before_at) | Q(start_at__lt=kept.sealed_before_at), source=merged
    ):
        raise Conflict(
            f"Records of {kept.slug} before {kept.sealed_before_at:%Y-%m-%d} were removed, and {merged.slug} has jobs "
            "of that time, which would count no more. Archive one of them instead, or keep both.",
            code="kept_sealed",
        )
    if merged.n_records > MOST_MERGED:
        raise Conflict(f"It has more than {MOST_MERGED:,} records: import its log into the other.", code="too_many")


def _adopt_vanished(kept: Source, rows: list[RecordRow], at: datetime) -> Counts:
    """Add jobs that a listing missed, and of which the kept source knows nothing.

    That they are over was inferred, not reported: they keep the note, so that any report of them replaces them.
    """
    batch = fill_defaults(RecordBatch.from_rows(rows), kept)
    batch = batch.take(find_stored(kept.pk, batch).id == 0)
    if not len(batch):
        return Counts()
    counts = ingest_batch(source=kept, rows=batch, at=at)
    with binary_cursor() as cursor:
        cursor.execute(_MARK_VANISHED, key_parameters(kept.pk, batch))
    return counts


def _pieces(records: QuerySet[Record]) -> Iterator[list[RecordRow]]:
    ids = records.aggregate(first=Min("pk"), last=Max("pk"))
    rows = records.select_related("account", "job_class").order_by("pk")
    for after_id in range((ids["first"] or 1) - 1, ids["last"] or 0, _PIECE):
        piece = [row_of(record) for record in rows.filter(pk__gt=after_id, pk__lte=after_id + _PIECE)]
        if piece:
            yield piece


def _keep_uncounted(kept: Source, merged: Source, reason: str, at: datetime, actor: Actor) -> None:
    """Hold all hours of the merged source, so that restoring it counts no job twice."""
    Overlap.objects.filter(kept__in=(kept, merged), held__in=(kept, merged)).delete()
    spans = SiteDay.objects.filter(source=merged).values_list("site").annotate(Min("day"), Max("day"))
    for site, first, last in spans:
        from_at, to_at = (datetime.combine(day, datetime.min.time(), at.tzinfo) for day in (first, last + _DAY))
        Overlap.objects.create(
            site=site,
            kept=kept,
            held=merged,
            from_at=from_at,
            to_at=to_at,
            state=Overlap.State.DROPPED,
            found_at=at,
            decided_at=at,
            decided_by=actor.user,
            reason=reason,
        )


def _go_on_collecting(kept: Source, merged: Source) -> None:
    kept.refresh_from_db()
    changed = []
    if merged.is_collected and not kept.is_collected:
        for name in _COLLECTING:
            setattr(kept, name, getattr(merged, name))
        kept.time_zone = merged.time_zone or kept.time_zone
        kept.expected_every_s = kept.expected_every_s or merged.expected_every_s
        changed += [*_COLLECTING, "time_zone", "expected_every_s"]
    if merged.billing_weights and not kept.billing_weights:
        kept.billing_weights = merged.billing_weights
        changed.append("billing_weights")
    if changed:
        kept.save(update_fields=changed)
