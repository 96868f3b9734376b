"""Count and list data issues of received usage by source."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Count, F, Max, QuerySet, Sum

from apps.accounts.actor import Actor
from apps.core.errors import NotAllowed
from apps.usage.authority import may_read_all
from apps.usage.models import Overlap, Record, RejectedLine, Source, SourceDay, TooLateRecord, UnclearJob
from apps.usage.open_jobs import KNOWN_UNTIL, OVERRUN
from apps.usage.parsers.base import FINISHED
from apps.usage.quality.coverage import Day, list_days
from apps.usage.records.stored_versions import VANISHED
from apps.usage.timeliness import LATE_INTERVALS, interval_s

COUNTED = ("new", "duplicate", "corrected", "late", "too_late", "rejected", "ahead")
MOST_LISTED_FINDINGS = 1_000
_CHANGED = f"""
WITH changed AS (
    SELECT old.id, source.slug, source.name,
        old.job || CASE WHEN old.array_task = '' THEN '' ELSE '_' || old.array_task END AS job,
        concat_ws('/', NULLIF(account.group_name, ''), COALESCE(NULLIF(account.user_name, ''), account.dn)) AS account,
        old.end_at, old.replaced_at,
        EXTRACT(epoch FROM old.end_at - old.start_at) * COALESCE(old.cpus, 1) AS before,
        CASE WHEN now.state = {FINISHED}
            THEN EXTRACT(epoch FROM now.end_at - now.start_at) * COALESCE(now.cpus, 1) ELSE 0 END AS after
    FROM usage_replacedrecord AS old
    JOIN usage_source AS source ON source.id = old.source_id
    JOIN accounts_account AS account ON account.id = old.account_id
    JOIN usage_record AS now ON now.source_id = old.source_id AND now.job_number = old.job_number
        AND now.key_hash = old.key_hash AND now.cluster = old.cluster AND now.job = old.job
        AND now.array_task = old.array_task AND now.submit_at = old.submit_at
        AND COALESCE(now.restart, 0) = COALESCE(old.restart, 0)
    WHERE old.state = {FINISHED} AND old.replaced_at >= %(since)s AND source.archived_at IS NULL)
"""  # noqa: S608 - constants only
_LIST_CHANGED = f"""{_CHANGED}
SELECT slug, name, job, account, end_at, replaced_at, before::float8, after::float8, id FROM changed
WHERE (%(after)s = 0 OR id < %(after)s) ORDER BY id DESC LIMIT %(limit)s
"""  # noqa: S608 - constants only
_COUNT_CHANGED = f"{_CHANGED} SELECT slug, count(*), sum(after - before)::float8 FROM changed GROUP BY slug"  # noqa: S608 - constants only

_COUNT_VANISHED = f"""
SELECT source.slug, count(*) FROM usage_record AS record JOIN usage_source AS source ON source.id = record.source_id
WHERE record.note = '{VANISHED}' AND record.state = {FINISHED} AND record.end_at >= %s AND source.archived_at IS NULL
GROUP BY source.slug
"""  # noqa: S608 - constants only

_COUNT_OVERRUN = f"""
SELECT source.slug, count(*) FROM usage_record AS record JOIN usage_source AS source ON source.id = record.source_id
WHERE {OVERRUN} AND {KNOWN_UNTIL} < %s AND source.kind <> 'peer' AND source.archived_at IS NULL
GROUP BY source.slug
"""  # noqa: S608 - constants only


# Records with a kind, from the newest on: few kinds are asked for, and most of them have one.
_OF_KIND = """
SELECT source.slug, wanted.name, of_kind.n, of_kind.job FROM unnest(%s::text[]) AS wanted(name)
CROSS JOIN usage_source AS source
CROSS JOIN LATERAL (
    SELECT count(*) AS n, max(job) AS job FROM usage_record AS record
    WHERE record.source_id = source.id AND record.submit_at >= %s AND record.kinds ? wanted.name) AS of_kind
WHERE of_kind.n > 0 AND source.archived_at IS NULL ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class JobsOfKind:
    """Jobs of a source that hold a kind of resource. job: one of them; "" unless the actor may read all usage."""

    kind: str
    n: int
    job: str


