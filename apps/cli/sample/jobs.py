"""Jobs of the sample grid: what each member has run, day by day."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache

from apps.cli.sample.grid import SEED, SITES, STORY, Behaviour, Grid, Member

DAYS = 92
_JOBS_A_DAY = 420
_SIZES = (1, 1, 2, 4, 8, 8, 16, 32, 64)
_QUEUES = ("batch", "batch", "batch", "long", "debug")
_HOUR_S = 3600
_DAY = timedelta(days=1)
_LONGEST_JOB_TIME = timedelta(hours=24 + 47)  # from the submission of a job to its end
_LATER_NUMBERS = 1_000_000  # of jobs after the loading: above those of the first days and of the backlog
_SILENT_H = {site.slug: site.silent_h for site in SITES}


@dataclass(frozen=True, slots=True)
class SampleJob:
    """One job of a site. `end_at` is None for a running job."""

    site: str
    number: int
    member: Member
    queue: str
    submit_at: datetime
    start_at: datetime
    end_at: datetime | None
    cpus: int
    requested_s: int


def jobs(grid: Grid, *, end_at: datetime) -> Iterator[SampleJob]:
    """Jobs of the `DAYS` before `end_at` in order of submission; jobs that end later are running."""
    for job in _first_jobs(grid, end_at):
        if min(job.end_at or end_at, end_at) <= end_at - timedelta(hours=_SILENT_H[job.site]):
            yield known_at(job, end_at)


def later_jobs(grid: Grid, *, loaded_at: datetime, after: datetime, until: datetime) -> Iterator[SampleJob]:
    """Jobs of a sample loaded at `loaded_at` that started by `until` and ended after `after`, as known at `until`.

    Each day has random numbers of its own, so that a job is the same whenever it is asked for. Sites whose accounting
    was silent stay silent.
    """
    first_day, last_day = ((at - loaded_at) // _DAY + DAYS for at in (after - _LONGEST_JOB_TIME, until))
    for job in _unended_jobs(grid, loaded_at) if first_day < DAYS else ():
        if (job.end_at or loaded_at) > after and not _SILENT_H[job.site]:
            yield known_at(job, until)
    parts = _parts(grid)
    for day in range(max(first_day, DAYS), last_day + 1):
        rng = random.Random(f"{SEED} {day}")
        for job in _jobs_of_day(rng, grid, parts, loaded_at - DAYS * _DAY, day, _LATER_NUMBERS + 1000 * day):
            is_known = job.start_at <= until and (job.end_at or until) > after
            if is_known and not _SILENT_H[job.site]:
                yield known_at(job, until)


def known_at(job: SampleJob, at: datetime) -> SampleJob:
    """The job as its site knows it at an instant: without an end that is yet to come."""
    return job if job.end_at is None or job.end_at <= at else replace(job, end_at=None)


@lru_cache(maxsize=1)
def _unended_jobs(grid: Grid, end_at: datetime) -> tuple[SampleJob, ...]:
    """Those of the first days that end later: kept, because these days are drawn as a whole."""
    return tuple(job for job in _first_jobs(grid, end_at) if (job.end_at or end_at) > end_at)


def _first_jobs(grid: Grid, end_at: datetime) -> Iterator[SampleJob]:
    rng = random.Random(SEED + 1)
    parts = _parts(grid)
    number = 1000
    for day in range(DAYS):
        for job in _jobs_of_day(rng, grid, parts, end_at - DAYS * _DAY, day, number):
            number = job.number
            yield _started_before(job, end_at)


def _jobs_of_day(
    rng: random.Random, grid: Grid, parts: list[float], begin_at: datetime, day: int, number: int
) -> Iterator[SampleJob]:
    """number: of the job before the first one."""
    factors = {vo: _factor(STORY.get(vo, Behaviour()), day) for vo in grid.vo_shares}
    weights = [part * factors[member.vo] for member, part in zip(grid.members, parts, strict=True)]
    weekend = (begin_at + timedelta(days=day)).weekday() >= 5
    n_jobs = int(_JOBS_A_DAY * (0.55 if weekend else 1.0))
    members = rng.choices(grid.members, weights=weights, k=n_jobs)
    instants = sorted(rng.random() for _ in range(n_jobs))
    cores = [site.cores for site in SITES]
    for member, instant in zip(members, instants, strict=True):
        number += 1
        submit_at = begin_at + timedelta(seconds=int((day + instant) * 86_400))
        site = rng.choices(SITES, weights=cores)[0]
        yield _job(rng, number, member, site.slug, submit_at)


def _factor(behaviour: Behaviour, day: int) -> float:
    """Usage of an organisation on a day, relative to its target."""
    if not behaviour.first_day <= day <= behaviour.last_day:
        return 0.0
    late = behaviour.late_factor is not None and day >= behaviour.late_from_day
    return behaviour.late_factor if late and behaviour.late_factor is not None else behaviour.factor


def _parts(grid: Grid) -> list[float]:
    """Weight of each member: the organisation's shares, divided by project shares and then by the members' appetites;
    by appetites only if the organisation's projects do not follow their shares.
    """
    appetites: defaultdict[tuple[str, str], float] = defaultdict(float)
    for member in grid.members:
        for project in ("", member.project):
            appetites[member.vo, project] += member.appetite
    parts = []
    for member in grid.members:
        if STORY.get(member.vo, Behaviour()).follows_projects:
            shares = grid.project_shares(member.vo)
            part = (
                shares[member.project] / sum(shares.values()) * member.appetite / appetites[member.vo, member.project]
            )
        else:
            part = member.appetite / appetites[member.vo, ""]
        parts.append(grid.vo_shares[member.vo] * part)
    return parts


def _job(rng: random.Random, number: int, member: Member, site: str, submit_at: datetime) -> SampleJob:
    queue = rng.choice(_QUEUES)
    run_s = int(min(rng.lognormvariate(8.6, 1.1), 47 * _HOUR_S if queue == "long" else 23 * _HOUR_S))
    if queue == "debug":
        run_s = min(run_s, 1800)
    wait_s = min(int(rng.expovariate(1 / 2400)), 24 * _HOUR_S)
    start_at = submit_at + timedelta(seconds=wait_s)
    return SampleJob(
        site=site,
        number=number,
        member=member,
        queue=queue,
        submit_at=submit_at,
        start_at=start_at,
        end_at=start_at + timedelta(seconds=run_s),
        cpus=rng.choice(_SIZES),
        requested_s=(run_s // _HOUR_S + 1 + rng.randrange(4)) * _HOUR_S,
    )


def _started_before(job: SampleJob, end_at: datetime) -> SampleJob:
    """A job that would be waiting at `end_at` is started in the hour before."""
    if job.start_at < end_at:
        return job
    start_at = end_at - min(job.start_at - job.submit_at, timedelta(hours=1))
    ahead = job.start_at - start_at
    return replace(
        job,
        start_at=start_at,
        end_at=None if job.end_at is None else job.end_at - ahead,
        submit_at=min(job.submit_at, start_at),
    )
