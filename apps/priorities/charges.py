"""Charges of single jobs with their arithmetic, visible to owners, to readers of names, and to administrators."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property

from django.db import connection
from django.db.models import Exists, F, Max, Min, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.accounts.models import Account, Token
from apps.accounts.selectors import list_accounts_of
from apps.core.errors import NotAllowed, NotFound
from apps.core.resource_kinds import kinds_of_object
from apps.mapping.permissions import MapRights
from apps.mapping.rules.resolver import UNMAPPED, Resolver
from apps.mapping.rules.rule_set import load_rule_set
from apps.policies.access.scope import administers_policies
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings
from apps.priorities.job_charge import JobCharge, JobFacts, charge_of
from apps.priorities.metering import window_of
from apps.priorities.own_times import since_by_source
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.usage_factors import RATES, JobClassRow
from apps.usage.models import Overlap, Record, Source
from apps.usage.open_jobs import known_until_s
from apps.usage.parsers.base import text_column
from apps.usage.records.record_keys import job_numbers

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_READS = (Token.Scope.POLICIES_READ, Token.Scope.POLICIES_WRITE, Token.Scope.SELF_READ)
_NEWEST_OF_SOURCE = 100_000  # bounds the last records that are searched for a source's newest
_MOST_ACCOUNTS_OF_NAME = 1_000
# As `held_hours.NOT_HELD`.
_OVERLAPS = Overlap.objects.filter(state__in=(Overlap.State.HELD, Overlap.State.DROPPED), kept__archived_at=None)
_OF_JOB = """
SELECT record.id, record.account_id FROM usage_source AS source
CROSS JOIN LATERAL (
    SELECT id, account_id FROM usage_record WHERE source_id = source.id AND job_number = ANY(%(numbers)s::int4[])
        AND ((job = %(job)s) OR (job = %(array)s AND array_task = %(task)s))
        AND (%(accounts)s::bigint[] IS NULL OR account_id = ANY(%(accounts)s))
    ORDER BY id DESC LIMIT 2000) AS record
