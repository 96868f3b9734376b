"""Usage as it may be seen: sources, imports and sums for people; arrays for the recompute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import numpy as np
from django.conf import settings
from django.db import connection
from django.db.models import Count, Q, QuerySet

from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.core.errors import FieldProblem, Malformed, NotFound
from apps.usage.account_sums import NOT_HELD
from apps.usage.authority import may_read_all, may_write
from apps.usage.buckets import AMOUNTS, RESOURCES
from apps.usage.models import Import, Overlap, RejectedLine, Source
from apps.usage.parsers.base import F8, I8, Flags
from apps.usage.pgbinary import fetch_columns
from apps.usage.quality.coverage import SourceDays, list_days

_MOST_ROWS = 10_001


@dataclass(frozen=True, eq=False, slots=True)
class UsageArrays:
    """Buckets as columns. hour_epoch: the start of the hour in seconds since 1970.

    site_code: 1 for the first of `sites`, 0 for any other site; None where no site was asked for. resources: those
    that were loaded; the columns of others hold 0.
    """

    account_id: I8
    source_id: I8
    job_class_id: I8
    hour_epoch: I8
    cpu_s: F8
    gpu_s: F8
    mem_gb_s: F8
    node_s: F8
    billing: F8
    site_code: I8 | None = None
    sites: tuple[str, ...] = ()
    resources: tuple[str, ...] = RESOURCES

    def taken(self, chosen: Flags | I8) -> UsageArrays:
        """These rows only."""
        names = ("account_id", "source_id", "job_class_id", "hour_epoch", *RESOURCES)
        code = None if self.site_code is None else self.site_code[chosen]
        return replace(self, site_code=code, **{name: getattr(self, name)[chosen] for name in names})


@dataclass(frozen=True, eq=False, slots=True)
class OpenRecords:
    """Running and pending jobs as columns. start_epoch: seconds since 1970, NaN where pending; the rest a second.

    site_code, sites: as of buckets. known_until_epoch: up to when each is known to have run, infinite where it runs
    until a report says otherwise; None where all do.
    """

    account_id: I8
    source_id: I8
    job_class_id: I8
    is_running: Flags
    start_epoch: F8
    cpus: F8
    gpus: F8
    mem_gb: F8
    nodes: F8
    billing: F8
    requested_s: F8
    site_code: I8 | None = None
    sites: tuple[str, ...] = ()
    known_until_epoch: F8 | None = None

    def taken(self, chosen: Flags | I8) -> OpenRecords:
        """These jobs only, by every column that is there."""
        columns = ((each.name, getattr(self, each.name)) for each in fields(self))
        taken: dict[str, Any] = {name: values[chosen] for name, values in columns if isinstance(values, np.ndarray)}
        return replace(self, **taken)


@dataclass(frozen=True, slots=True)
class BucketAccount:
    namespace: str
    user: str
    group: str
    dn: str
    fqan: str
    project: str


@dataclass(frozen=True, slots=True)
class BucketRow:
    """What one account used at one site in one hour or day; `place` is where a list goes on behind it."""

    source: str
    account: BucketAccount | None
    site: str
    at: Annotated[datetime, "Where the step begins"]
    cpu_s: float
    gpu_s: float
    mem_gb_s: float
    node_s: float
    billing: float
    jobs: float
    place: list[str | int]


_LOAD_USAGE = """
SELECT array_agg(account_id), array_agg(hour_at){amounts}{code}
FROM usage_bucket {named}
WHERE source_id = ANY(%s::int8[]) AND hour_at >= %s::timestamptz AND hour_at < %s::timestamptz{unless_held}
"""
_LOAD_OPEN = """
SELECT array_agg(account_id), array_agg(source_id), array_agg(job_class_id), array_agg((state = 'running')::int::int8),
    array_agg(COALESCE(start_at, '-infinity')), array_agg(cpus), array_agg(gpus), array_agg(mem_mb), array_agg(nodes),
    array_agg(billing), array_agg(COALESCE(requested_s, 'NaN')){code}
FROM usage_record {named}
WHERE source_id = ANY(%s::int8[]) AND NOT (state = 'finished') AND state IN ('running', 'pending')
    AND submit_at <= %s::timestamptz
