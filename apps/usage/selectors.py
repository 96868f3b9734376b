"""Queries for sources, imports, rejected lines and usage sums, limited to what the actor may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection
from django.db.models import Count, Q, QuerySet

from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.core.errors import FieldProblem, Malformed, NotFound
from apps.usage.account_counts import account_counts
from apps.usage.authority import may_read_all, may_write
from apps.usage.bucket_deltas import AMOUNTS
from apps.usage.models import Import, RejectedLine, Source
from apps.usage.quality.coverage import SourceDays, list_days

_MOST_USAGE_ROWS = 10_001
_N_REJECTED = """
SELECT source_id, sum((run.counts->>'rejected')::int8)::int8 FROM usage_import
JOIN runs_run AS run ON run.id = run_id WHERE NOT dry_run AND source_id = ANY(%s) GROUP BY source_id
"""


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
    """Usage of one account at one site in one hour or day.

    place: the cursor behind which the next page starts.
    """

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


def watermarks() -> dict[str, int]:
    """The watermark of each source by slug: a number that grows with every change of its usage."""
    return dict(Source.objects.order_by("slug").values_list("slug", "watermark"))


def submit_times() -> dict[str, list[str | None]]:
    """Of each source by slug, among all jobs that it ever reported: when the first was submitted, and the first that
    waited; None where there is none. From the latter on it is known that the source reports submit times.
    """
    rows = Source.objects.order_by("slug").values_list("slug", "first_submit_at", "first_wait_at")
    return {slug: [None if at is None else at.isoformat() for at in times] for slug, *times in rows}


def list_sources(*, actor: Actor) -> list[Source]:
    """The sources that the actor may see, without archived ones; every signed-in person may list them."""
    return list(_sources_of(actor).order_by("slug"))


def list_counted_sources(*, actor: Actor) -> list[Source]:
    """The sources with `n_accounts` and `n_rejected`."""
    return _counted(_sources_of(actor).order_by("slug"))


def list_source_names(*, actor: Actor) -> list[tuple[str, str]]:
    """Slug and name of each source, by slug."""
    return list(_sources_of(actor).order_by("slug").values_list("slug", "name"))


def list_source_days(*, n_days: int, at: datetime, zone: ZoneInfo, actor: Actor) -> list[SourceDays]:
    """Daily deliveries of each visible source over the last `n_days` days."""
    sources = list_sources(actor=actor)
    days = list_days(sources=sources, n_days=n_days, at=at, zone=zone, actor=actor)
    return [SourceDays(source.slug, source.name or source.slug, days[source.pk]) for source in sources]


def get_source(*, slug: str, actor: Actor) -> Source:
    """One source, also an archived one: old links keep working, and `archived_at` marks it."""
    sources = _sources_of(actor, also_archived=True).filter(slug=slug)
    if not sources:
        raise NotFound(f"There is no usage source {slug[:64]!r}.")
    return _counted(sources)[0]


def list_imports(*, actor: Actor, source_slug: str | None = None, limit: int = 20) -> list[Import]:
    """Imports, newest first: the actor's own, or all for administrators."""
    imports = _imports_of(actor).order_by("-id")
    if source_slug is not None:
        imports = imports.filter(source__slug=source_slug)
    return list(imports[: min(limit, 200)])


def get_import(*, import_id: int, actor: Actor) -> Import:
    usage_import = _imports_of(actor).filter(pk=import_id).first()
    if usage_import is None:
        raise NotFound(f"There is no import {import_id}.")
    return usage_import


def list_rejected_lines(*, import_id: int, actor: Actor, after_line: int = 0, limit: int = 100) -> list[RejectedLine]:
    """Stored rejected lines of an import, by line number.

    Only the first rejected lines of a file are stored; `count_rejected_lines` counts all.
    """
    usage_import = get_import(import_id=import_id, actor=actor)
    lines = RejectedLine.objects.filter(usage_import=usage_import, line__gt=after_line).order_by("line")
    return list(lines[: min(limit, 1000)])


def count_rejected_lines(*, import_id: int, actor: Actor) -> dict[str, int]:
    """Number of rejected lines of an import by reason, including those that were not stored."""
    usage_import = get_import(import_id=import_id, actor=actor)
    by_code = usage_import.run.cursor.get("by_code") or usage_import.run.result.get("by_code")
    if by_code is not None:
        return dict(by_code)
    lines = RejectedLine.objects.filter(usage_import=usage_import)
    return dict(lines.values_list("code").annotate(n=Count("id")).order_by("-n", "code"))


@dataclass(frozen=True)
class BucketQuery:
    """Filter, grouping and page of usage sums. after: cursor of the last row of the previous page."""

    source: str | None = None
    account: str | None = None
    site: str | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None
    step: str = "hour"
    by: str = "account"
    after: list[Any] | None = None
    limit: int = 1000