WHERE %(source)s IN ('', source.slug) AND source.archived_at IS NULL
"""


@dataclass(frozen=True)
class ChargedJob:
    """One job record and its charge in a policy. approach_local: None for a job of another site."""

    record: Record
    source: Source
    account: Account
    charge: JobCharge
    approach_local: str | None
    approach_global: str
    _reader: _Reader

    @property
    def path(self) -> str | None:
        """Of its entry by the current rules, which are loaded on first use; None if unmapped."""
        return self._reader.path_of(self.account) or None

    @property
    def policy_slug(self) -> str:
        return self._reader.policy.slug

    @property
    def usage_local(self) -> float | None:
        return None if self.approach_local is None else self.charge.usage(self.approach_local)

    @property
    def usage_global(self) -> float:
        return self.charge.usage(self.approach_global)


@dataclass(frozen=True)
class ChargesPage:
    """A page of charges, in the order that its selector states.

    as_of: instant of the newest snapshot, so that charges add up to the usage on other pages.
    """

    policy: Policy
    settings: PolicySettings
    as_of: datetime
    jobs: list[ChargedJob]
    next_before: int | None
    reads_all: bool


def list_charges(
    *,
    policy_slug: str,
    job: str = "",
    source: str = "",
    account: str = "",
    before: int | None = None,
    limit: int = 50,
    actor: Actor,
) -> ChargesPage:
    """Charges by job, account or source, newest first; without any of them the actor's own jobs.

    Newest is the latest start, or submission before it; for all jobs of a source, which are many, the last recorded.
    Jobs of others are included if the actor may read names at their entry. All jobs of a source: administrators only.
    before: id of the last charge of the page before.
    """
    reader = _open(policy_slug, actor)
    if source and not Source.objects.filter(slug=source).exists():
        raise NotFound(f"There is no usage source {source[:64]!r}.")
    rows = _candidates(reader, job=job.strip(), source=source, account=account.strip())
    if not source or job.strip() or account.strip():
        rows = _newest_first(rows, before)
    else:
        rows = (rows if before is None else rows.filter(pk__lt=before)).order_by("-pk")
    records: list[Record] = []
    for row in rows[: 20 * limit].iterator():
        if reader.may_read(row.account):
            records.append(row)
            if len(records) > limit:
                break
    jobs = [reader.charged(row) for row in records[:limit]]
    following = records[limit - 1].pk if len(records) > limit else None
    return ChargesPage(reader.policy, reader.view.settings, reader.as_of, jobs, following, reader.reads_all)


@dataclass(frozen=True, slots=True)
class NumberedJob:
    """A job record found by its number. path: of its entry in the policy; "" if unmapped."""

    record: Record
    path: str


def find_by_number(*, policy_slug: str, job: str, source: str = "", limit: int, actor: Actor) -> list[NumberedJob]:
    """Records of a job, or of a task of an array, whose charge the actor may read, newest first; at most `limit`.

    Rules and own accounts are loaded and records of others left out before records are read, so that the number of a
    hidden job takes as long as one that doesn't exist.
    """
    reader = _open(policy_slug, actor)
    account_of = _of_job(job, source, reader.load_readable())
    accounts = Account.objects.filter(pk__in={0, *account_of.values()})  # also for a number that no record has
    readable = {account.pk for account in accounts if reader.may_read(account)}
    ids = [record for record, account in account_of.items() if account in readable]
    rows = _newest_first(_with_ids(_listed_records(), job, ids), None)
    return [NumberedJob(row, reader.path_of(row.account)) for row in rows[:limit]]


def _newest_first(rows: QuerySet[Record], before: int | None) -> QuerySet[Record]:
    """By start, or submission before it: sources report late and in any order."""
    rows = rows.annotate(newest_at=Coalesce("start_at", "submit_at"))
    if before is not None:
        last = Record.objects.filter(pk=before).values_list(Coalesce("start_at", "submit_at"), flat=True).first()
        if last is None:
            return rows.none()
        rows = rows.filter(Q(newest_at__lt=last) | Q(newest_at=last, pk__lt=before))
    return rows.order_by("-newest_at", "-pk")


def list_newest_charges(*, policy_slug: str, limit: int, actor: Actor) -> ChargesPage:
    """The actor's own jobs, latest start first; of equal starts the running ones, then the latest end. Pending last.

    Sources report late and in any order, so the order of records isn't that of jobs.
    """
    reader = _open(policy_slug, actor)
    rows = _candidates(reader, job="", source="", account="")
    by_start = (F("start_at").desc(nulls_last=True), F("end_at").desc(nulls_first=True), "-pk")
    jobs = [reader.charged(row) for row in rows.order_by(*by_start)[:limit]]
    return ChargesPage(reader.policy, reader.view.settings, reader.as_of, jobs, None, reader.reads_all)


def get_charge(*, policy_slug: str, record_id: int, actor: Actor) -> tuple[ChargedJob, ChargesPage]:
    """One charge; NotFound if the actor may not read it."""
    reader = _open(policy_slug, actor)
    row = _records().filter(pk=record_id).first()
    if row is None or not reader.may_read(row.account):
        raise NotFound("There is no such job.")
    job = reader.charged(row)
    page = ChargesPage(reader.policy, reader.view.settings, reader.as_of, [job], None, reader.reads_all)
    return job, page


def charge_of_job(
    settings: PolicySettings, record: Record, as_of: datetime, *, own_times_since: Mapping[int, float] | None = None
) -> JobCharge:
    """The charge of a stored record at an instant. Checks no permission. own_times_since: as `since_by_source` has it,
    for callers with many records.
    """
    window = window_of(settings.window)
    if own_times_since is None:
        own_times_since = since_by_source(window, sources=[record.source_id], to_at=as_of)
    facts = facts_of(record)
    if window.charges_by_period:
        facts = replace(facts, part_before_us=_part_before_us(record))
    return charge_of(
        facts,
        metric=settings.metric,
        window=window,
        as_of_s=as_of.timestamp(),
        held=_held(record),
        own_times_since_s=own_times_since.get(record.source_id, math.inf),
    )


def _part_before_us(record: Record) -> int | None:
    """First start of a job that was resized, of one of its later parts."""
    if record.start_at is None or record.submit_at != record.start_at:
        return None
    same = {name: getattr(record, name) for name in ("source_id", "job_number", "cluster", "job", "array_task")}
    before = Record.objects.filter(**same, end_at__lte=record.start_at)
    edges = before.aggregate(first=Min("start_at"), last=Max("end_at"))
    return _microseconds(edges["first"]) if edges["last"] == record.start_at else None


def facts_of(record: Record) -> JobFacts:
    rates = {
        "cpus": record.cpus,
        "gpus": record.gpus,
        "mem_gb": record.mem_mb / 1024.0,
        "nodes": record.nodes,
        "billing": record.billing,
    }
    known = record.job_class
    return JobFacts(
        state=record.state,  # type: ignore[arg-type]  # one of the choices, by the model
        start_us=_microseconds(record.start_at),
        end_us=_microseconds(record.end_at),
        rates={resource: rates[rate] for resource, rate in RATES.items()},
        mem_mb=record.mem_mb,
        requested_s=record.requested_s,
        known_until_s=known_until_s(record),
        job_class=JobClassRow(known.pk, known.queue, known.partition, known.qos),
        site=record.site,
        kinds=kinds_of_object(record.kinds),
    )


@dataclass(frozen=True)
class _Reader:
    """One policy, and which jobs in it the actor may read."""

    view: PolicyView
    actor: Actor

    @property
    def policy(self) -> Policy:
        return self.view.policy

    @property
    def as_of(self) -> datetime:
        return self.view.as_of or self.view.now

    @cached_property
    def reads_all(self) -> bool:
        return administers_policies(self.actor, Token.Scope.POLICIES_READ)

    @cached_property
    def own(self) -> dict[int, Account]:
        """The actor's own accounts; none for a token bound to a subtree."""
        if self.actor.user is None or not self.actor.has_scope(Token.Scope.SELF_READ):
            return {}
        is_part = self.actor.top_uid is not None
        return {} if is_part else {account.pk: account for account in list_accounts_of(self.actor.user)}

    @cached_property
    def _rights(self) -> MapRights:
        return MapRights(self.policy, self.view.tree, self.actor, self.view.now)

    @cached_property
    def _resolver(self) -> Resolver:
        return load_rule_set(self.policy, self.view.tree).on(self.view.tree)

    @cached_property
    def _own_times_since(self) -> dict[int, float]:
        sources = list(Source.objects.values_list("pk", flat=True))
        return since_by_source(window_of(self.view.settings.window), sources=sources, to_at=self.as_of)

    @cached_property
    def _entries(self) -> dict[int, int]:
        return {}

    @cached_property
    def _reads_policies(self) -> bool:
        return self.actor.has_scope(Token.Scope.POLICIES_READ) or self.actor.has_scope(Token.Scope.POLICIES_WRITE)

    def entry_of(self, account: Account) -> int:
        """The account's entry by the current rules; UNMAPPED if there is none."""
        if account.pk not in self._entries:
            key = AccountKey(*(getattr(account, name) for name in AccountKey._fields))
            entry = self._resolver.resolve(key).entry
            self._entries[account.pk] = UNMAPPED if entry == 0 else entry
        return self._entries[account.pk]

    def path_of(self, account: Account) -> str:
        entry = self.entry_of(account)
        return "" if entry == UNMAPPED else self.view.tree.path(entry)

    def load_readable(self) -> list[int] | None:
        """Load what `may_read` needs. Ids of the only accounts that the actor may read; None: it depends on entries."""
        if self.reads_all:
            return None
        own = list(self.own)
        if not self._reads_policies or not self._rights.reads_anywhere:
            return own
        self._resolver  # noqa: B018 - loaded now, whether or not there is such a job
        return None

    def may_read(self, account: Account) -> bool:
        """Whether the actor owns it, may read names at its entry (the root if unmapped), or is an administrator."""
        if self.reads_all or account.pk in self.own:
            return True
        if not self._reads_policies:
            return False
        entry = self.entry_of(account)
        return self._rights.may_name(0 if entry == UNMAPPED else entry)

    def charged(self, record: Record) -> ChargedJob:
        settings = self.view.settings
        return ChargedJob(
            record=record,
            source=record.source,
            account=record.account,
            charge=charge_of_job(settings, record, self.as_of, own_times_since=self._own_times_since),
            approach_local=None if record.source.origin else settings.approach["local"],
            approach_global=settings.approach["global"],
            _reader=self,
        )