@dataclass(frozen=True, slots=True)
class Received:
    """Number of received records by outcome."""

    new: int = 0
    duplicate: int = 0
    corrected: int = 0
    late: Annotated[int, "Older than what was stored: changed nothing"] = 0
    too_late: Annotated[int, "Ended before the days whose records are kept: not counted"] = 0
    rejected: int = 0
    ahead: Annotated[int, "Of the rejected: ended in the future by our clock"] = 0


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for rejected lines of a source, with the newest such line."""

    source: str
    code: str
    n_lines: int
    example: str
    import_id: int
    line: int


@dataclass(frozen=True, slots=True)
class Changed:
    """A finished job that was reported again with other numbers.

    Amounts in core-seconds; `after_core_s` is 0 if the job was withdrawn.
    """

    source: str
    source_name: str
    job: str
    account: str
    end_at: datetime
    changed_at: datetime
    before_core_s: float
    after_core_s: float
    place: int


@dataclass(frozen=True, slots=True)
class DataIssues:
    """Data issues of one source in a period.

    changed, too_late: number, and core-seconds (for changes, the sum of differences). The core-seconds are None unless
    the actor may read all usage, because they often belong to one person. n_unreported: vanished jobs whose accounting
    is overdue. n_no_processors: jobs that ran without processors and GPUs. n_overrun: jobs that are recorded as
    running beyond the time that they may run. n_unclear: jobs of which lines of the log are missing. of_kinds: jobs of
    the kinds that were asked for.
    """

    received: Received
    days: Sequence[Day]
    changed: tuple[int, float | None]
    too_late: tuple[int, float | None]
    n_held: int
    n_vanished: int
    n_unreported: int = 0
    n_no_processors: int = 0
    n_overrun: int = 0
    n_unclear: int = 0
    of_kinds: tuple[JobsOfKind, ...] = ()


def list_data_issues(
    *,
    sources: Sequence[Source],
    span: timedelta,
    at: datetime,
    zone: ZoneInfo,
    actor: Actor,
    kinds: Collection[str] = (),
) -> dict[str, DataIssues]:
    """Data issues by source slug over the last `span` before `at`. Visible to every signed-in person; without
    accounts. kinds: of resources whose jobs are counted, too.
    """
    since_at = at - span
    received = count_received(from_on=since_at.date(), to_on=at.date(), actor=actor)
    days = list_days(sources=sources, n_days=span.days, at=at, zone=zone, actor=actor)
    changed = count_changed(since_at=since_at, actor=actor)
    too_late = count_too_late(since_at=since_at, actor=actor)
    held = count_held(actor=actor)
    vanished = count_vanished(since_at=since_at, actor=actor)
    idle = count_without_processors(since_at=since_at, actor=actor)
    beyond = count_overrun(at=at, actor=actor)
    unclear = count_unclear(since_at=since_at, actor=actor)
    of_kinds = count_of_kinds(kinds, since_at=since_at, actor=actor) if kinds else {}
    return {
        source.slug: DataIssues(
            received=received.get(source.pk, Received()),
            days=days.get(source.pk, ()),
            changed=changed.get(source.slug, (0, None)),
            too_late=too_late.get(source.slug, (0, None)),
            n_held=held.get(source.slug, 0),
            n_vanished=vanished.get(source.slug, 0),
            n_unreported=_count_unreported(source, since_at, at),
            n_no_processors=idle.get(source.slug, 0),
            n_overrun=beyond.get(source.slug, 0),
            n_unclear=unclear.get(source.slug, 0),
            of_kinds=tuple(of_kinds.get(source.slug, ())),
        )
        for source in sources
    }


def count_received(*, from_on: date, to_on: date, actor: Actor) -> dict[int, Received]:
    """Received records by source id on these days (UTC), without sources that received none. For every signed-in
    person.
    """
    _require_active(actor)
    rows = (
        SourceDay.objects.filter(received_on__range=(from_on, to_on))
        .values("source_id")
        .annotate(**{name: Sum(f"n_{name}") for name in COUNTED})
    )
    return {row["source_id"]: Received(**{name: row[name] for name in COUNTED}) for row in rows}


def list_reasons(*, since_at: datetime, actor: Actor) -> list[Reason]:
    """Reasons for rejected lines since then, most frequent first; empty unless the actor may read all usage."""
    if not may_read_all(actor):
        return []
    grouped = (
        RejectedLine.objects.filter(usage_import__created_at__gte=since_at, usage_import__dry_run=False)
        .filter(usage_import__source__archived_at=None)
        .values(source=F("usage_import__source__slug"), reason=F("code"))
        .annotate(n=Count("id"), last=Max("id"))
        .order_by("-n", "source", "reason")[:50]
    )
    rows = list(grouped)
    examples = RejectedLine.objects.in_bulk([row["last"] for row in rows])
    return [
        Reason(row["source"], row["reason"], row["n"], example.message, example.usage_import_id, example.line)
        for row in rows
        if (example := examples.get(row["last"])) is not None
    ]


def list_changed(*, since_at: datetime, after: int = 0, limit: int, actor: Actor) -> list[Changed]:
    """Jobs that changed after they had ended, newest change first; empty unless the actor may read all usage."""
    if not may_read_all(actor):
        return []
    with connection.cursor() as cursor:
        cursor.execute(_LIST_CHANGED, {"since": since_at, "after": after, "limit": min(limit, MOST_LISTED_FINDINGS)})
        return [Changed(*row) for row in cursor.fetchall()]


def count_changed(*, since_at: datetime, actor: Actor) -> dict[str, tuple[int, float | None]]:
    """By source slug: number of changes to finished jobs, and their sum in core-seconds."""
    _require_active(actor)
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_CHANGED, {"since": since_at})
        sees_amounts = may_read_all(actor)
        return {slug: (n, core_s if sees_amounts else None) for slug, n, core_s in cursor.fetchall()}


def count_too_late(*, since_at: datetime, actor: Actor) -> dict[str, tuple[int, float | None]]:
    """By source slug: number of records that ended before its seal, and their core-seconds, which are not counted."""
    _require_active(actor)
    rows = TooLateRecord.objects.filter(received_at__gte=since_at, source__archived_at=None).values_list("source__slug")
    sees_amounts = may_read_all(actor)
    counted = rows.annotate(n=Count("id"), core_s=Sum("cpu_s"))
    return {slug: (n, (core_s or 0.0) if sees_amounts else None) for slug, n, core_s in counted}


def list_too_late(*, since_at: datetime, limit: int, actor: Actor) -> list[TooLateRecord]:
    """Records that were too late, newest first; empty unless the actor may read all usage."""
    if not may_read_all(actor):
        return []
    records = (
        TooLateRecord.objects.filter(received_at__gte=since_at, source__archived_at=None)
        .select_related("source", "account")
        .order_by("-pk")
    )
    return list(records[: min(limit, MOST_LISTED_FINDINGS)])


def count_held(*, actor: Actor) -> dict[str, int]:
    """By source slug: number of ranges of hours that are held because another source covers them."""
    _require_active(actor)
    held = Overlap.objects.filter(state=Overlap.State.HELD, held__archived_at=None, kept__archived_at=None).values_list(
        "held__slug"
    )
    return dict(held.annotate(n=Count("id")))


def count_vanished(*, since_at: datetime, actor: Actor) -> dict[str, int]:
    """By source slug: number of running jobs that were closed because they were no longer listed."""
    _require_active(actor)
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_VANISHED, [since_at])
        return dict(cursor.fetchall())


def _without_processors(since_at: datetime) -> QuerySet[Record]:
    ran = Record.objects.filter(state=Record.State.FINISHED, end_at__gte=since_at, end_at__gt=F("start_at"))
    return ran.filter(cpus=0, gpus=0, is_charge=False, source__archived_at=None)


def count_without_processors(*, since_at: datetime, actor: Actor) -> dict[str, int]:
    """By source slug: number of jobs that ran without processors and GPUs, and so have no usage."""
    _require_active(actor)
    return dict(_without_processors(since_at).values_list("source__slug").annotate(n=Count("id")))


def list_without_processors(*, since_at: datetime, limit: int, actor: Actor) -> list[Record]:
    """Jobs without processors and GPUs, newest first; empty unless the actor may read all usage."""
    if not may_read_all(actor):
        return []
    records = _without_processors(since_at).select_related("source", "account").order_by("-end_at", "-pk")
    return list(records[: min(limit, MOST_LISTED_FINDINGS)])


def count_overrun(*, at: datetime, actor: Actor) -> dict[str, int]:
    """By source slug: number of jobs that are recorded as running, and count no further: see `open_jobs`."""
    _require_active(actor)
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_OVERRUN, [at])
        return dict(cursor.fetchall())


def count_unclear(*, since_at: datetime, actor: Actor) -> dict[str, int]:
    """By source slug: number of jobs of which lines of the log are missing, and whose newest line is since then."""
    _require_active(actor)
    rows = UnclearJob.objects.filter(last_at__gte=since_at, source__archived_at=None).values_list("source__slug")
    return dict(rows.annotate(n=Count("id")))


def count_of_kinds(kinds: Collection[str], *, since_at: datetime, actor: Actor) -> dict[str, list[JobsOfKind]]:
    """By source slug: the jobs that hold each of these kinds of resources, and were submitted since then."""
    _require_active(actor)
    names_jobs = may_read_all(actor)
    of_source: dict[str, list[JobsOfKind]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_OF_KIND, [sorted(kinds), since_at])
        for slug, kind, n, job in cursor.fetchall():
            of_source.setdefault(slug, []).append(JobsOfKind(kind, n, job if names_jobs else ""))
    return of_source


def _count_unreported(source: Source, since_at: datetime, at: datetime) -> int:
    """Number of vanished jobs whose accounting is overdue: a sign of missing records."""
    every_s = interval_s(source)
    if every_s is None:
        return 0
    until_at = at - timedelta(seconds=LATE_INTERVALS * every_s)
    ended = Record.objects.filter(source=source, state=Record.State.FINISHED, note=VANISHED)
    return ended.filter(end_at__gte=since_at, end_at__lt=until_at).count()


def _require_active(actor: Actor) -> None:
    if actor.user is not None and not actor.user.is_active:
        raise NotAllowed("Sign in to see sources.")