def list_buckets(query: BucketQuery, *, actor: Actor) -> list[BucketRow]:
    """Usage sums by hour or day, source, site and account: the actor's own, or all for administrators.

    by: "account" or "site"; "site" sums over accounts.
    """
    sources = _sources_of(actor, also_archived=query.source is not None)
    if query.source is not None:
        sources = sources.filter(slug=query.source)
        if not sources:
            raise NotFound(f"There is no usage source {query.source[:64]!r}.")
    source_ids = dict(sources.values_list("id", "slug"))
    at_column = "hour_at" if query.step == "hour" else "date_trunc('day', hour_at, %(zone)s)"
    columns = [at_column, "source_id", *(["account_id"] if query.by == "account" else []), "site"]
    where = ["source_id = ANY(%(source_ids)s)"]
    parameters: dict[str, Any] = {"source_ids": list(source_ids), "zone": settings.TIME_ZONE}
    if query.account is not None or not _reads_all(query.source, actor):
        where.append("account_id = ANY(%(accounts)s)")
        parameters["accounts"] = _readable_accounts(query.account, _reads_all(query.source, actor), actor)
    if query.site is not None:
        where.append("site = %(site)s")
        parameters["site"] = query.site
    if query.from_at is not None:
        where.append("hour_at >= %(from_at)s")
        parameters["from_at"] = query.from_at
    if query.to_at is not None:
        where.append("hour_at < %(to_at)s")
        parameters["to_at"] = query.to_at
    if query.after is not None:
        parameters |= _place_after(query.after, with_account=query.by == "account")
        names = "%(after_at)s::timestamptz, %(after_source)s, "
        names += "%(after_account)s, %(after_site)s" if query.by == "account" else "%(after_site)s"
        where.append(f"hour_at >= %(after_at)s::timestamptz AND ({', '.join(columns)}) > ({names})")
    sql = (  # built of constants; user input is passed as parameters
        f"SELECT {', '.join(columns)}, sum(cpu_s), sum(gpu_s), sum(mem_gb_s), sum(node_s), sum(billing), sum(jobs)"  # noqa: S608
        f" FROM usage_bucket WHERE {' AND '.join(where)} GROUP BY {', '.join(columns)} ORDER BY {', '.join(columns)}"
        " LIMIT %(limit)s"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, {**parameters, "limit": min(query.limit, _MOST_USAGE_ROWS)})
        rows = cursor.fetchall()
    return _bucket_rows(rows, source_ids, with_account=query.by == "account")


def _bucket_rows(rows: Sequence[tuple[Any, ...]], slugs: Mapping[int, str], *, with_account: bool) -> list[BucketRow]:
    names = _account_names({row[2] for row in rows}) if with_account else {}
    bucket_rows = []
    for at, source_id, *rest in rows:
        account_id, site, *amounts = rest if with_account else (0, *rest)
        place = [at.isoformat(), source_id, *([account_id] if with_account else []), site]
        sums = dict(zip(AMOUNTS, amounts, strict=True))
        bucket_rows.append(BucketRow(slugs[source_id], names.get(account_id), site, at, place=place, **sums))
    return bucket_rows


def _account_names(ids: set[int]) -> dict[int, BucketAccount]:
    columns = ("namespace", "user_name", "group_name", "dn", "fqan", "project")
    rows = Account.objects.filter(pk__in=ids).values_list("id", *columns)
    return {row[0]: BucketAccount(*row[1:]) for row in rows}


def _reads_all(slug: str | None, actor: Actor) -> bool:
    """Whether the actor may read usage of all accounts: administrators, and a token that writes just this source."""
    return may_read_all(actor) or (slug is not None and may_write(actor, slug))


def _readable_accounts(name: str | None, reads_all: bool, actor: Actor) -> list[int]:
    accounts = Account.objects.all()
    if name is not None:
        accounts = accounts.filter(user_name=name)
    if not reads_all:
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
    """The sources within the bounds of the actor's token."""
    sources = Source.all_objects.all() if also_archived else Source.objects.all()
    if not actor.is_bound:
        return sources
    reached = [slug for slug in sources.values_list("slug", flat=True) if actor.reaches_source(slug)]
    return sources.filter(slug__in=reached)


def _counted(sources: QuerySet[Source]) -> list[Source]:
    listed = list(sources)
    ids = [source.pk for source in listed]
    n_accounts = account_counts.count(ids)
    with connection.cursor() as cursor:
        cursor.execute(_N_REJECTED, [ids])
        n_rejected = dict(cursor.fetchall())
    for source in listed:
        source.n_accounts = n_accounts.get(source.pk, 0)
        source.n_rejected = n_rejected.get(source.pk) or 0
    return listed


def _imports_of(actor: Actor) -> QuerySet[Import]:
    imports = Import.objects.select_related("source", "run", "owner")
    if may_read_all(actor):
        return imports
    return imports.filter(Q(owner=actor.user) & Q(owner__isnull=False))
