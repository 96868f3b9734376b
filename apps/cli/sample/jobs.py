"""Jobs of the sample grid: what each member has run, day by day."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from apps.cli.sample.grid import SEED, SITES, STORY, Behaviour, Grid, Member

DAYS = 92
_JOBS_A_DAY = 420
_SIZES = (1, 1, 2, 4, 8, 8, 16, 32, 64)
_QUEUES = ("batch", "batch", "batch", "long", "debug")
_HOUR_S = 3600


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
    rng = random.Random(SEED + 1)
    begin_at = end_at - timedelta(days=DAYS)
    cores = [site.cores for site in SITES]
    parts = _parts(grid)
    number = 1000
    for day in range(DAYS):
        factors = {vo: _factor(STORY.get(vo, Behaviour()), day) for vo in grid.vo_shares}
        weights = [part * factors[member.vo] for member, part in zip(grid.members, parts, strict=True)]
        weekend = (begin_at + timedelta(days=day)).weekday() >= 5
        n_jobs = int(_JOBS_A_DAY * (0.55 if weekend else 1.0))
        members = rng.choices(grid.members, weights=weights, k=n_jobs)
        instants = sorted(rng.random() for _ in range(n_jobs))
        for member, instant in zip(members, instants, strict=True):
            number += 1
            submit_at = begin_at + timedelta(seconds=int((day + instant) * 86_400))
            site = rng.choices(SITES, weights=cores)[0]
            job = _job(rng, number, member, site.slug, submit_at, end_at)
            if (job.end_at or end_at) <= end_at - timedelta(hours=site.silent_h):
                yield job


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


def _job(
    rng: random.Random, number: int, member: Member, site: str, submit_at: datetime, end_at: datetime
) -> SampleJob:
    queue = rng.choice(_QUEUES)
    run_s = int(min(rng.lognormvariate(8.6, 1.1), 47 * _HOUR_S if queue == "long" else 23 * _HOUR_S))
    if queue == "debug":
        run_s = min(run_s, 1800)
    wait_s = int(rng.expovariate(1 / 2400))
    start_at = submit_at + timedelta(seconds=wait_s)
    stop_at = start_at + timedelta(seconds=run_s)
    if start_at >= end_at:  # it would be waiting: start it in the last hour
        start_at = end_at - timedelta(seconds=min(wait_s, _HOUR_S))
        stop_at = start_at + timedelta(seconds=run_s)
        submit_at = min(submit_at, start_at)
    return SampleJob(
        site=site,
        number=number,
        member=member,
        queue=queue,
        submit_at=submit_at,
        start_at=start_at,
        end_at=stop_at if stop_at <= end_at else None,
        cpus=rng.choice(_SIZES),
        requested_s=(run_s // _HOUR_S + 1 + rng.randrange(4)) * _HOUR_S,
    )
