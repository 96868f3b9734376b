"""Create usage sources, import files and accept pushed records."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any, NamedTuple
from uuid import uuid4
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db import IntegrityError, transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.entry_accounts import refuse_reserved
from apps.accounts.idempotency import get_stored_answer, store_answer
from apps.core.column_bounds import most_characters
from apps.core.counts import counted
from apps.core.errors import Conflict, FieldProblem, Invalid, Malformed, NotFound, TooLarge
from apps.core.packing import MOST_UNPACKING, Bounds, Damaged, Expands, unpack_gzip
from apps.runs.models import Run
from apps.runs.services import enqueue_run
from apps.usage import bucket_deltas, changed_hours
from apps.usage.authority import require_create, require_open, require_write
from apps.usage.models import Import, Source
from apps.usage.parsers.base import NO_TIME
from apps.usage.parsers.records_json import MOST_RECORD_VALUES, Records, parse_records
from apps.usage.parsers.registry import format_of
from apps.usage.parsers.slurm_billing import BillingWeights
from apps.usage.records import uploads
from apps.usage.records.imports import KIND, Preview, preview
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.versions import Counts

MOST_BODY_BYTES = 32 * 1024**2
MOST_BODY_VALUES = MOST_RECORD_VALUES  # of a JSON list
MOST_JOB_HOURS = 20_000_000  # job hours of all records of one request: bounds its processing time
MOST_NAMED_REJECTIONS = 1000
_READ = 256 * 1024
_SLUG = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class NewSource:
    """A usage source to create. names_people: its user names are sign-in names, so that a person owns the account."""

    slug: str
    name: str
    namespace: str = ""
    site: str = ""
    cluster: str = ""
    time_zone: str = ""
    origin: str = ""
    expected_every_s: int | None = None
    names_people: bool = False
    is_sample: bool = False


@transaction.atomic
def make_source(new: NewSource, *, at: datetime, actor: Actor) -> Source:
    """Create a usage source. Without a namespace, its slug becomes the namespace of its user names."""
    require_create(actor, new.slug)
    _refuse_slug(new.slug)
    if not new.name.strip() or len(new.name) > most_characters(Source, "name"):
        raise _invalid("name", f"Give the source a name of 1 to {most_characters(Source, 'name')} characters.")
    zone_of(new.time_zone)
    refuse_reserved(new.namespace)
    try:
        with transaction.atomic():
            source = Source.all_objects.create(
                slug=new.slug,
                name=new.name.strip(),
                namespace=new.namespace or new.slug,
                site=new.site,
                cluster=new.cluster,
                time_zone=new.time_zone,
                origin=new.origin,
                expected_every_s=new.expected_every_s,
                names_people=new.names_people,
                is_sample=new.is_sample,
                watermark=changed_hours.first_watermark(new.slug),
                created_at=at,
            )
    except IntegrityError as error:
        raise Conflict(f"There is a usage source {new.slug!r} already.", code="source_exists") from error
    if source.watermark:
        changed_hours.note_all_changed([source.pk])  # also hours in which only the former source had usage
    audit.record(actor=actor, verb="source.made", at=at, subject=new.slug, details={"namespace": source.namespace})
    return source


def ensure_source(*, slug: str, time_zone: str = "", at: datetime, actor: Actor) -> tuple[Source, bool]:
    """Return the source with this slug, creating it if needed, and whether it was created."""
    source = Source.all_objects.filter(slug=slug).first()
    if source is not None:
        return source, False
    try:
        return make_source(NewSource(slug=slug, name=slug, time_zone=time_zone), at=at, actor=actor), True
    except Conflict:  # a concurrent request created it
        return Source.all_objects.get(slug=slug), False


def set_billing_weights(source: Source, weights: Mapping[str, Any], *, at: datetime, actor: Actor) -> None:
    """Compute the source's billing from these weights from now on. Records that it has stay until they come again."""
    require_write(actor, source.slug)
    before, after = source.billing_weights, BillingWeights.from_json(weights).to_json()
    if before != after:
        source.billing_weights = after
        source.save(update_fields=["billing_weights"])
        details = {"before": {"billing_weights": before}, "after": {"billing_weights": after}}
        audit.record(actor=actor, verb="source.changed", at=at, subject=source.slug, details=details)


