"""A user's own waiting jobs: from the queue that an agent lists, else from the records of usage sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import Any

import numpy as np

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.accounts.request_cache import once_per_request
from apps.contrib.schedulers.job_starts import load_starts
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.new_job import NewJob, NewJobPlace, place_new_job, usual_new_job
from apps.contrib.schedulers.own_waiting_jobs import UnreadQueue, WaitingJob, WaitingJobs, list_pending_records
from apps.contrib.schedulers.rank_use import rank_use_messages
from apps.contrib.schedulers.selectors import VisibleQueue, open_queue, views_of
from apps.contrib.schedulers.waiting import explain_waiting, starting_order
from apps.core.errors import DomainError, NotFound
from apps.explain.my_priority import MyPriority
from apps.explain.verdict import QueueFacts
from apps.mapping.permissions import own_keys
from apps.policies.selectors import get_policy

_SHOWN_JOBS = 5  # of the card
MOST_OWN_JOBS = 100  # each is placed among all of its queue


@dataclass(frozen=True, eq=False)
class OwnQueues:
    """Listings of a policy's schedulers. unread: those whose agent lists none now, each with its last listing."""

    listed: Sequence[VisibleQueue] = ()
    unread: Sequence[tuple[Scheduler, VisibleQueue | None]] = ()

    @property
    def known(self) -> list[VisibleQueue]:
        """All listings, also old ones."""
        return [*self.listed, *(queue for _scheduler, queue in self.unread if queue is not None)]

    def of_namespace(self, namespace: str) -> OwnQueues:
        """Those in which jobs of the accounts of a namespace run."""

        def is_here(scheduler: Scheduler) -> bool:
            return scheduler.namespace in ("", namespace) or not namespace

        return OwnQueues(
            [queue for queue in self.listed if is_here(queue.scheduler)],
            [(scheduler, queue) for scheduler, queue in self.unread if is_here(scheduler)],
        )


def list_my_waiting_jobs(*, policy_slug: str, actor: Actor, at: datetime, limit: int = _SHOWN_JOBS) -> WaitingJobs:
    """The actor's waiting jobs, best first, at most `MOST_OWN_JOBS`.

    A cluster whose agent lists its queue is read from that list alone: its records come later and know no order.

    Raises:
        NotFound: there is no such policy.
        Unavailable: nothing has been computed yet.
    """
    get_policy(slug=policy_slug, actor=actor, scope=Token.Scope.SELF_READ)
    queues = _queues_of(policy_slug, actor, at)
    return _with_starts(_without_starts(policy_slug, queues, actor, min(limit, MOST_OWN_JOBS)), queues, at)


def count_shown_jobs(*, policy_slug: str, actor: Actor, at: datetime) -> int:
    """How many jobs the card of waiting jobs shows; 0 where it says why it shows none."""
    try:
        queues = _queues_of(policy_slug, actor, at)
        return len(_without_starts(policy_slug, queues, actor, _SHOWN_JOBS).jobs)
    except DomainError:
        return 0


def _without_starts(policy_slug: str, queues: OwnQueues, actor: Actor, limit: int) -> WaitingJobs:
    known = frozenset(queue.scheduler.namespace for queue in queues.known)
    pending = list_pending_records(policy_slug=policy_slug, actor=actor, limit=limit, without=known)
    return with_queues(pending, queues, own_keys(actor), limit=limit)


def _with_starts(waiting_jobs: WaitingJobs, queues: OwnQueues, at: datetime) -> WaitingJobs:
    """Add when the jobs that schedulers list start, with one request for each scheduler."""
    numbers: dict[str, dict[str, None]] = {}
    for job in waiting_jobs.jobs:
        if job.is_listed:
            numbers.setdefault(job.source, {})[job.number] = None
    starts = {
        queue.scheduler.name: load_starts(queue.scheduler, list(numbers[queue.scheduler.name]), at=at)
        for queue in queues.known
        if queue.scheduler.name in numbers
    }
    jobs = [
        replace(job, start=starts[job.source].get(job.number)) if job.source in starts else job
        for job in waiting_jobs.jobs
    ]
    return replace(waiting_jobs, jobs=jobs)


