"""The daily series of a policy of 100,000 entries over a year with ten million records: building, a day more, reading.

Buckets and records are written by COPY as an import would have left them: each job has its record and its hours, a
third of the jobs waited, and all groups and habits are drawn from one seed. The whole takes a quarter of an hour;
`BENCH_PART=20` measures with a twentieth of entries and records.
"""

from __future__ import annotations

import os
import statistics
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.clock import stopped_clock, timed
from bench.report import BenchLine

if TYPE_CHECKING:
    from django.test import Client

    from apps.policies.models import Policy

N_ENTRIES, N_RECORDS, N_DAYS = 100_000, 10_000_000, 366
GOAL_BUILD_S, GOAL_DAY_S, GOAL_READ_S, GOAL_PAGE_S, GOAL_MINE_S = 600.0, 10.0, 0.15, 0.5, 0.2
PAGES, PANELS = 60, 12
SLUG = "bench-series"
AT = datetime(2026, 6, 2, 6, tzinfo=UTC)
_HOUR_US = 3_600_000_000
_AT_A_TIME = 500_000  # records written at a time


def measure_large() -> list[BenchLine]:
    """Builds a site, a year of the series, one day more, and reads pages of siblings."""
    part = int(os.environ.get("BENCH_PART", "1"))
    n_entries, n_records = N_ENTRIES // part, N_RECORDS // part
    began = time.perf_counter()
    policy, n_buckets = build(n_entries, n_records)
    made_s = time.perf_counter() - began
    year_s = build_series(policy, AT)
    day_s = build_series(policy, AT + timedelta(days=1))
    pages = _read_pages(policy)
    whole_pages = _whole_pages(policy)
    with stopped_clock(AT):
        seconds = _my_priorities(policy)
    sizes = f"{n_entries:,} entries, {n_records:,} records, {n_buckets:,} buckets written in {made_s:.0f} s"
    reading = f"median {statistics.median(pages) * 1000:.0f} ms; {_stored()}"
    return [
        BenchLine("series of a year / 10 min", year_s / GOAL_BUILD_S, 1.0, f"{year_s:.0f} s; {sizes}"),
        BenchLine("series of one day more / 10 s", day_s / GOAL_DAY_S, 1.0, f"{day_s:.1f} s"),
        BenchLine(
            "reading 12 panels over a year, 95th percentile / 150 ms",
            p95(pages) / GOAL_READ_S,
            1.0,
            f"{p95(pages) * 1000:.0f} ms, {reading}",
        ),
        BenchLine(
            "a page of convergence over a year, 95th percentile / 500 ms",
            p95(whole_pages) / GOAL_PAGE_S,
            1.0,
            f"{p95(whole_pages) * 1000:.0f} ms, median {statistics.median(whole_pages) * 1000:.0f} ms",
        ),
        BenchLine(
            "my priority, 95th percentile / 200 ms",
            p95(seconds) / GOAL_MINE_S,
            1.0,
            f"{p95(seconds) * 1000:.0f} ms, median {statistics.median(seconds) * 1000:.0f} ms",
        ),
    ]


