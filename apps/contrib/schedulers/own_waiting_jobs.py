"""A user's waiting jobs and their positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Annotated, Literal

from django.db.models import Count, Exists, OuterRef, Q

from apps.accounts.actor import Actor
from apps.accounts.models import Account, Token
from apps.accounts.selectors import list_accounts_of
from apps.contrib.schedulers.new_job import NewJobPlace
from apps.contrib.schedulers.rank_use import RankUse
from apps.explain.job_starts import JobStart
from apps.policies.selectors import get_policy
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.usage.models import Record, Source

_PENDING = Record.State.PENDING
_NAMES = ("user_name", "group_name", "namespace", "dn", "fqan", "project")


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A pending job. position: 1 goes first; None for a job without a place, such as a held one."""

    record_id: Annotated[int | None, "Of its charge, once it runs; null: listed by a scheduler's agent"]
    source: Annotated[str, "Name of the scheduler or usage source that listed it"]
    ordered_by: Annotated[Literal["scheduler", "fairshare"], "Order that its position is of"]
    job: Annotated[str, "Number"]
    array_task: Annotated[str, "Tasks of an array that wait together"]
    user: Annotated[str, "Under which it was submitted"]
    group: Annotated[str, "What Slurm calls the account"]
    cpus: Annotated[float | None, "Cores asked for"]
    requested_s: Annotated[float | None, "Time limit"]
    submit_at: Annotated[datetime | None, "When it was submitted"]
    position: Annotated[int | None, "1 goes first; null for a held job, and for an account without a rank"]
    of: Annotated[int, "Jobs of which `position` is one: those that compete in its partition, or all of the source"]
    partition: Annotated[str, "Whose jobs `of` counts; empty: not known"] = ""
    by_fairshare: Annotated[int | None, "Jobs ahead only because of fair share; null: not known"] = None
    is_held: Annotated[bool, "Held by its user, an administrator or a dependency"] = False
    held_by: Annotated[str, "Why it waits, in a word or two; empty: not known"] = ""
    rank_use: Annotated[RankUse | None, "Whether its scheduler orders it by the policy's rank; null: not known"] = None
    start: Annotated[JobStart | None, "When it starts, with a probability; null: not known"] = None

    @property
    def is_listed(self) -> bool:
        """Whether a scheduler lists it, so that its waiting can be explained."""
        return self.ordered_by == "scheduler"

    @property
    def number(self) -> str:
        return f"{self.job}_{self.array_task}" if self.array_task else self.job


@dataclass(frozen=True, slots=True)
class UnreadQueue:
    """A scheduler whose agent doesn't list its queue now, so that jobs may be missing."""

    scheduler: Annotated[str, "Its name"]
    read_at: Annotated[datetime | None, "Its last listing, whose jobs are shown; null: there was none"]


@dataclass(frozen=True)
class WaitingJobs:
    """The actor's pending jobs, best first. n_mine: number of all; n_all: of all pending jobs in their sources.

    listed_by: names of the schedulers and sources that list their jobs now. unread: schedulers that don't. silent:
    names of sources in the accounts' namespaces that list no pending or running job. new_job: the best place that a job
    submitted now would get; None if none is known.
    """

    jobs: Sequence[WaitingJob]
    n_mine: int
    n_all: int
    seen_at: datetime | None
    silent: Sequence[str]
    listed_by: Sequence[str] = ()
    unread: Sequence[UnreadQueue] = ()
    new_job: NewJobPlace | None = None