"""
_CODE = ", array_agg(COALESCE(named.code, 0))"
_NAMED = "LEFT JOIN unnest(%s::text[]) WITH ORDINALITY AS named(name, code) ON named.name = site"
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


def load_usage(
    *,
    sources: Sequence[int],
    from_at: datetime | None,
    to_at: datetime,
    sites: Sequence[str] = (),
    resources: Iterable[str] = RESOURCES,
    classes: bool = True,
) -> UsageArrays:
    """Buckets of hours that begin at `from_at` or later and before `to_at`, unordered, without held hours (covered by
    another source too).

    sites: those to be distinguished, each once; all others have one code. resources: the wanted ones. classes: whether
    they are wanted; else all have the number 0, which no class has.
    """
    wanted = tuple(name for name in RESOURCES if name in set(resources))
    told = ["source_id"] * (len(sources) > 1) + ["job_class_id"] * classes  # a constant needs no column
    amounts = "".join(f", array_agg({name})" for name in (*told, *wanted))
    is_held = Overlap.objects.filter(held__in=sources).exclude(state=Overlap.State.COUNTED).exists()
    parameters = [list(sources), from_at or _EARLIEST, to_at]
    found = _columns(_LOAD_USAGE, sites, parameters, amounts=amounts, unless_held=NOT_HELD if is_held else "")
    none: list[Any] = [np.zeros(0, np.int64)]
    columns = found or none * (2 + len(told)) + [np.zeros(0)] * len(wanted) + none
    account_id, hour_us = columns[:2]
    n = len(account_id)
    given: dict[str, Any] = {
        "source_id": np.full(n, sources[0] if sources else 0, np.int64),
        "job_class_id": np.zeros(n, np.int64),
        **dict.fromkeys(RESOURCES, np.zeros(n)),
    }
    given.update(zip((*told, *wanted), columns[2:], strict=False))
    return UsageArrays(
        account_id=account_id,
        hour_epoch=hour_us // 1_000_000,
        **given,
        site_code=columns[-1] if sites else None,
        sites=tuple(sites),
        resources=wanted,
    )


def load_open_records(
    *, sources: Sequence[int], sites: Sequence[str] = (), submitted_by: datetime | None = None
) -> OpenRecords:
    """Jobs that run or wait, as last reported; submitted_by: none that were submitted later.

    Jobs of other sites are known to run until the last contact: usage after it isn't added up here.
    """
    found = _columns(_LOAD_OPEN, sites, [list(sources), submitted_by or "infinity"])
    if not found:
        none, nothing = np.zeros(0, np.int64), np.zeros(0)
        numbers = (nothing, nothing, nothing, nothing, nothing, nothing, nothing)
        return OpenRecords(none, none, none, np.zeros(0, np.bool_), *numbers, none, tuple(sites))
    account_id, source_id, job_class_id, is_running, start_us, cpus, gpus, mem_mb, nodes, billing, *rest = found
    running = is_running.astype(np.bool_)
    start_epoch = np.where(running, start_us / 1e6, np.nan)
    return OpenRecords(
        account_id,
        source_id,
        job_class_id,
        running,
        start_epoch,
        cpus,
        gpus,
        mem_mb / 1024.0,
        nodes,
        billing,
        rest[0],
        rest[1] if sites else None,
        tuple(sites),
        _known_until_epoch(source_id),
    )


def _known_until_epoch(source_id: I8) -> F8:
    told = np.full(len(source_id), np.inf)
    peers = Source.all_objects.filter(kind=Source.Kind.PEER, pk__in=np.unique(source_id).tolist())
    for peer, last_contact_at in peers.values_list("id", "last_received_at"):
        told[source_id == peer] = -np.inf if last_contact_at is None else last_contact_at.timestamp()
    return told


def _columns(query: str, sites: Sequence[str], parameters: list[Any], **parts: str) -> list[Any]:
    """With a column of site codes where sites are asked for; without any it costs nothing."""
    if not sites:
        return fetch_columns(query.format(code="", named="", **parts), parameters)
    return fetch_columns(query.format(code=_CODE, named=_NAMED, **parts), [list(sites), *parameters])


def watermarks() -> dict[str, int]:
    """A number for each source that grows with every change of its usage."""
    return dict(Source.objects.order_by("slug").values_list("slug", "watermark"))


def list_sources(*, actor: Actor) -> list[Source]:
    """Everybody signed in may know which sources there are and how fresh they are."""
    return list(_sources_of(actor).order_by("slug"))


def list_counted_sources(*, actor: Actor) -> list[Source]:
    """With `n_accounts` and `n_rejected`, which take a pass over what they sent."""
    return _counted(_sources_of(actor).order_by("slug"))


def list_source_names(*, actor: Actor) -> list[tuple[str, str]]:
    """Slug and name of each."""
    return list(_sources_of(actor).order_by("slug").values_list("slug", "name"))


def list_source_days(*, n_days: int, at: datetime, zone: ZoneInfo, actor: Actor) -> list[SourceDays]:
    """The last `n_days` days of every source that the actor may know of."""
    sources = list_sources(actor=actor)
    found = list_days(sources=sources, n_days=n_days, at=at, zone=zone, actor=actor)
    return [SourceDays(source.slug, source.name or source.slug, found[source.pk]) for source in sources]


def get_source(*, slug: str, actor: Actor) -> Source:
    """Also an archived one: old links answer, and `archived_at` says so."""
    found = _sources_of(actor, also_archived=True).filter(slug=slug)
    if not found:
        raise NotFound(f"There is no usage source {slug[:64]!r}.")
    return _counted(found)[0]


def list_imports(*, actor: Actor, source_slug: str | None = None, limit: int = 20) -> list[Import]:
    """Newest first; a person's own, or all for an administrator."""
    imports = _imports_of(actor).order_by("-id")
    if source_slug is not None:
        imports = imports.filter(source__slug=source_slug)
    return list(imports[: min(limit, 200)])