def _open(policy_slug: str, actor: Actor) -> _Reader:
    scope = next((scope for scope in _READS if actor.has_scope(scope)), None)
    if scope is None:
        raise NotAllowed(
            "This token lacks the scope self:read or policies:read: make one that has it.", code="scope_missing"
        )
    return _Reader(open_view(policy_slug=policy_slug, actor=actor, scope=scope), actor)


def _records() -> QuerySet[Record]:
    """Records with related rows for their charges. has_overlap: whether `_held` can find hours."""
    overlaps = _OVERLAPS.filter(held_id=OuterRef("source_id"), site=OuterRef("site"))
    return Record.objects.select_related("account", "job_class", "source").annotate(has_overlap=Exists(overlaps))


def _listed_records() -> QuerySet[Record]:
    """Records of sources that are not archived. Those of peers have no names."""
    return _records().filter(source__archived_at=None).exclude(source__kind=Source.Kind.PEER)


def _candidates(reader: _Reader, *, job: str, source: str, account: str) -> QuerySet[Record]:
    """Records by the narrowest filter given. The caller checks each record's permission."""
    rows = _listed_records()
    if source:
        rows = rows.filter(source__slug=source)
    if account:
        named = Account.objects.filter(Q(user_name=account) | Q(dn=account)).order_by("pk")[:_MOST_ACCOUNTS_OF_NAME]
        rows = rows.filter(account_id__in=[each.pk for each in named if reader.may_read(each)])
    elif not job and not (source and reader.reads_all):
        rows = rows.filter(account_id__in=list(reader.own))
    elif not job:
        rows = rows.filter(pk__gt=_last_id() - _NEWEST_OF_SOURCE)
    if job:
        rows = _with_ids(rows, job, list(_of_job(job, source)))
    return rows


