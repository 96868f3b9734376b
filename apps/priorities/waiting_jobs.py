"""A person's own waiting jobs, as sources last listed them, with their place among all that wait there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Annotated

from django.db.models import Count, Q

from apps.accounts.actor import Actor
from apps.accounts.models import Account, Token
from apps.accounts.selectors import list_accounts_of
from apps.policies.selectors import get_policy
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.usage.models import Record, Source

_PENDING = Record.State.PENDING
_NAMES = ("user_name", "group_name", "namespace", "dn", "fqan", "project")


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """position: 1 for the job that fairshare alone lets go first; None for an account without a rank."""

    record_id: Annotated[int, "Of its charge, once it runs"]
    source: Annotated[str, "Name of the usage source that listed it"]
    job: Annotated[str, "Number"]
    array_task: Annotated[str, "Tasks of an array that wait together"]
    user: Annotated[str, "Under which it was submitted"]
    group: Annotated[str, "What Slurm calls the account"]
    cpus: Annotated[float, "Cores asked for"]
    requested_s: Annotated[float | None, "Time limit"]
    submit_at: Annotated[datetime, "When it was submitted"]
    position: Annotated[int | None, "By fairshare alone, 1 goes first; null for an account without a rank"]
    of: Annotated[int, "All that wait in the source"]


@dataclass(frozen=True)
class WaitingJobs:
    """jobs: best first, at most as many as asked for. n_mine: all own ones; n_all: all that wait in their sources.

    silent: names of the sources of these user names that list no job as waiting or running.
    """

    jobs: Sequence[WaitingJob]
    n_mine: int
    n_all: int
    seen_at: datetime | None
    silent: Sequence[str]


def list_waiting_jobs(*, policy_slug: str, actor: Actor, limit: int = 5) -> WaitingJobs:
    """Of the actor's own accounts; none for a token that is bound to a subtree.

    A position says how many jobs of better rank wait in the same source, of equal rank those submitted earlier. The
    scheduler's other terms (age, size, limits) are not in it.

    Raises:
        NotFound: there is no such policy.
        Unavailable: nothing has been computed yet.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope=Token.Scope.SELF_READ)
    snapshot = store.newest(policy.slug)
    accounts = {account.pk: account for account in _own(actor)}
    open_jobs = Record.objects.filter(source__archived_at=None).exclude(state=Record.State.FINISHED)
    pending = open_jobs.filter(state=_PENDING)
    mine = list(pending.filter(account_id__in=list(accounts)).select_related("source", "account"))
    queues = {source: _Queue(snapshot, source) for source in {job.source_id for job in mine}}
    found = [queues[job.source_id].placed(job) for job in mine]
    found.sort(key=lambda job: (job.position or inf, job.submit_at, job.record_id))
    seen = [job.seen_at for job in mine if job.seen_at is not None]
    return WaitingJobs(
        jobs=found[:limit],
        n_mine=len(found),
        n_all=sum(queue.n_jobs for queue in queues.values()),
        seen_at=min(seen, default=None),
        silent=_silent({account.namespace for account in accounts.values()}),
    )


def _own(actor: Actor) -> Sequence[Account]:
    if actor.user is None or (actor.token is not None and actor.token.subtree_uid is not None):
        return []
    return list_accounts_of(actor.user)


def _silent(namespaces: set[str]) -> list[str]:
    sources = Source.objects.filter(namespace__in=namespaces).exclude(kind=Source.Kind.PEER)
    listed = Record.objects.filter(Q(state=_PENDING) | Q(state=Record.State.RUNNING)).exclude(
        state=Record.State.FINISHED
    )
    return [source.name for source in sources.order_by("name") if not listed.filter(source_id=source.pk).exists()]


class _Queue:
    """What waits in one source: how many jobs of each rank."""

    def __init__(self, snapshot: ServedSnapshot, source_id: int) -> None:
        self._snapshot = snapshot
        self._waiting = Record.objects.exclude(state=Record.State.FINISHED).filter(source_id=source_id, state=_PENDING)
        rows = self._waiting.values_list("account_id").annotate(n=Count("pk"))
        self._n_of: Mapping[int, int] = dict(rows.values_list("account_id", "n"))
        self._ranks = self._ranked(Account.objects.filter(pk__in=list(self._n_of)))
        self.n_jobs = sum(self._n_of.values())

    def _ranked(self, accounts: Iterable[Account]) -> dict[int, int]:
        """The best rank of the entries of each account; accounts without one are left out."""
        values, index = self._snapshot.values, self._snapshot.index
        found = {}
        for account in accounts:
            entries = index.find_certain(AccountQuery(*(getattr(account, name) for name in _NAMES)))
            ranks = [int(values.rank[entry]) for entry in entries if values.has_rank[entry]]
            if ranks:
                found[account.pk] = min(ranks)
        return found

    def placed(self, job: Record) -> WaitingJob:
        return WaitingJob(
            record_id=job.pk,
            source=job.source.name,
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