def get_import(*, import_id: int, actor: Actor) -> Import:
    found = _imports_of(actor).filter(pk=import_id).first()
    if found is None:
        raise NotFound(f"There is no import {import_id}.")
    return found


def list_rejected_lines(*, import_id: int, actor: Actor, after_line: int = 0, limit: int = 100) -> list[RejectedLine]:
    """By line; only the first ones of a very bad file are kept, all are counted."""
    found = get_import(import_id=import_id, actor=actor)
    lines = RejectedLine.objects.filter(usage_import=found, line__gt=after_line).order_by("line")
    return list(lines[: min(limit, 1000)])


def count_rejected_lines(*, import_id: int, actor: Actor) -> dict[str, int]:
    """How many lines were rejected for which reason: all of them."""
    found = get_import(import_id=import_id, actor=actor)
    by_code = found.run.cursor.get("by_code") or found.run.result.get("by_code")
    if by_code is not None:
        return dict(by_code)
    lines = RejectedLine.objects.filter(usage_import=found)
    return dict(lines.values_list("code").annotate(n=Count("id")).order_by("-n", "code"))


def list_buckets(
    *,
    source: str | None = None,
    account: str | None = None,
    site: str | None = None,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    step: str = "hour",
    by: str = "account",
    after: list[Any] | None = None,
    limit: int = 1000,
    actor: Actor,
) -> list[BucketRow]:
    """Sums by hour or day, source, site and (unless `by` is "site") account: my own, or all for administrators."""
    source_ids = _readable(source, actor)
    at_column = "hour_at" if step == "hour" else "date_trunc('day', hour_at, %(zone)s)"
    columns = [at_column, "source_id", *(["account_id"] if by == "account" else []), "site"]
    where = ["source_id = ANY(%(source_ids)s)"]
    given: dict[str, Any] = {"source_ids": list(source_ids), "zone": settings.TIME_ZONE}
    if account is not None or not _reads_all(source, actor):
        where.append("account_id = ANY(%(accounts)s)")
        given["accounts"] = _readable_accounts(account, _reads_all(source, actor), actor)
    if site is not None:
        where.append("site = %(site)s")
        given["site"] = site
    if from_at is not None:
        where.append("hour_at >= %(from_at)s")
        given["from_at"] = from_at
    if to_at is not None:
        where.append("hour_at < %(to_at)s")
        given["to_at"] = to_at
    if after is not None:
        given |= _place_after(after, with_account=by == "account")
        names = "%(after_at)s::timestamptz, %(after_source)s, "
        names += "%(after_account)s, %(after_site)s" if by == "account" else "%(after_site)s"
        where.append(f"hour_at >= %(after_at)s::timestamptz AND ({', '.join(columns)}) > ({names})")
    query = (  # built of constants; what was asked for travels as parameters
        f"SELECT {', '.join(columns)}, sum(cpu_s), sum(gpu_s), sum(mem_gb_s), sum(node_s), sum(billing), sum(jobs)"  # noqa: S608
        f" FROM usage_bucket WHERE {' AND '.join(where)} GROUP BY {', '.join(columns)} ORDER BY {', '.join(columns)}"
        " LIMIT %(limit)s"
    )
    with connection.cursor() as cursor:
        cursor.execute(query, {**given, "limit": min(limit, _MOST_ROWS)})
        rows = cursor.fetchall()
    return _bucket_rows(rows, source_ids, with_account=by == "account")


