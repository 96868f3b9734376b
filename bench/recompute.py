"""A recompute of a policy of a million entries, end to end, beside its part in memory and one raw COPY.

End to end is everything between a tick and the newest numbers being served: the fingerprint, tree, accounts and usage
out of the database, the computation, the snapshot into the database, and a serving process that loads it. Beside it are
the computation on the loaded inputs, and a binary COPY of entry, priority, key and rank of every entry into a plain
logged table; and, stricter, the engine alone and that COPY.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from apps.core.code_paths import REPOSITORY
from bench.clock import timed
from bench.report import BenchLine

if TYPE_CHECKING:
    from apps.policies.models import Policy
    from apps.priorities.recompute.pipeline import Computed

N_ENTRIES = 1_000_000
ROUNDS = 3
IDLE_PART = 0.2
N_DAYS = 14
CHANGED_HOURS = 4  # with 10,000 buckets
GOAL, ENGINE_GOAL, FIRST_GOAL, HOST_GOAL, AIM = 3.0, 2.0, 6.0, 12.0, 1.0
SLUG = "bench-recompute"
_TICK = timedelta(minutes=1)


def measure() -> list[BenchLine]:
    """The median of rounds. Each is a tick later, with usage of the last hours that has changed."""
    from apps.core.clock import now

    at = now().replace(second=0, microsecond=0)
    policy = build(N_ENTRIES, at)
    first = round_of(policy, at)  # of a worker that has just started: tree and accounts have to come
    rounds = [round_of(policy, at + number * _TICK) for number in range(1, ROUNDS + 1)]
    parts = {name: statistics.median(each[name] for each in rounds) for name in first}
    whole = _whole(parts)
    memory, engine = parts["compute"] + parts["copy"], parts["engine"] + parts["copy"]
    cold, restarted = _whole(first), _in_a_new_process()
    with_site = _load_ratio(policy, at)
    return [
        BenchLine(
            "recompute of 1,000,000 entries end to end / in memory + COPY of its values",
            whole / memory,
            GOAL,
            f"{whole:.2f} s ({_listed(parts)}); aim ≤ {AIM:g}",
        ),
        BenchLine("the same / the engine alone + COPY of its values", whole / engine, ENGINE_GOAL, f"{engine:.2f} s"),
        BenchLine(
            "the first one of a worker that starts anew / the engine alone + COPY of its values",
            _whole(restarted) / engine,
            FIRST_GOAL,
            _listed(restarted),
        ),
        BenchLine(
            "the first one of a host / the engine alone + COPY of its values", cold / engine, HOST_GOAL, _listed(first)
        ),
        BenchLine("load of the buckets with codes of 3 sites / without", with_site, None),
    ]


def _whole(parts: Mapping[str, float]) -> float:
    return sum(parts[name] for name in ("load", "compute", "store", "visible"))


def _listed(parts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in parts.items())


def _in_a_new_process() -> dict[str, float]:
    """A round of a worker that starts on a host whose files are those of the workers before it, and loads ahead."""
    code = "import django; django.setup(); from bench import recompute; recompute.print_round()"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    parts: dict[str, float] = json.loads(done.stdout)
    return parts


def print_round() -> None:
    from apps.core.clock import now
    from apps.policies.models import Policy
    from apps.priorities.recompute import staleness
    from apps.runs.memory import keep_freed_memory

    keep_freed_memory()
    staleness.load_ahead(at=now())
    print(json.dumps(round_of(Policy.objects.get(slug=SLUG), now())))


def build(n_entries: int, at: datetime) -> Policy:
    """The policy, an account for each user, and a bucket for each that isn't idle."""
    from django.db import connection

    from apps.usage.models import Source

    policy = publish(n_entries, at)
    source = Source.objects.get(slug=SLUG)
    with connection.cursor() as cursor:
        cursor.execute(_ACCOUNTS, {"n": n_groups(n_entries), "at": at - timedelta(hours=1)})
        cursor.execute("INSERT INTO usage_jobclass (queue, partition, qos) VALUES ('bench', '', '')")
        cursor.execute(_BUCKETS, {"source": source.pk, "at": at, "days": N_DAYS, "idle": IDLE_PART})
        cursor.execute("ANALYZE usage_bucket")
        cursor.execute("ANALYZE accounts_account")
    return policy


def publish(n_entries: int, at: datetime, settings: Mapping[str, Any] | None = None) -> Policy:
    """Divisions of 100 groups of 99 users, a rule that maps d0/g0/u0-0, and a source; all an hour before `at`.

    settings: of the policy, where they aren't the usual ones.
    """
    from apps.accounts.actor import COMMAND
    from apps.mapping.rules.rule import Rule
    from apps.mapping.services import set_rules
    from apps.policies.models import Policy
    from apps.policies.services import make_policy, publish_document
    from apps.policies.tree.stored import load_tree
    from apps.usage.services import NewSource, make_source

    root = {"name": SLUG, "children": divisions_of(n_entries)}
    document = {"policy": SLUG, "settings": dict(settings or {}), "root": root}
    before = at - timedelta(hours=1)
    make_policy(slug=SLUG, name=SLUG, at=before, actor=COMMAND)
    publish_document(policy_slug=SLUG, document=document, reason="bench", at=before, actor=COMMAND)
    policy = Policy.objects.get(slug=SLUG)
    rules = [Rule("glob", load_tree(policy).uuid(0), suffix="/{project}/{group}/{user}")]
    set_rules(policy_slug=SLUG, rules=rules, at=before, actor=COMMAND)
    make_source(NewSource(slug=SLUG, name=SLUG, namespace="c1"), at=before, actor=COMMAND)
    return policy


