"""Jobs of the sample grid: three months, the same at every call with the same end, and a file sent late."""

from __future__ import annotations

import io
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from apps.accounts.account_ids import AccountKey
from apps.accounts.actor import Actor
from apps.cli.sample.grid import NAMESPACE, POLICY_SLUG, SEED, SITES, STORY, Behaviour, Grid, Member
from apps.mapping.attachments import attach_account
from apps.runs.services import claim_run, work_lease
from apps.usage.services import start_import

# --- Jobs -------------------------------------------------------------------------------------------------------------
DAYS = 92
_JOBS_A_DAY = 420
_SIZES = (1, 1, 2, 4, 8, 8, 16, 32, 64)
_QUEUES = ("batch", "batch", "batch", "long", "debug")
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class SampleJob:
    """One job in a site's accounting; `end_at` is None while it runs."""

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
    """Every job in order of submission, over the `DAYS` before `end_at`; those that end later are still running."""
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
    """How much of its target an organisation uses on a day of the story."""
    if not behaviour.first_day <= day <= behaviour.last_day:
        return 0.0
    late = behaviour.late_factor is not None and day >= behaviour.late_from_day
    return behaviour.late_factor if late and behaviour.late_factor is not None else behaviour.factor


def _parts(grid: Grid) -> list[float]:
    """Of each member: the organisation's shares, split by shares of projects and then by the appetites of people;
    where projects don't keep to their shares, by appetites alone."""
    appetites: defaultdict[tuple[str, str], float] = defaultdict(float)
    for one in grid.members:
        for project in ("", one.project):
            appetites[one.vo, project] += one.appetite
    parts = []
    for one in grid.members:
        if STORY.get(one.vo, Behaviour()).follows_projects:
            shares = grid.project_shares(one.vo)
            part = shares[one.project] / sum(shares.values()) * one.appetite / appetites[one.vo, one.project]
        else:
            part = one.appetite / appetites[one.vo, ""]
        parts.append(grid.vo_shares[one.vo] * part)
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
    if start_at >= end_at:  # it would still be waiting: let it start with the last hour instead
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


# --- A late file ------------------------------------------------------------------------------------------------------
SOURCE = "umea-slurm"
FILE_NAME = "umea-backlog.ndjson"
MONITORING = AccountKey(namespace=NAMESPACE, user_name="monitoring", group_name="robots")
ENSEMBLE = AccountKey(namespace=NAMESPACE, user_name="ensemble", group_name="robots")
GUESTS = "climate-guests"  # a group whose accounts become members by rule
N_GOOD, N_REJECTED = 40, 4
_OTHERS = (("monitoring", "robots"), ("ensemble", "robots"), ("summer-school", GUESTS), ("commissioning", "umea-staff"))
_FIRST_JOB = 900_001


def import_backlog(*, at: datetime, admin: Actor) -> None:
    text = "".join(f"{json.dumps(line)}\n" for line in _lines(at))
    started = start_import(
        source_slug=SOURCE, format="ndjson", file=io.BytesIO(text.encode()), file_name=FILE_NAME, at=at, actor=admin
    )
    work_at(started.run_id, at)


def attach_robots(uid_of: Callable[[str], UUID], *, at: datetime, admin: Actor, manager: Actor) -> None:
    """Service accounts are attached by hand; `commissioning` stays unmapped."""
    for account, path, reason, actor in (
        (MONITORING, "/operations/tests", "Checks the clusters every hour.", admin),
        (ENSEMBLE, "/climate/seasonal", "Runs the ensemble of the seasonal forecast.", manager),
    ):
        attach_account(
            policy_slug=POLICY_SLUG, entry_uid=uid_of(path), account=account, reason=reason, at=at, actor=actor
        )


def work_at(run_id: int, at: datetime) -> None:
    """Work on a run here, by the clock of the sample."""
    lease = claim_run(at=at, run_id=run_id, clock=lambda: at)
    if lease is None:
        raise LookupError(f"run {run_id} can't be claimed")
    work_lease(lease)


def _lines(at: datetime) -> Iterator[dict[str, Any]]:
    """Jobs of three nights ago: those of the VOs, of accounts of no project, and lines that can't be read."""
    begin_at = (at - timedelta(days=3)).replace(hour=1, minute=0, second=0, microsecond=0)
    members = [one for one in Grid().members if one.vo in ("climate", "fusion", "solar")]
    for number in range(N_GOOD - len(_OTHERS)):
        member = members[number % len(members)]
        account = {"user": member.user, "group": member.vo, "project": member.project}
        yield _record(number, begin_at + timedelta(minutes=3 * number), account)
    for number, (user, group) in enumerate(_OTHERS, N_GOOD - len(_OTHERS)):
        yield _record(number, begin_at, {"user": user, "group": group})
    end = (begin_at - timedelta(hours=1)).isoformat()
    mistakes: tuple[dict[str, Any], ...] = ({"end": end}, {"cpus": -8}, {"user": ""}, {"end": "tomorrow"})
    for number, wrong in enumerate(mistakes, N_GOOD):
        yield _record(number, begin_at, {"user": "siriberg", "group": "climate"}) | wrong


def _record(number: int, start_at: datetime, account: dict[str, str]) -> dict[str, Any]:
    end_at = start_at + timedelta(hours=1, minutes=number)
    return {
        "job": str(_FIRST_JOB + number),
        **account,
        "submit": start_at.isoformat(),
        "start": start_at.isoformat(),
        "end": end_at.isoformat(),
        "cpus": 4,
        "nodes": 1,
        "mem_mb": 16_000,
        "queue": "batch",
        "qos": "normal",
    }
