"""Finds jobs by number: waiting ones in the queues of schedulers, others in the records of usage sources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from apps.accounts.actor import Actor
from apps.accounts.selectors import list_accounts_of
from apps.contrib.schedulers.my_jobs import list_my_waiting_jobs
from apps.contrib.schedulers.own_waiting_jobs import WaitingJob
from apps.contrib.schedulers.waiting import find_in_queues
from apps.contrib.search.name_index import Match
from apps.core import clock
from apps.core.errors import NotFound, Unavailable
from apps.policies.models import Policy
from apps.priorities.charges import NumberedJob, find_by_number
from apps.usage.models import Record

LONGEST_NUMBER = 128  # characters, as records store it
MOST_OWN_WAITING = 3  # jobs of the reader that an answer lists

FoundState = Literal["pending", "held", "running", "finished", "withdrawn", "charge"]


@dataclass(frozen=True, slots=True)
class JobHit:
    """A job by its number. number: with its task, `12_3`, as the addresses of its pages have it.

    origin: name of the scheduler that lists it as waiting, or else of its usage source. record_id: of the record with
    its charge; None for a job of a scheduler's queue. path: of its entry; empty while unmapped.
    """

    policy_slug: str
    policy_name: str
    title: str
    number: str
    user: str
    state: FoundState
    origin: str
    path: str
    record_id: int | None
    match: Match = Match.BEGINS


@dataclass(frozen=True, slots=True)
class _Number:
    """A job's number as it is typed. place: slug of a usage source or name of a scheduler; empty: any."""

    place: str
    job: str

    @property
    def without_tasks_and_step(self) -> str:
        """`9` of `9_[2-8:2,11%4]`, tasks that squeue lists together; `12_3` of `12_3.batch`, a step of sacct."""
        array = re.fullmatch(r"([0-9]+)_\[[^\]]*\]", self.job)
        step = re.fullmatch(r"([0-9]+(?:_[0-9]+|\[[0-9]+\])?)\.(?:batch|extern|interactive|[0-9]+)", self.job)
        match = array or step
        return match[1] if match else self.job


def find_jobs(policies: Sequence[Policy], query: str, actor: Actor, most: int) -> tuple[list[JobHit], int | None]:
    """Find the jobs of exactly this number (`12`, `12_3`, `12[3]`, `source:12`) that the actor may see.

    Without any, those of the number that Slurm's listings add tasks or a step to. Waiting jobs come first, then the
    newest. Their number is None if there may be more than were read. Queries that can't be a number read nothing.
    """
    wanted = _number_of(query)
    if wanted is None:
        return [], 0
    hits, n = _find(policies, wanted, actor, most)
    if not hits and wanted.without_tasks_and_step != wanted.job:
        return _find(policies, replace(wanted, job=wanted.without_tasks_and_step), actor, most)
    return hits, n


def own_waiting_jobs(*, policy_slug: str, actor: Actor, at: datetime) -> Sequence[WaitingJob] | None:
    """The actor's own jobs that wait, at most `MOST_OWN_WAITING`, the first to go first; None without numbers, or
    without jobs and accounts.

    The first job of a user waits before any record names the account.
    """
    if actor.user is None:
        return None
    try:
        jobs = list_my_waiting_jobs(policy_slug=policy_slug, actor=actor, at=at, limit=MOST_OWN_WAITING).jobs
    except (NotFound, Unavailable):
        return None
    return jobs if jobs or list_accounts_of(actor.user) else None


def _find(policies: Sequence[Policy], wanted: _Number, actor: Actor, most: int) -> tuple[list[JobHit], int | None]:
    waiting: list[JobHit] = []
    recorded: dict[int, list[JobHit]] = {}
    is_complete = True
    for policy in policies:
        waiting += _find_waiting(policy, wanted, actor)
        jobs = find_by_number(policy_slug=policy.slug, job=wanted.job, source=wanted.place, limit=most + 1, actor=actor)
        is_complete &= len(jobs) <= most
        for job in jobs:
            recorded.setdefault(job.record.pk, []).append(_recorded_hit(policy, job))
    hits = waiting + [hit for job_hits in recorded.values() for hit in _where_it_counts(job_hits)]
    return hits[:most], len(hits) if is_complete else None


def _number_of(query: str) -> _Number | None:
    if len(query) > LONGEST_NUMBER or not any(letter.isdecimal() for letter in query) or len(query.split()) != 1:
        return None
    match = re.fullmatch(r"(?:([^\[]*):)?([^:]+|[^:\[]+\[.*)", query)  # a colon in brackets is a step of tasks
    return _Number(match[1] or "", match[2]) if match else None


def _find_waiting(policy: Policy, wanted: _Number, actor: Actor) -> list[JobHit]:
    queued = find_in_queues(
        job=wanted.job, at=clock.now(), actor=actor, policy_slug=policy.slug, scheduler=wanted.place
    )
    hits = []
    for queue, i in queued:
        job, name = queue.job(i), queue.scheduler.name
        title = f"{job.job}[{job.array_task}]" if job.array_task else job.job
        user = job.user or job.group
        hits.append(JobHit(policy.slug, policy.name, title, wanted.job, user, job.state, name, job.entry, None))
    return hits


def _recorded_hit(policy: Policy, job: NumberedJob) -> JobHit:
    record, account = job.record, job.record.account
    number = f"{record.job}_{record.array_task}" if record.array_task else record.job
    title = f"{record.job}[{record.array_task}]" if record.array_task else record.job
    user = account.user_name or account.dn or account.group_name
    state: FoundState = "charge" if record.is_charge else Record.State(record.state).value  # type: ignore[assignment]
    return JobHit(
        policy.slug, policy.name, title, number, user, state, record.source.name, job.path, record_id=record.pk
    )


def _where_it_counts(hits: Sequence[JobHit]) -> Sequence[JobHit]:
    """One record in several policies: those in which its account is mapped, else the first."""
    return [hit for hit in hits if hit.path] or hits[:1]
