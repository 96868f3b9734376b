"""The worker of one instance of the ring: that of the demo, with what tests ask for besides.

`python -m tests.ring.worker` is started with the environment of its instance.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import django

django.setup()

from django.db.models import Count  # noqa: E402 - after Django is set up

from apps.accounts.actor import COMMAND  # noqa: E402
from apps.cli.demo.worker import command, main  # noqa: E402
from apps.cli.demo.worker_names import POLICY, SOURCE  # noqa: E402
from apps.core import clock  # noqa: E402
from apps.federation import fetch_requests  # noqa: E402
from apps.federation import fetch_schedule as fetching  # noqa: E402
from apps.federation.document_builds import request_due_builds  # noqa: E402
from apps.federation.models import Fetch, Mount, Subscription  # noqa: E402
from apps.mapping.rules.rule import Rule  # noqa: E402
from apps.mapping.services import set_rules  # noqa: E402
from apps.policies.models import Policy  # noqa: E402
from apps.policies.tree.stored import load_tree  # noqa: E402
from apps.priorities.recompute.staleness import recompute_stale  # noqa: E402
from apps.priorities.serving import store  # noqa: E402
from apps.runs.models import Run  # noqa: E402
from apps.runs.services import work_due_runs  # noqa: E402
from apps.usage.models import Source  # noqa: E402
from apps.usage.parsers.base import RecordRow  # noqa: E402
from apps.usage.records.ingest import ingest_batch  # noqa: E402
from apps.usage.services import NewSource, make_source  # noqa: E402


@command
def lead(policy: str, rules: list[dict[str, Any]]) -> None:
    """One source of this site's own, and rules that lead its users to entries, each named by its path."""
    at = clock.now()
    make_source(NewSource(slug=SOURCE, name=SOURCE, namespace=SOURCE, site=""), at=at, actor=COMMAND)
    tree = load_tree(Policy.objects.get(slug=policy))
    found = {tree.path(i): tree.uuid(i) for i in range(len(tree))}
    made = [Rule(kind="glob", target_uid=found[rule.pop("path")], namespace=SOURCE, **rule) for rule in rules]
    set_rules(policy_slug=policy, rules=made, at=at, actor=COMMAND)


@command
def wait_at_most(total_s: float) -> None:
    """For a whole answer of a peer, where the product's own limit would make a day of faults a long one."""
    fetch_requests.TOTAL_S = total_s


@command
def take(rows: list[list[Any]]) -> int:
    """Records of jobs that started or ended: how many are new. Feeds are built afterwards, as by the schedule."""
    n_new = _ingested(rows) if rows else 0
    _build()
    return n_new


def _ingested(rows: list[list[Any]]) -> int:
    source = Source.objects.get(slug=SOURCE)
    records = [
        RecordRow(
            job=str(number),
            user=leaf,
            group="",
            state="running" if end_s is None else "finished",
            submit_at=_instant(submit_s),
            start_at=_instant(start_s),
            end_at=None if end_s is None else _instant(end_s),
            cpus=cpus,
            requested_s=requested_s,
        )
        for number, leaf, submit_s, start_s, end_s, cpus, requested_s in rows
    ]
    counts = ingest_batch(source=source, rows=records, at=clock.now())
    assert counts.rejected == 0, counts.rejections
    return counts.new


def _instant(epoch_s: float) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC)


def _build() -> None:
    request_due_builds(at=clock.now())
    work_due_runs(clock=clock.now)


@command
def look() -> dict[str, str]:
    """At everything of others' that is due: what became of it, by the subject of the run. Then builds are due."""
    before = Run.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    fetching.request_due_fetches(at=clock.now())
    work_due_runs(clock=clock.now)
    _build()
    runs = Run.objects.filter(pk__gt=before, kind=fetching.KIND)
    return {run.subject: run.result.get("outcome", run.error or run.state) for run in runs}


@command
def work() -> None:
    """What was asked for, by whomever: nothing new is asked for."""
    work_due_runs(clock=clock.now)


@command
def recompute(policy: str = POLICY) -> dict[str, list[Any]]:
    """The newest snapshot, recomputed after changes: [rank or null, core-seconds] of each entry by name."""
    recompute_stale(at=clock.now())
    work_due_runs(clock=clock.now)
    store.poll()
    snapshot = store.newest(policy, poll=False)
    values, tree = snapshot.values, snapshot.tree
    return {
        tree.name[i]: [int(values.rank[i]) if values.is_ranked[i] else None, float(values.usage[i])]
        for i in range(1, len(tree))
    }


@command
def timeline() -> dict[str, dict[str, int]]:
    """Number of fetches by outcome: `outcome` or `outcome code`, by what was fetched."""
    found: dict[str, Counter[str]] = {}
    for one in Fetch.objects.select_related("mount", "subscription").order_by("id"):
        result = f"{one.outcome} {one.code}".strip()
        found.setdefault(str(one.mount or one.subscription), Counter())[result] += 1
    return {name: dict(counts) for name, counts in found.items()}


@command
def remotes() -> dict[str, dict[str, Any]]:
    """Of everything mounted or subscribed to: its state, what was wrong with the last look, and what is held."""
    found: dict[str, dict[str, Any]] = {}
    for mounted in Mount.objects.all():
        found[str(mounted)] = {"state": mounted.state, "error": mounted.error_code, "applied": mounted.applied_version}
    for row in Subscription.objects.annotate(n_held=Count("held_hours")):
        found[str(row)] = {"state": row.state, "error": row.error_code, "held": row.n_held}
    return found


@command
def failed_runs() -> list[str]:
    """Outcomes that no run of this instance may have."""
    return [f"{run.kind} {run.subject}: {run.error}" for run in Run.objects.exclude(state=Run.State.SUCCEEDED)]


if __name__ == "__main__":
    main()