def zone_of(name: str) -> ZoneInfo | None:
    """Parse a time zone name; an empty name gives None.

    Raises:
        Invalid: there is no such time zone.
    """
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise _invalid("time_zone", f"{name[:64]!r} is no time zone; example: Europe/Stockholm.") from error


class _CheckedFile(NamedTuple):
    """A stored and fully checked file, with the options chosen for its import."""

    stored: uploads.StoredFile
    file_name: str
    format: str
    time_zone: str
    dry_run: bool
    all_or_nothing: bool


@dataclass(frozen=True)
class NewImport:
    """A file to import.

    all_or_nothing: one rejected line rejects the file; otherwise the valid lines are imported. makes_source: create a
    missing source in the transaction of the import. billing_weights: of Slurm, kept for the source so that its billing
    is exact; None leaves those that it has. A dry run keeps them only for a source that it makes.
    """

    source_slug: str
    format: str
    file: IO[bytes]
    file_name: str
    time_zone: str = ""
    dry_run: bool = False
    all_or_nothing: bool = False
    makes_source: bool = False
    billing_weights: Mapping[str, Any] | None = None


def start_import(new: NewImport, *, at: datetime, actor: Actor) -> Import:
    """Store and fully check an uploaded file, and enqueue its import. A damaged file is rejected as a whole here."""
    require_write(actor, new.source_slug)
    known = Source.all_objects.filter(slug=new.source_slug).first() if new.makes_source else _source(new.source_slug)
    if known is not None:
        require_open(known)
    zone_of(new.time_zone)
    stored = uploads.store(new.file)
    try:
        collector = format_of(new.format, stored.head)
        with transaction.atomic():
            is_new = False
            if new.makes_source:
                _made, is_new = ensure_source(slug=new.source_slug, time_zone=new.time_zone, at=at, actor=actor)
            source = _source(new.source_slug)
            if new.billing_weights is not None and (is_new or not new.dry_run):
                set_billing_weights(source, new.billing_weights, at=at, actor=actor)
            options = (new.time_zone, new.dry_run, new.all_or_nothing)
            return _make_import(source, _CheckedFile(stored, new.file_name, collector.name, *options), at, actor)
    except BaseException:
        uploads.remove(stored.name)
        raise


def preview_import(
    *,
    source_slug: str,
    format: str,
    file: IO[bytes],
    time_zone: str = "",
    billing_weights: Mapping[str, Any] | None = None,
    at: datetime,
    actor: Actor,
) -> tuple[Source, Preview]:
    """Preview the import of a file into a source that does not exist yet. Nothing is stored.

    Raises:
        Invalid: a damaged file, an unknown format or an unknown time zone, as for the import itself.
    """
    require_write(actor, source_slug)
    zone_of(time_zone)
    _refuse_slug(source_slug)
    source = Source(slug=source_slug, name=source_slug, namespace=source_slug, time_zone=time_zone, created_at=at)
    source.billing_weights = dict(billing_weights or {})
    stored = uploads.store(file)
    try:
        return source, preview(source, stored, format_of(format, stored.head).name, at=at)
    finally:
        uploads.remove(stored.name)


