"""A cluster of the sample grid with an agent in shadow mode: its passes, queue, Slurm's values, and one finding."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from apps.accounts.actor import COMMAND
from apps.cli.sample.grid import NAMESPACE, POLICY_SLUG, SEED, Member
from apps.cli.sample.site import SampleSite
from apps.contrib.schedulers.passes import record_pass
from apps.contrib.schedulers.sample_queue import Name, SampleJob, queue_state_at, sample_jobs, waiting_at
from apps.contrib.schedulers.services import connect_scheduler
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery

NAME = "umea"
_WEIGHT = 100_000
_JOBS = 48
_PASSES = 15  # that list Slurm's values
_BETWEEN = timedelta(hours=12)
_HOURS = 60  # of which every hour has a pass, so that promises of starts have a record
_LATE_HOUR = 11  # before the last, whose pass froze
_LATE_S = 1_320.0
_NOISE = 0.08  # standard deviation of Slurm's factors around ours
_KIMBERG = ("kimberg", "climate"), ("kimberg", "climate"), ("kimberg", "ocean")
_CHECKS = [
    {"code": "operator", "severity": "ok", "found": "slurm is an administrator", "remedy": ""},
    {
        "code": "double_counting",
        "severity": "warning",
        "found": "PriorityWeightFairshare=100000",
        "remedy": "PriorityWeightFairshare=0",
    },
]


def connect_shadow(site: SampleSite) -> None:
    """Connect a scheduler in shadow mode with passes of a week, the last a few seconds ago, and hourly ones of 60 h.

    Slurm's values approach ours from pass to pass, as while its mapping of accounts is being corrected.
    """
    settings = {"mode": "shadow", "namespace": NAMESPACE, "every_s": 3600}
    at = site.at
    begun_at = at - _PASSES * _BETWEEN
    connect_scheduler(policy_slug=POLICY_SLUG, name=NAME, settings=settings, at=begun_at, actor=COMMAND)
    rng = random.Random(SEED + 7)
    factors = _factors(site.grid.members)
    jobs = _jobs(factors, begun_at, at)
    before_at = begun_at
    for n_left in reversed(range(_PASSES)):
        passed_at = at - n_left * _BETWEEN
        report = _report(n_left, _queue(rng, jobs, factors, passed_at), passed_at)
        report |= {"queue_state": queue_state_at(jobs, before_at, passed_at)}
        _record(report | {"values": _values(rng, factors, _NOISE * (1 + n_left / 4)), "checks": _CHECKS}, passed_at)
        before_at = passed_at
        hours = int(_BETWEEN / timedelta(hours=1))
        for hours_left in reversed(range((n_left - 1) * hours + 1, n_left * hours)):
            if hours_left < _HOURS:
                passed_at = at - timedelta(hours=hours_left)
                state = {"queue_state": queue_state_at(jobs, before_at, passed_at)}
                _record(_hourly_report(hours_left, jobs, factors, passed_at) | state, passed_at)
                before_at = passed_at


def _record(report: dict[str, Any], at: datetime) -> None:
    record_pass(name=NAME, report=report, body_sha256=f"{report['pass'].int:064x}", at=at, actor=COMMAND)


def _hourly_report(
    hours_left: int, jobs: Sequence[SampleJob], factors: Mapping[Name, float], at: datetime
) -> dict[str, Any]:
    """A pass between those that list values; one found the priorities too old."""
    rng = random.Random(SEED + hours_left)
    report = _report(_PASSES + hours_left, _queue(rng, jobs, factors, at), at)
    if hours_left != _LATE_HOUR:
        return report | {"snapshot_age_s": round(rng.uniform(20, 280), 1)}
    detail = f"The snapshot is {_LATE_S / 60:.0f} min old; limit 15 min."
    return report | {"snapshot_age_s": _LATE_S, "frozen": {"code": "snapshot_too_old", "detail": detail}}


def _report(number: int, queue: Sequence[dict[str, Any]], at: datetime) -> dict[str, Any]:
    n_jobs = len(queue)
    return {
        "pass": UUID(int=SEED + number),
        "agent": "1.0",
        "host": "umea-head",
        "orders_revision": 1,
        "started_at": at - timedelta(seconds=9),
        "ended_at": at - timedelta(seconds=8),
        "mode": "shadow",
        "snapshot": None,
        "snapshot_age_s": 9.0,
        "scheduler_version": "22.05.8",
        "jobs": {
            "pending": n_jobs,
            "mapped": n_jobs,
            "unmapped": 0,
            "due": n_jobs,
            "sent": 0,
            "failed": 0,
            "calls": 0,
        },
        "queue": queue,
        "values": None,
        "checks": None,
    }


def _factors(members: Sequence[Member]) -> dict[Name, float]:
    """Factors by (user, group) in the newest snapshot, for accounts with an entry."""
    newest = Snapshot.objects.filter(policy__slug=POLICY_SLUG).latest("pk")
    snapshot = store.load_stored(POLICY_SLUG, newest.pk)
    names = sorted({(member.user, member.vo) for member in members})
    factors = {}
    for user, group in names:
        entries = snapshot.index.find_certain(AccountQuery(user, group, NAMESPACE))
        if entries:
            factors[user, group] = max(float(snapshot.values.factor[entry]) for entry in entries)
    return factors


def _jobs(factors: Mapping[Name, float], begun_at: datetime, at: datetime) -> list[SampleJob]:
    rng = random.Random(SEED + 8)
    others = sorted(factors)
    names = [name for name in _KIMBERG if name in factors]
    return sample_jobs(rng, names + rng.choices(others, k=_JOBS - len(names)), others, begun_at, at)


def _queue(
    rng: random.Random, jobs: Sequence[SampleJob], factors: Mapping[Name, float], at: datetime
) -> list[dict[str, Any]]:
    return [_listed(rng, job, factors[job.name], at) for job in waiting_at(jobs, at)]


def _listed(rng: random.Random, job: SampleJob, factor: float, at: datetime) -> dict[str, Any]:
    terms = {
        "age": min((at - job.submit_at) // timedelta(minutes=1), 10_000),
        "assoc": 0,
        "fairshare": round(_WEIGHT * _own(rng, factor)),
        "jobsize": rng.randrange(200),
        "partition": 500,
        "qos": 0,
        "site": 0,
        "nice": 0,
    }
    return {
        "job": str(job.number),
        "array_task": None,
        "user": job.name[0],
        "group": job.name[1],
        "partition": job.partition,
        "qos": "normal",
        "cpus": job.cpus,
        "limit_s": job.limit_s,
        "submit_at": job.submit_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "eligible_at": None,
        "state": "pending",
        "reason": rng.choice(("Priority", "Priority", "Resources")),
        "priority": sum(terms.values()),
        "terms": terms,
        "value": round(_WEIGHT * factor),
    }


def _values(rng: random.Random, factors: Mapping[Name, float], noise: float) -> list[dict[str, Any]]:
    return [
        {
            "cluster": NAME,
            "group": group,
            "user": user,
            "raw_shares": 1,
            "fairshare": round(_own(rng, factor, noise), 6),
        }
        for (user, group), factor in factors.items()
    ]


def _own(rng: random.Random, factor: float, noise: float = _NOISE) -> float:
    """Slurm's factor: near ours, as from a slightly different tree."""
    return min(max(factor + rng.gauss(0, noise), 0.0), 1.0)