def _bucket_rows(rows: Sequence[tuple[Any, ...]], slugs: Mapping[int, str], *, with_account: bool) -> list[BucketRow]:
    names = _account_names({row[2] for row in rows}) if with_account else {}
    found = []
    for at, source_id, *rest in rows:
        account_id, site, *amounts = rest if with_account else (0, *rest)
        place = [at.isoformat(), source_id, *([account_id] if with_account else []), site]
        sums = dict(zip(AMOUNTS, amounts, strict=True))
        found.append(BucketRow(slugs[source_id], names.get(account_id), site, at, place=place, **sums))
    return found


def _account_names(ids: set[int]) -> dict[int, BucketAccount]:
    columns = ("namespace", "user_name", "group_name", "dn", "fqan", "project")
    rows = Account.objects.filter(pk__in=ids).values_list("id", *columns)
    return {row[0]: BucketAccount(*row[1:]) for row in rows}


def _readable(slug: str | None, actor: Actor) -> dict[int, str]:
    sources = _sources_of(actor, also_archived=slug is not None)
    if slug is not None:
        sources = sources.filter(slug=slug)
        if not sources:
            raise NotFound(f"There is no usage source {slug[:64]!r}.")
    return dict(sources.values_list("id", "slug"))


def _reads_all(slug: str | None, actor: Actor) -> bool:
    """Everybody's usage: an administrator, or the token that writes just this source."""
    return may_read_all(actor) or (slug is not None and may_write(actor, slug))


def _readable_accounts(name: str | None, everybody: bool, actor: Actor) -> list[int]:
    accounts = Account.objects.all()
    if name is not None:
        accounts = accounts.filter(user_name=name)
    if not everybody:
        accounts = accounts.filter(person=actor.user)
    return list(accounts.values_list("id", flat=True))


def _place_after(after: list[Any], *, with_account: bool) -> dict[str, Any]:
    kinds: list[type] = [str, int, int, str] if with_account else [str, int, str]
    names = ["after_at", "after_source", *(["after_account"] if with_account else []), "after_site"]
    try:
        right = [type(value) for value in after] == kinds
        at = datetime.fromisoformat(after[0]) if right else None
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or not all(0 <= n < 2**63 for n in after[1:] if isinstance(n, int)):
        message = "is no cursor of this list: take its `next`"
        raise Malformed(f"cursor {message}.", code="bad_cursor", fields=[FieldProblem("cursor", message)])
    return dict(zip(names, [at, *after[1:]], strict=True))


def _sources_of(actor: Actor, *, also_archived: bool = False) -> QuerySet[Source]:
    """All; for a token bound to one source, that one."""
    sources = Source.all_objects.all() if also_archived else Source.objects.all()
    if actor.token is not None and actor.token.source_slug:
        sources = sources.filter(slug=actor.token.source_slug)
    return sources


_N_ACCOUNTS = """
SELECT source_id, count(*) FROM (SELECT DISTINCT source_id, account_id FROM usage_bucket WHERE source_id = ANY(%s))
    AS seen GROUP BY source_id
"""
_N_REJECTED = """
SELECT source_id, sum((run.counts->>'rejected')::int8)::int8 FROM usage_import
JOIN runs_run AS run ON run.id = run_id WHERE NOT dry_run AND source_id = ANY(%s) GROUP BY source_id
"""


def _counted(sources: QuerySet[Source]) -> list[Source]:
    found = list(sources)
    ids = [source.pk for source in found]
    with connection.cursor() as cursor:
        cursor.execute(_N_ACCOUNTS, [ids])
        n_accounts = dict(cursor.fetchall())
        cursor.execute(_N_REJECTED, [ids])
        n_rejected = dict(cursor.fetchall())
    for source in found:
        source.n_accounts = n_accounts.get(source.pk, 0)
        source.n_rejected = n_rejected.get(source.pk) or 0
    return found


def _imports_of(actor: Actor) -> QuerySet[Import]:
    imports = Import.objects.select_related("source", "run", "owner")
    if may_read_all(actor):
        return imports
    return imports.filter(Q(owner=actor.user) & Q(owner__isnull=False))