def list_pending_records(
    *, policy_slug: str, actor: Actor, limit: int = 5, without: AbstractSet[str] = frozenset()
) -> WaitingJobs:
    """Pending records of the actor's accounts, except in namespaces of `without`; none for a token of a subtree.

    A position counts pending jobs in the same source with a better rank, or with an equal rank and submitted earlier.
    It ignores the scheduler's other terms (age, size, limits).

    Raises:
        NotFound: there is no such policy.
        Unavailable: nothing has been computed yet.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope=Token.Scope.SELF_READ)
    snapshot = store.newest(policy.slug)
    accounts = {account.pk: account for account in _own(actor) if account.namespace not in without}
    open_jobs = Record.objects.filter(source__archived_at=None).exclude(state=Record.State.FINISHED)
    pending = open_jobs.filter(state=_PENDING)
    records = list(pending.filter(account_id__in=list(accounts)).select_related("source", "account"))
    queues = {source: _Queue(snapshot, source) for source in {job.source_id for job in records}}
    jobs = [queues[job.source_id].placed(job) for job in records]
    jobs.sort(key=lambda job: (job.position or inf, job.submit_at, job.record_id))
    seen = [job.seen_at for job in records if job.seen_at is not None]
    silent, listed_by = _sources({account.namespace for account in accounts.values()})
    return WaitingJobs(
        jobs=jobs[:limit],
        n_mine=len(jobs),
        n_all=sum(queue.n_jobs for queue in queues.values()),
        seen_at=min(seen, default=None),
        silent=silent,
        listed_by=listed_by,
    )


def _own(actor: Actor) -> Sequence[Account]:
    if actor.user is None or actor.top_uid is not None:
        return []
    return list_accounts_of(actor.user)


def _sources(namespaces: set[str]) -> tuple[list[str], list[str]]:
    """Names of sources without open jobs, and of those with some."""
    sources = Source.objects.filter(namespace__in=namespaces, archived_at=None).exclude(kind=Source.Kind.PEER)
    # Written as in the condition of the partial index, so that the index is used.
    is_open = ~Q(state=Record.State.FINISHED) & Q(state__in=(_PENDING, Record.State.RUNNING))
    listed = Record.objects.filter(is_open, source_id=OuterRef("pk"))
    rows = sources.annotate(lists_jobs=Exists(listed)).order_by("name").values_list("name", "lists_jobs")
    return [name for name, lists in rows if not lists], [name for name, lists in rows if lists]


class _Queue:
    """Pending jobs of one source: their number by account and rank."""

    def __init__(self, snapshot: ServedSnapshot, source_id: int) -> None:
        self._snapshot = snapshot
        self._waiting = Record.objects.exclude(state=Record.State.FINISHED).filter(source_id=source_id, state=_PENDING)
        rows = self._waiting.values_list("account_id").annotate(n=Count("pk"))
        self._n_of: Mapping[int, int] = dict(rows.values_list("account_id", "n"))
        self._ranks = self._ranked(Account.objects.filter(pk__in=list(self._n_of)))
        self.n_jobs = sum(self._n_of.values())

    def _ranked(self, accounts: Iterable[Account]) -> dict[int, int]:
        """The best rank of each account's entries; accounts without a rank are left out."""
        values, index = self._snapshot.values, self._snapshot.index
        best_ranks = {}
        for account in accounts:
            entries = index.find_certain(AccountQuery(*(getattr(account, name) for name in _NAMES)))
            ranks = [int(values.rank[entry]) for entry in entries if values.has_rank[entry]]
            if ranks:
                best_ranks[account.pk] = min(ranks)
        return best_ranks

    def placed(self, job: Record) -> WaitingJob:
        return WaitingJob(
            record_id=job.pk,
            source=job.source.name,
            ordered_by="fairshare",
            job=job.job,
            array_task=job.array_task,
            user=job.account.user_name or job.account.dn,
            group=job.account.group_name,
            cpus=job.cpus,
            requested_s=job.requested_s,
            submit_at=job.submit_at,
            position=self._position(job),
            of=self.n_jobs,
        )

    def _position(self, job: Record) -> int | None:
        rank = self._ranks.get(job.account_id)
        if rank is None:
            return None
        better = sum(n for account, n in self._n_of.items() if self._ranks.get(account, rank) < rank)
        equal = [account for account, other in self._ranks.items() if other == rank]
        earlier = Q(submit_at__lt=job.submit_at) | Q(submit_at=job.submit_at, pk__lt=job.pk)
        return better + self._waiting.filter(earlier, account_id__in=equal).count() + 1