def confirm_import(*, import_id: int, all_or_nothing: bool | None = None, at: datetime, actor: Actor) -> Import:
    """Start the real import of a finished dry run from its stored file. Repeated calls return the same import.

    all_or_nothing: overrides the dry run's options if given.

    Raises:
        Conflict: the dry run has not succeeded, or its file was removed.
    """
    with transaction.atomic():
        imports = Import.objects.select_related("source", "run").select_for_update(of=("self",), no_key=True)
        dry = imports.filter(pk=import_id).first()
        if dry is None or not (actor.is_admin or (actor.user is not None and dry.owner_id == actor.user.pk)):
            raise NotFound(f"There is no import {import_id}.")
        require_write(actor, dry.source.slug)
        require_open(dry.source)
        made = Import.objects.filter(run__kind=KIND, run__idempotency_key=_confirmation(dry)).first()
        if made is not None:
            return made
        if not dry.dry_run or dry.run.state != Run.State.SUCCEEDED:
            raise Conflict("Only a dry run that has ended well can be confirmed.", code="not_confirmable")
        if not uploads.exists(dry.stored_path):
            raise Conflict("The file of this dry run is no longer kept: send it again.", code="file_gone")
        stored = uploads.StoredFile(dry.stored_path, dry.n_bytes, dry.run.progress_total or 0, dry.sha256, b"")
        whole = dry.all_or_nothing if all_or_nothing is None else all_or_nothing
        checked = _CheckedFile(stored, dry.file_name, dry.format, dry.time_zone, dry_run=False, all_or_nothing=whole)
        return _make_import(dry.source, checked, at, actor, key=_confirmation(dry))


@dataclass(frozen=True)
class PushedRecords:
    """A request body with records. atomic: one invalid record rejects all."""

    source_slug: str
    body_stream: IO[bytes]
    content_type: str
    gzip: bool = False
    idempotency_key: str | None = None
    atomic: bool = False


def push_records(pushed: PushedRecords, *, at: datetime, actor: Actor) -> dict[str, Any]:
    """Import records from a request body and return the counts of the REST contract, with `account_ids` added.

    The first valid record creates a missing source.

    Raises:
        NotFound: there is no such source, and no valid record to create it.
        Malformed: the body is not a list of records.
        Invalid: `atomic` is set and a record is invalid.
        TooLarge: over 32 MB, 50,000 records, or an expansion as `packing` allows.
        Conflict: the idempotency key was used for another body.
    """
    require_write(actor, pushed.source_slug)
    known = Source.all_objects.filter(slug=pushed.source_slug).first()
    if known is not None:
        require_open(known)
    body = read_body(pushed.body_stream, gzip=pushed.gzip)
    digest = hashlib.sha256(body).hexdigest()
    zone = zone_of(known.time_zone) if known else None
    records = parse_records(body, content_type=pushed.content_type, zone=zone)
    if pushed.atomic and records.rejections:
        raise _all_rejected(records)
    batch = records.batch
    ended = (batch.end_us != NO_TIME) & (batch.start_us != NO_TIME)
    if bucket_deltas.count_job_hours(batch.start_us[ended], batch.end_us[ended]) > MOST_JOB_HOURS:
        message = f"These jobs ran for over {MOST_JOB_HOURS} hours together: send fewer in one call."
        raise TooLarge(message, code="too_many_hours")
    if known is None and not len(batch):
        raise NotFound(f"There is no usage source {pushed.source_slug[:64]!r}: its first good record makes it.")
    with transaction.atomic():
        source, _ = (known, False) if known else ensure_source(slug=pushed.source_slug, at=at, actor=actor)
        if pushed.idempotency_key is not None:
            named = {"scope": f"usage:{source.slug}", "key": pushed.idempotency_key, "body_sha256": digest}
            first: dict[str, Any] | None = get_stored_answer(**named, at=at)
            if first is not None:
                return first
        counts = ingest_batch(source=source, rows=batch, at=at, n_rejected=len(records.rejections))
        records.rejections.extend(counts.rejections)
        records.rejections.sort(key=lambda rejection: rejection.line)
        if pushed.atomic and counts.rejections:
            raise _all_rejected(records)
        answer = _answer(counts, records)
        if pushed.idempotency_key is not None:
            store_answer(**named, answer=answer, at=at)
        if counts.new or counts.corrected or records.rejections:
            numbers = {**counts.as_dict(), "rejected": len(records.rejections)}
            audit.record(actor=actor, verb="usage.pushed", at=at, subject=source.slug, details=numbers)
    return answer