def with_queues(waiting_jobs: WaitingJobs, queues: OwnQueues, keys: Sequence[AccountKey], *, limit: int) -> WaitingJobs:
    """Add the jobs of a user's accounts in these queues, in the order of their positions."""
    jobs, n_mine, seen = (
        list(waiting_jobs.jobs),
        waiting_jobs.n_mine,
        [waiting_jobs.seen_at] if waiting_jobs.seen_at else [],
    )
    own = [(queue, own_jobs(queue, keys)) for queue in queues.known]
    for queue, own_rows in own:
        n_mine += len(own_rows)
        jobs += [place_job(queue, i) for i in own_rows[:limit]]
        seen += [queue.table.taken_at] if queue.table.taken_at else []
    jobs.sort(key=lambda job: (job.position or inf, job.is_held))
    return replace(
        waiting_jobs,
        jobs=jobs[:limit],
        n_mine=n_mine,
        n_all=waiting_jobs.n_all + sum(len(queue.table) for queue in queues.known),
        seen_at=min(seen, default=None),
        listed_by=[*(queue.scheduler.name for queue in queues.listed), *waiting_jobs.listed_by],
        unread=[
            UnreadQueue(scheduler.name, None if queue is None else queue.table.taken_at)
            for scheduler, queue in queues.unread
        ],
        new_job=_best_new_place(own, queues, keys),
    )


def _best_new_place(
    own: Sequence[tuple[VisibleQueue, Sequence[int]]], queues: OwnQueues, keys: Sequence[AccountKey]
) -> NewJobPlace | None:
    """Of the queues that are listed now: in an old one, others have come since."""
    places = [place_new_job(queue, rows, keys) for queue, rows in own if queue in queues.listed]
    return min((place for place in places if place is not None), key=lambda place: place.position, default=None)


def list_new_jobs(priority: MyPriority, *, actor: Actor, at: datetime) -> list[NewJob]:
    """A job that the actor could submit under an account now, for each queue that is listed where the account runs."""
    try:
        queues = _queues_of(priority.policy_slug, actor, at).of_namespace(priority.namespace)
    except DomainError:
        return []
    keys = own_keys(actor)
    return [usual_new_job(queue, own_jobs(queue, keys), priority.account) for queue in queues.listed]


def load_queue_facts(priority: MyPriority, *, actor: Actor, at: datetime) -> QueueFacts | None:
    """Facts of the queues in which an account of the actor runs; None without one."""
    try:
        queues = _queues_of(priority.policy_slug, actor, at)
    except DomainError:
        return None
    return queue_facts(priority, queues, own_keys(actor))


def _queues_of(policy_slug: str, actor: Actor, at: datetime) -> OwnQueues:
    """The listings of the policy's schedulers; none for a token of a subtree, which reads no job."""
    if actor.user is None or actor.top_uid is not None:
        return OwnQueues()
    return once_per_request(("own queues", policy_slug, actor), lambda: _open_queues(policy_slug, actor, at))


def _open_queues(policy_slug: str, actor: Actor, at: datetime) -> OwnQueues:
    listed: list[VisibleQueue] = []
    unread: list[tuple[Scheduler, VisibleQueue | None]] = []
    schedulers = Scheduler.objects.select_related("policy").filter(policy__slug=policy_slug).order_by("name")
    for view in views_of(schedulers, at):
        if not view.has_begun:
            continue
        try:
            queue = open_queue(view.scheduler, at=at, actor=actor)
        except NotFound:
            continue
        if not view.lists_queue:
            unread.append((view.scheduler, queue))
        elif queue is not None:
            listed.append(queue)
    return OwnQueues(listed, unread)