def _last_id() -> int:
    """An id that no record is behind; those just before it may be unused."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_value FROM usage_record_ids")
        return int(cursor.fetchone()[0])


def _with_ids(rows: QuerySet[Record], job: str, ids: list[int]) -> QuerySet[Record]:
    """Those of a job with one of these ids: found by the job's number, because ids have no index of their own."""
    numbers, sources = _numbers_of(job)[1], list(Source.objects.values_list("pk", flat=True))
    return rows.filter(source_id__in=sources, job_number__in=numbers, pk__in=ids)


def _of_job(text: str, source: str, accounts: list[int] | None = None) -> dict[int, int]:
    """Records of a job by its number: 4711, or 4711_3 and 4711[3] for a task of an array. Id → id of the account.

    accounts: ids of the only accounts whose records are returned; None: all.
    """
    (array, task), numbers = _numbers_of(text)
    with connection.cursor() as cursor:
        parameters = {
            "source": source,
            "numbers": numbers,
            "job": text,
            "array": array if task else "",
            "task": task,
            "accounts": accounts,
        }
        cursor.execute(_OF_JOB, parameters)
        return dict(cursor.fetchall())


def _numbers_of(text: str) -> tuple[tuple[str, str], list[int]]:
    """Array and task that a job's number may name, and the numbers of records of either."""
    array, _mark, task = text.rstrip("]").replace("[", "_").rpartition("_")
    return (array, task), job_numbers(text_column([text, array])).tolist()


def _held(record: Record) -> list[tuple[float, float]]:
    """Hours (from, to) of a job that another source reported too, and that don't count here."""
    if record.state != Record.State.FINISHED or record.start_at is None or record.end_at is None:
        return []
    if not getattr(record, "has_overlap", True):
        return []
    rows = _OVERLAPS.filter(
        held_id=record.source_id,
        site=record.site,
        from_at__lte=record.end_at,
        to_at__gt=record.start_at - timedelta(hours=1),
    )
    return [(row.from_at.timestamp(), row.to_at.timestamp()) for row in rows]


def _microseconds(at: datetime | None) -> int | None:
    return None if at is None else (at - _EPOCH) // timedelta(microseconds=1)