def read_body(stream: IO[bytes], *, gzip: bool) -> bytes:
    """Read a body of at most 32 MB, unpacked within bounds.

    Raises:
        Malformed: the gzip data is damaged; names the byte.
        TooLarge: the body is larger, or unpacks to more.
    """
    packed = bytearray()
    while data := stream.read(_READ):
        packed += data
        if len(packed) > MOST_BODY_BYTES:
            raise TooLarge(f"A body has at most {MOST_BODY_BYTES // 1024**2} MB: send it in parts.", code="too_large")
    return _unpack(bytes(packed)) if gzip else bytes(packed)


def _unpack(packed: bytes) -> bytes:
    try:
        return unpack_gzip(packed, Bounds(n_bytes=MOST_BODY_BYTES))
    except Expands as error:
        raise TooLarge(
            f"The body unpacks to more than {MOST_UNPACKING} times its size, or {MOST_BODY_BYTES // 1024**2} MB.",
            code="expands_too_much",
        ) from error
    except Damaged as error:
        raise _corrupt(f"The body is no whole gzip file: at byte {error.position}, {error.why}.") from error


def _corrupt(message: str) -> Malformed:
    return Malformed(message, code="corrupt_gzip", fields=[FieldProblem("body", message)])


def _answer(counts: Counts, records: Records) -> dict[str, Any]:
    return {
        "new": counts.new,
        "duplicate": counts.duplicate,
        "corrected": counts.corrected,
        "late": counts.late + counts.too_late,
        "rejected": [
            {"line": rejection.line, "code": rejection.code, "message": rejection.message}
            for rejection in records.rejections
        ],
        **({"ignored": records.ignored} if records.ignored else {}),
        "account_ids": sorted(counts.account_ids),
    }


def _all_rejected(records: Records) -> Invalid:
    bad = records.rejections
    problems = [
        FieldProblem(f"line {rejection.line}", f"{rejection.code}: {rejection.message}")
        for rejection in bad[:MOST_NAMED_REJECTIONS]
    ]
    invalid = counted(len(bad), "record is", "records are")
    return Invalid(f"{invalid} invalid, so none was imported.", code="records_rejected", fields=problems)


def _make_import(source: Source, file: _CheckedFile, at: datetime, actor: Actor, *, key: str | None = None) -> Import:
    stored = file.stored
    run = enqueue_run(
        kind=KIND,
        subject=f"source:{source.slug}",
        arguments={"file": stored.name},
        owner=actor.user,
        idempotency_key=key or f"import:{uuid4()}",
        at=at,
    )
    is_read_twice = file.all_or_nothing and not file.dry_run
    Run.objects.filter(pk=run.pk).update(progress_total=stored.n_unpacked * (2 if is_read_twice else 1))
    made = Import.objects.create(
        source=source,
        run=run,
        format=file.format,
        file_name=file.file_name[-255:] or "upload",
        stored_path=stored.name,
        n_bytes=stored.n_bytes,
        sha256=stored.sha256,
        time_zone=file.time_zone,
        dry_run=file.dry_run,
        all_or_nothing=file.all_or_nothing,
        owner=actor.user,
        created_at=at,
    )
    details = {"file": made.file_name, "sha256": stored.sha256, "bytes": stored.n_bytes, "dry_run": file.dry_run}
    audit.record(actor=actor, verb="usage.import_asked", at=at, subject=source.slug, details=details)
    return made


def _confirmation(dry: Import) -> str:
    return f"confirmed:{dry.pk}"


def _refuse_slug(slug: str) -> None:
    if not _SLUG.fullmatch(slug):
        raise _invalid("slug", "A slug has 1 to 64 letters, digits, - and _.")


def _source(slug: str) -> Source:
    source = Source.all_objects.filter(slug=slug).first()
    if source is None:
        raise NotFound(f"There is no usage source {slug[:64]!r}.")
    return source


def _invalid(where: str, message: str) -> Invalid:
    return Invalid(message, fields=[FieldProblem(where, message)])
