"""A whole site of any size: a policy with an account for each user, records of two weeks, and computed numbers.

Everything is written as a site writes it (a published document, ingested batches, runs), so that tables, caches and the
planner's statistics are what a site has that was just filled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.recompute import IDLE_PART, N_DAYS, SLUG, n_groups, publish

if TYPE_CHECKING:
    from apps.policies.models import Policy
    from apps.usage.parsers.base import RecordBatch

BATCH = 200_000
JOBS_A_BURST = 4  # of one account in one hour
_BUSY_PART = 100  # every hundredth account sends a tenth of the bursts
_SITES = np.array([b"s0", b"s1", b"s2", b"s3", b"s4"])
_HOUR_US = 3_600_000_000


def build(
    n_entries: int,
    n_records: int,
    at: datetime,
    *,
    jobs_until: datetime | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Policy:
    """Fill the database and compute the numbers as of `at`. Jobs are ingested in the order in which they ended.

    jobs_until: end of the two weeks of jobs, where it isn't `at`. settings: of the policy.
    """
    from apps.accounts.actor import COMMAND
    from apps.core.postgresql import analyze_grown
    from apps.priorities.recompute.staleness import request_recompute
    from apps.runs.services import work_run_now
    from apps.usage.models import Source
    from apps.usage.records.ingest import GROWING, ingest_batch

    policy = publish(n_entries, at, settings)
    source = Source.objects.get(slug=SLUG)
    for batch in batches(n_entries, n_records, jobs_until or at):
        ingest_batch(source=source, rows=batch, at=at)
        analyze_grown(*GROWING)  # as an import does
    run = work_run_now(request_recompute(policy_slug=SLUG, at=at, actor=COMMAND).pk)
    assert run.state == "succeeded", run.error
    return policy


def batches(n_entries: int, n_records: int, at: datetime) -> Iterator[RecordBatch]:
    """Jobs of a few minutes on 1 to 64 cores, in bursts of one account; a fifth of the accounts has none."""
    random = np.random.default_rng(2026)
    last_hour = int(at.replace(minute=0, second=0, microsecond=0).timestamp()) * 1_000_000
    for first in range(0, n_records, BATCH):
        n = min(BATCH, n_records - first)
        yield _batch(random, n_groups(n_entries) * 99, first, n, n_records, last_hour)


def _batch(
    random: np.random.Generator, n_accounts: int, first: int, n: int, n_records: int, last_hour: int
) -> RecordBatch:
    from apps.usage.parsers.base import FINISHED, AccountNames, JobClassKey, RecordBatch

    n_bursts = -(-n // JOBS_A_BURST)
    is_busy = random.random(n_bursts) < 0.1
    account = random.integers(int(n_accounts * IDLE_PART), n_accounts, n_bursts)
    account[is_busy] -= account[is_busy] % _BUSY_PART
    accounts, who = np.unique(account, return_inverse=True)
    people = [
        AccountNames(user=f"u{group}-{k}", group=f"g{group}", project=f"d{group // 100 * 100}")
        for group, k in zip((accounts // 99).tolist(), (accounts % 99).tolist(), strict=True)
    ]
    burst = np.repeat(np.arange(n_bursts), JOBS_A_BURST)[:n]
    hours_back = 24 * N_DAYS * (1 - (first + np.arange(n_bursts) * JOBS_A_BURST) / n_records)
    hour_us = last_hour - (1 + hours_back[burst].astype(np.int64)) * _HOUR_US
    start_us = hour_us + random.integers(0, 1_800, n) * 1_000_000
    number = np.arange(first + 1, first + n + 1)
    empty, none = np.zeros(n, "S1"), np.zeros(n)
    return RecordBatch(
        line=number,
        job=number.astype("S9"),
        array_task=empty,
        cluster=empty,
        site=_SITES[account[burst] % len(_SITES)],
        restart=np.zeros(n, np.int64),
        revision=np.zeros(n, np.int64),
        state=np.full(n, FINISHED, np.int64),
        who=who[burst],
        job_class=account[burst] % 3,
        submit_us=start_us - random.integers(0, 600, n) * 1_000_000,
        start_us=start_us,
        end_us=start_us + random.integers(60, 1_800, n) * 1_000_000,
        cpus=np.exp2(random.integers(0, 7, n)).astype(np.float64),
        gpus=none,
        nodes=np.ones(n),
        mem_mb=np.full(n, 2048.0),
        billing=none,
        requested_s=np.full(n, 3600.0),
        is_charge=np.zeros(n, np.bool_),
        people=people,
        job_classes=[JobClassKey(queue, "", "") for queue in ("short", "long", "large")],
    )
