"""The effect that a dragged border asks for: ranks and days on target of 100 siblings, in a tree of 10,000 entries.

Whole requests in process.

The ratio is seconds over the seconds that the goal allows, without the network and without drawing.
"""

from __future__ import annotations

import statistics
from datetime import datetime, timedelta
from typing import Any

from bench.clock import timed
from bench.report import BenchLine

SLUG = "prediction"
N_GROUPS, N_SIBLINGS, N_DAYS = 100, 100, 20
GOAL_S = 0.15
ASKED = 60


def measure() -> BenchLine:
    """One number after the other for one of them, as it is asked for while a border moves."""
    from django.conf import settings
    from django.test import Client

    from apps.accounts.models import User
    from apps.core.clock import now
    from apps.policies.models import ChangeSet, Policy
    from apps.policies.tree.stored import load_tree

    settings.ALLOWED_HOSTS = ["*"]
    _prepare(now())
    tree = load_tree(Policy.objects.get(slug=SLUG))
    group, entry = tree.index_of_path("/g0"), tree.index_of_path("/g0/u0-7")
    assert group is not None
    assert entry is not None
    client = Client()
    client.force_login(User.objects.get_or_create(username="prediction", is_superuser=True)[0])
    client.post(f"/policy/{SLUG}/edit")
    address = f"/changes/{ChangeSet.objects.latest('pk').pk}/edit/_effect"

    def ask(shares: int) -> Any:
        fields = {"op": "set_shares", "entry": str(tree.uuid(entry)), "shares": str(shares)}
        return client.get(address, {"group": str(tree.uuid(group)), **fields}, headers={"HX-Request": "true"})

    first = _seconds(lambda: ask(1))
    rows = ask(2).json()["rows"]
    assert sum(row["outcome"] is not None for row in rows) == len(rows) == N_SIBLINGS
    took = [_seconds(lambda shares=shares: ask(shares)) for shares in range(3, 3 + ASKED)]
    p95 = statistics.quantiles(took, n=20)[-1]
    detail = f"{p95 * 1e3:.0f} ms, median {statistics.median(took) * 1e3:.0f} ms of {ASKED}, first {first * 1e3:.0f} ms"
    return BenchLine(
        f"shares by dragging, ranks and days of {N_SIBLINGS} siblings at the 95th percentile / {GOAL_S:g} s",
        p95 / GOAL_S,
        1.0,
        detail,
    )


def _prepare(at: datetime) -> None:
    """The tree, jobs of each user of the first group on each of the last days, and the priorities."""
    from apps.accounts.actor import COMMAND
    from apps.mapping.rules.rule import Rule
    from apps.mapping.services import set_rules
    from apps.policies.models import Policy
    from apps.policies.services import make_policy, publish_document
    from apps.policies.tree.stored import load_tree
    from apps.priorities.recompute.staleness import request_recompute
    from apps.runs.services import work_run_now
    from apps.usage.models import Source
    from apps.usage.parsers.base import RecordRow
    from apps.usage.records.ingest import ingest_batch

    make_policy(slug=SLUG, name=SLUG, at=at, actor=COMMAND)
    groups = [
        {
            "name": f"g{n}",
            "children": [{"name": f"u{n}-{k}", "kind": "user", "shares": 1 + k % 7} for k in range(N_SIBLINGS)],
        }
        for n in range(N_GROUPS)
    ]
    publish_document(
        policy_slug=SLUG,
        document={"policy": SLUG, "root": {"name": SLUG, "children": groups}},
        reason="bench",
        at=at,
        actor=COMMAND,
    )
    root = load_tree(Policy.objects.get(slug=SLUG)).uuid(0)
    set_rules(policy_slug=SLUG, rules=[Rule("glob", root, suffix="/{group}/{user}")], at=at, actor=COMMAND)
    source = Source.objects.create(slug=SLUG, name=SLUG, namespace=SLUG, created_at=at)
    rows = [
        RecordRow(
            job=f"{k}-{day}",
            user=f"u0-{k}",
            group="g0",
            state="finished",
            submit_at=at - timedelta(days=day + 1),
            start_at=at - timedelta(days=day + 1),
            end_at=at - timedelta(days=day, hours=1),
            cpus=1.0 + (k * 7 + day * 3) % 11,
        )
        for k in range(N_SIBLINGS)
        for day in range(N_DAYS)
    ]
    ingest_batch(source=source, rows=rows, at=at)
    work_run_now(request_recompute(policy_slug=SLUG, at=at, actor=COMMAND).pk)


def _seconds(work: Any) -> float:
    answer, took = timed(work)
    assert answer.status_code == 200, (answer.status_code, answer.content[:500])
    return took