def build(n_entries: int, n_records: int) -> tuple[Policy, int]:
    """Divisions of groups of 99 users, an account for each; a year of jobs, and shares that change four times."""
    from django.db import connection

    from apps.accounts.actor import COMMAND
    from apps.mapping.rules.rule import Rule
    from apps.mapping.services import set_rules
    from apps.policies.models import Policy
    from apps.policies.services import make_policy
    from apps.policies.tree.stored import load_tree
    from apps.usage.services import NewSource, make_source

    first_at = AT - timedelta(days=N_DAYS)
    make_policy(slug=SLUG, name=SLUG, at=first_at, actor=COMMAND)
    n_groups = max(n_entries // 100 - n_entries // 10_000, 1)
    for number in range(5):
        _publish(n_groups, number, first_at + number * timedelta(days=70))
    policy = Policy.objects.get(slug=SLUG)
    rules = [Rule("glob", load_tree(policy).uuid(0), suffix="/{project}/{group}/{user}")]
    set_rules(policy_slug=SLUG, rules=rules, at=first_at, actor=COMMAND)
    source = make_source(NewSource(slug=SLUG, name=SLUG, namespace=SLUG), at=first_at, actor=COMMAND)
    with connection.cursor() as cursor:
        cursor.execute(_ACCOUNTS, {"n": n_groups, "at": first_at, "name": SLUG})
        cursor.execute("INSERT INTO usage_jobclass (queue, partition, qos) VALUES ('series', '', '') RETURNING id")
        job_class = int(cursor.fetchone()[0])
        cursor.execute("SELECT array_agg(id ORDER BY id) FROM accounts_account WHERE namespace = %s", [SLUG])
        accounts = np.array(cursor.fetchone()[0], np.int64)
    n_buckets = _write_usage(source.pk, job_class, accounts, n_records, first_at)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE usage_source SET watermark = 1, n_records = %s WHERE id = %s", [n_records, source.pk])
        for table in ("usage_bucket", "usage_record", "accounts_account"):
            cursor.execute(f"ANALYZE {table}")
    return policy, n_buckets


_ACCOUNTS = """
INSERT INTO accounts_account (namespace, user_name, group_name, dn, fqan, project, first_seen_at)
SELECT %(name)s, 'u' || g || '-' || k, 'g' || g, '', '', 'd' || g / 100 * 100, %(at)s
FROM generate_series(0, %(n)s - 1) AS g, generate_series(0, 98) AS k
"""


def _publish(n_groups: int, number: int, at: datetime) -> None:
    from apps.accounts.actor import COMMAND
    from apps.policies.services import publish_document

    def group(place: int) -> dict[str, Any]:
        people = [{"name": f"u{place}-{k}", "kind": "user", "shares": 1 + k % 7} for k in range(99)]
        return {"name": f"g{place}", "shares": 1 + (place + number) % 5, "children": people}

    groups = [group(place) for place in range(n_groups)]
    divisions = [{"name": f"d{first}", "children": groups[first : first + 100]} for first in range(0, n_groups, 100)]
    document = {"policy": SLUG, "root": {"name": SLUG, "children": divisions}}
    publish_document(policy_slug=SLUG, document=document, reason="bench", at=at, actor=COMMAND)


def _write_usage(source: int, job_class: int, accounts: Any, n_records: int, first_at: datetime) -> int:
    """Jobs of one to four hours in the order of time, as a log has them; how many buckets they come to."""
    rng = np.random.default_rng(7)
    first_us, year_us = int(first_at.timestamp()) * 1_000_000, N_DAYS * 24 * _HOUR_US
    habits = rng.pareto(1.2, len(accounts)) + 0.05
    hours = _Hours(source, job_class, accounts)
    for begin in range(0, n_records, _AT_A_TIME):
        n = min(_AT_A_TIME, n_records - begin)
        start_us = first_us + year_us * begin // n_records + np.sort(rng.integers(0, year_us * n // n_records, n))
        length_us = rng.integers(60, 3 * 3600, n) * 1_000_000
        waited_us = np.where(rng.random(n) < 1 / 3, rng.integers(1, 30 * 3600, n), 0) * 1_000_000
        account = rng.choice(len(accounts), n, p=habits / habits.sum())
        cpus = rng.integers(1, 65, n).astype(np.float64)
        _write_records(source, job_class, accounts[account], start_us, length_us, waited_us, cpus, begin)
        hours.add(account, start_us, length_us, cpus)
    hours.write(2**40)
    return hours.n_written


def _write_records(
    source: int, job_class: int, account: Any, start_us: Any, length_us: Any, waited_us: Any, cpus: Any, begin: int
) -> None:
    from apps.usage.parsers.base import FINISHED, RecordBatch
    from apps.usage.records.record_rows import copy_rows, record_columns

    n = len(account)
    nothing, none, zero = np.zeros(n), np.full(n, b"", np.bytes_), np.zeros(n, np.int64)
    batch = RecordBatch(
        line=zero,
        job=np.arange(begin, begin + n).astype("S12"),
        array_task=none,
        cluster=none,
        site=none,
        restart=zero,
        revision=zero,
        state=np.full(n, FINISHED),
        who=zero,
        job_class=zero,
        submit_us=start_us - waited_us,
        start_us=start_us,
        end_us=start_us + length_us,
        cpus=cpus,
        gpus=nothing,
        nodes=nothing,
        mem_mb=nothing,
        billing=nothing,
        requested_s=length_us * 2e-6,
        is_charge=np.zeros(n, np.bool_),
        people=[],
        job_classes=[],
    )
    copy_rows(batch, record_columns(source, batch, account, np.full(n, job_class), None, AT))


class _Hours:
    """Buckets in the order of time: an hour is written when no later job can touch it any more."""

    def __init__(self, source: int, job_class: int, accounts: Any) -> None:
        self._source, self._job_class, self._accounts = source, job_class, accounts
        self._key: Any = np.zeros(0, np.int64)
        self._cpu_s: Any = np.zeros(0)
        self.n_written = 0

    def add(self, account: Any, start_us: Any, length_us: Any, cpus: Any) -> None:
        """account: by its place. Jobs that start later than those before."""
        first, last = start_us // _HOUR_US, (start_us + length_us - 1) // _HOUR_US
        n_hours = last - first + 1
        job = np.repeat(np.arange(len(account)), n_hours)
        hour = first[job] + np.arange(len(job)) - np.repeat(np.cumsum(n_hours) - n_hours, n_hours)
        end_us = np.minimum((hour + 1) * _HOUR_US, (start_us + length_us)[job])
        cpu_s = cpus[job] * (end_us - np.maximum(hour * _HOUR_US, start_us[job])) * 1e-6
        key = np.concatenate([self._key, hour * len(self._accounts) + account[job]])
        cells, at = np.unique(key, return_inverse=True)
        self._cpu_s = np.bincount(at, weights=np.concatenate([self._cpu_s, cpu_s]))
        self._key = cells
        self.write(int(start_us[-1] // _HOUR_US))

    def write(self, before_hour: int) -> None:
        """The keys are sorted by hour."""
        from apps.usage import pgbinary

        n = int(np.searchsorted(self._key, before_hour * len(self._accounts)))
        hour, account = np.divmod(self._key[:n], len(self._accounts))
        nothing = pgbinary.float8(np.zeros(n))
        pgbinary.copy_in(
            _BUCKETS,
            [
                pgbinary.constant_int4(self._source, n),
                pgbinary.int4(self._accounts[account]),
                pgbinary.text(np.full(n, b"", np.bytes_)),
                pgbinary.constant_int4(self._job_class, n),
                pgbinary.timestamptz(hour * _HOUR_US),
                pgbinary.float8(self._cpu_s[:n]),
                nothing,
                nothing,
                nothing,
                nothing,
                nothing,
            ],
        )
        self._key, self._cpu_s = self._key[n:], self._cpu_s[n:]
        self.n_written += n


_BUCKETS = """
COPY usage_bucket (source_id, account_id, site, job_class_id, hour_at, cpu_s, gpu_s, mem_gb_s, node_s, billing, jobs)
FROM STDIN (FORMAT BINARY)
"""


def build_series(policy: Policy, at: datetime) -> float:
    """As a worker would, with what it stores."""
    from apps.runs.models import Run
    from apps.runs.services import claim_run, work_lease
    from apps.series import runs

    run = runs.enqueue_series_build(policy, at=at)

    def clock() -> datetime:
        return at

    lease = claim_run(at=at, run_id=run.pk, clock=clock)
    assert lease is not None
    seconds = timed(lambda: work_lease(lease))[1]
    done = Run.objects.get(pk=run.pk)
    if done.state != "succeeded":
        raise RuntimeError(done.error)
    return seconds


def _read_pages(policy: Policy) -> list[float]:
    """Twelve siblings over a year, each time those of another group, as a process that serves pages does."""
    from apps.policies.tree.stored import load_tree
    from apps.series.stored_series import load_series

    tree = load_tree(policy)
    groups = np.flatnonzero(tree.n_children == 99)
    to_on = (AT - timedelta(days=1)).date()
    seconds = []
    for number in range(PAGES):
        children = list(tree.children(int(groups[number * 7919 % len(groups)])))[:PANELS]
        uids = [tree.uuid(i) for i in children]
        series, took = timed(partial(load_series, policy, uids, from_on=to_on - timedelta(days=364), to_on=to_on))
        if series.used.shape != (PANELS, 365) or not series.exists.any():
            raise RuntimeError(f"A page of {series.used.shape} was read.")
        seconds.append(took)
    return seconds


def _whole_pages(policy: Policy) -> list[float]:
    """The page of a group, every time another one, as it is sent to a browser."""
    from apps.policies.tree.stored import load_tree

    client = signed_in()
    tree, to_on = load_tree(policy), (AT - timedelta(days=1)).date()
    groups = np.flatnonzero(tree.n_children == 99)
    asked = {"from": (to_on - timedelta(days=364)).isoformat(), "to": to_on.isoformat()}
    seconds = []
    for number in range(PAGES):
        at = int(groups[number * 7907 % len(groups)])
        address = f"/policy/{policy.slug}/convergence/"
        answer, took = timed(partial(client.get, address, asked | {"level": str(tree.uuid(at))}))
        if answer.status_code != 200:
            raise RuntimeError(f"{address} answered {answer.status_code}.")
        seconds.append(took)
    return seconds[2:]  # the first ones of a process read templates


def signed_in() -> Client:
    """An administrator, in a process that has the files of pages."""
    from django.core.management import call_command
    from django.test import Client

    from apps.accounts.models import User

    call_command("collectstatic", interactive=False, verbosity=0)
    client = Client(headers={"host": "localhost"})
    client.force_login(
        User.objects.get_or_create(username="series", is_superuser=True)[0],
        backend="django.contrib.auth.backends.ModelBackend",
    )
    return client


def recompute(policy: Policy) -> None:
    """Priorities as of the instant of this bench, at which the clock has been stopped."""
    from apps.accounts.actor import COMMAND
    from apps.priorities.recompute.staleness import request_recompute
    from apps.runs.services import work_run_now

    run = work_run_now(request_recompute(policy_slug=policy.slug, at=AT, actor=COMMAND).pk)
    if run.state != "succeeded":
        raise RuntimeError(run.error)


def _my_priorities(policy: Policy) -> list[float]:
    """My priority of one person after another, with its forecasts."""
    from django.test import Client

    from apps.accounts.models import Account, User

    recompute(policy)
    accounts = Account.objects.filter(namespace=SLUG).order_by("id")
    step, seconds = accounts.count() // PAGES, []
    for number in range(PAGES):
        account = accounts[number * step]
        account.person = User.objects.get_or_create(username=f"series-{number}")[0]
        account.save(update_fields=["person"])
        client = Client(headers={"host": "localhost"})
        client.force_login(account.person, backend="django.contrib.auth.backends.ModelBackend")
        answer, took = timed(partial(client.get, "/me/priority/"))
        if answer.status_code != 200 or account.user_name not in answer.content.decode():
            raise RuntimeError(f"My priority answered {answer.status_code} to {account.user_name}.")
        seconds.append(took)
    return seconds[2:]


def p95(seconds: list[float]) -> float:
    return sorted(seconds)[int(0.95 * len(seconds))]


def _stored() -> str:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), pg_total_relation_size('analytics_seriestile') FROM analytics_seriestile")
        n_tiles, n_bytes = cursor.fetchone()
    return f"{n_tiles:,} tiles of {n_bytes / 1e6:.0f} MB"