def own_jobs(queue: VisibleQueue, keys: Sequence[AccountKey]) -> list[int]:
    """Indices of the visible jobs of a user's accounts: the first of each partition, then by priority, held ones last.

    A place is among the jobs of a partition, so the best place has one of those first ones.
    """
    namespace, table = queue.scheduler.namespace, queue.table
    names = {key.user_name for key in keys if not (namespace and key.namespace) or key.namespace == namespace}
    is_own = np.array([user in names and user != "" for user, _group in table.accounts], np.bool_)
    if not is_own.any():
        return []
    rows = np.flatnonzero(is_own[table.account] & queue.seen)
    jobs = starting_order(queue, rows, table.priority).tolist()
    firsts = {table.partition[i]: i for i in reversed(jobs)}.values()
    return list(dict.fromkeys([*sorted(firsts, key=jobs.index), *jobs]))


def place_job(queue: VisibleQueue, i: int) -> WaitingJob:
    waiting = explain_waiting(queue, i)
    job, is_held = waiting.job, waiting.job.state == "held"
    return WaitingJob(
        record_id=None,
        source=queue.scheduler.name,
        ordered_by="scheduler",
        job=job.job,
        array_task=job.array_task or "",
        user=job.user,
        group=job.group,
        cpus=job.cpus,
        requested_s=None,
        submit_at=job.submit_at,
        position=None if is_held or waiting.ahead is None else waiting.ahead + 1,
        of=waiting.competing or 0,
        partition=waiting.counted_in,
        by_fairshare=None if is_held else waiting.by_fairshare,
        is_held=is_held,
        held_by=waiting.reason.label,
        rank_use=waiting.rank_use,
    )


def listed_queue(waiting_jobs: WaitingJobs) -> QueueFacts:
    """The facts of all waiting jobs of a user, for the sentences beside their list."""
    first = next(iter(waiting_jobs.jobs), None)
    is_placed = first is not None and first.position is not None
    return QueueFacts(
        schedulers=waiting_jobs.listed_by,
        scheduler=first.source if first else "",
        n_own=waiting_jobs.n_mine,
        position=first.position if first else None,
        of=first.of if first else 0,
        partition=first.partition if first else "",
        n_by_fairshare=first.by_fairshare if first and is_placed else None,
        **_new_facts(waiting_jobs.new_job),
    )


def _new_facts(place: NewJobPlace | None) -> dict[str, Any]:
    if place is None:
        return {}
    return {
        "new_scheduler": place.scheduler,
        "new_partition": place.partition,
        "new_position": place.position,
        "new_of": place.of,
    }


def queue_facts(priority: MyPriority, queues: OwnQueues, keys: Sequence[AccountKey]) -> QueueFacts | None:
    """Facts of the queues in which the account runs; None without one. keys: of the user's accounts."""
    here = queues.of_namespace(priority.namespace)
    if priority.error or not (here.listed or here.unread):
        return None
    own = [(queue, own_jobs(queue, keys)) for queue in here.known]
    firsts = [place_job(queue, i) for queue, jobs in own for i in jobs[: len(set(queue.table.partition))]]
    first = min(firsts, key=lambda job: job.position or inf, default=None)
    return QueueFacts(
        schedulers=[queue.scheduler.name for queue in here.listed],
        unread={scheduler.name: None if queue is None else queue.table.taken_at for scheduler, queue in here.unread},
        scheduler=first.source if first else "",
        n_own=sum(len(jobs) for _queue, jobs in own),
        position=first.position if first else None,
        of=first.of if first else 0,
        partition=first.partition if first else "",
        group=first.group if first and first.group != priority.group else "",
        n_by_fairshare=first.by_fairshare if first else None,
        rank_use=tuple(rank_use_messages(here.known, priority)),
        **_new_facts(_best_new_place(own, here, keys)),
    )