def n_groups(n_entries: int) -> int:
    return n_entries // 100 - n_entries // 10_000


_ACCOUNTS = """
INSERT INTO accounts_account (namespace, user_name, group_name, dn, fqan, project, first_seen_at)
SELECT 'c1', 'u' || g || '-' || k, 'g' || g, '', '', 'd' || g / 100 * 100, %(at)s
FROM generate_series(0, %(n)s - 1) AS g, generate_series(0, 98) AS k
"""
_BUCKETS = """
INSERT INTO usage_bucket (source_id, account_id, site, job_class_id, hour_at, cpu_s, gpu_s, mem_gb_s, node_s, billing,
    jobs)
SELECT %(source)s, id, 's' || id %% 5, (SELECT max(id) FROM usage_jobclass),
    date_trunc('hour', %(at)s::timestamptz) - (1 + id * 7919 %% (24 * %(days)s)) * interval '1 hour',
    1 + id * 104729 %% 360000, 0, 0, 0, 0, 1
FROM accounts_account WHERE namespace = 'c1' AND id %% 1000 >= 1000 * %(idle)s
"""


def divisions_of(n_entries: int) -> list[dict[str, Any]]:
    """The children of the root of the document."""
    groups = [_group(number) for number in range(n_groups(n_entries))]
    return [{"name": f"d{first}", "children": groups[first : first + 100]} for first in range(0, len(groups), 100)]


def _group(number: int) -> dict[str, Any]:
    people = [{"name": f"u{number}-{k}", "kind": "user", "shares": 1 + k % 7} for k in range(99)]
    return {"name": f"g{number}", "shares": 1 + number % 5, "children": people}


def change_usage(at: datetime) -> None:
    """Usage of the last hours, as an import changes it."""
    from django.db import connection, transaction

    from apps.usage.changed_hours import note_change
    from apps.usage.models import Source

    since_at = at.replace(minute=0, second=0, microsecond=0) - CHANGED_HOURS * timedelta(hours=1)
    with transaction.atomic(), connection.cursor() as cursor:
        note_change(Source.objects.get(slug=SLUG).pk, since_at)
        cursor.execute("UPDATE usage_bucket SET cpu_s = cpu_s + 1 WHERE hour_at >= %s", [since_at])
        cursor.execute("UPDATE usage_source SET watermark = watermark + 1 WHERE slug = %s", [SLUG])


def round_of(policy: Policy, at: datetime) -> dict[str, float]:
    """Seconds of each part, in the order in which a worker does them."""
    from django.db import transaction

    from apps.engine.algorithms import compute as compute_priorities
    from apps.priorities.recompute import pipeline as assembly
    from apps.priorities.serving import store as served

    change_usage(at)
    inputs, load_s = timed(lambda: assembly.load_inputs(policy, as_of=at))
    computed, compute_s = timed(lambda: assembly.compute(inputs))

    def store() -> None:
        with transaction.atomic():
            assembly.store_result(inputs, computed, is_live=True, started_at=at, computed_at=at, run=None)

    store_s, visible_s = timed(store)[1], timed(served.poll)[1]
    assert served.newest(SLUG).as_of == at
    engine_tree, own = inputs.tree.engine_tree(), _own(computed, len(inputs.tree))
    engine_s = timed(lambda: compute_priorities(engine_tree, own, algorithm=inputs.settings.algorithm))[1]
    copy_s = _copy(computed)
    return {
        "load": load_s,
        "compute": compute_s,
        "store": store_s,
        "visible": visible_s,
        "engine": engine_s,
        "copy": copy_s,
    }


def _own(computed: Computed, n: int) -> Any:
    placed = computed.entry_of_account >= 0
    return np.bincount(computed.entry_of_account[placed], computed.usage_of_account[placed], n).astype(np.float64)


def _copy(computed: Computed) -> float:
    """These values as rows: entry, priority, key and rank."""
    from django.db import connection

    from apps.usage import pgbinary

    result = computed.result
    columns = [
        pgbinary.int8(np.arange(len(result.rank))),
        pgbinary.float8(result.priority),
        pgbinary.int8(result.scalar.astype(np.int64)),
        pgbinary.int4(result.rank.astype(np.int64)),
    ]
    payload = pgbinary.copy_payload(columns)
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS bench_values")
        cursor.execute("CREATE TABLE bench_values (entry int8, priority float8, key int8, rank int4)")

    def copy() -> None:
        with pgbinary.cursor() as db_cursor, db_cursor.copy("COPY bench_values FROM STDIN (FORMAT BINARY)") as into:
            into.write(payload)

    return timed(copy)[1]


def _load_ratio(policy: Policy, at: datetime) -> float:
    from apps.usage.arrays import load_usage
    from apps.usage.models import Source

    source = Source.objects.get(slug=SLUG).pk
    pairs = []
    for _ in range(ROUNDS):
        plain = timed(lambda: load_usage(sources=[source], from_at=None, to_at=at))[1]
        coded = timed(lambda: load_usage(sources=[source], from_at=None, to_at=at, sites=["s1", "s2", "s3"]))[1]
        pairs.append(coded / plain)
    return statistics.median(pairs)
