"""A policy with two groups, and jobs on every day of two months: what statements are made of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from apps.accounts.actor import COMMAND
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.models import Policy
from apps.policies.records import PolicyDetails
from apps.policies.services import make_policy, publish_document
from apps.policies.tree.stored import load_tree
from apps.runs.services import work_run_now
from apps.series.runs import enqueue_series_build
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source
from tests.instants import AT

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def tree(physics: float) -> dict[str, Any]:
    members = {
        name: [{"name": each, "kind": "user", "shares": 1} for each in people.split()]
        for name, people in (("physics", "alice bob"), ("biology", "carol"))
    }
    groups = [
        {"name": name, "kind": "group", "shares": physics if name == "physics" else 100 - physics, "children": below}
        for name, below in members.items()
    ]
    return {"root": {"name": "hall", "children": groups}}


def make_hall() -> Policy:
    """Published on 20 September with 60 to 40, and 50 to 50 from 16 October on; jobs on every day since."""
    policy = make_policy(
        slug="hall",
        name="Hall",
        details=PolicyDetails(visibility="path"),
        at=datetime(2026, 9, 20, tzinfo=UTC),
        actor=COMMAND,
    )
    for physics, at in ((60, datetime(2026, 9, 20, 1, tzinfo=UTC)), (50, datetime(2026, 10, 16, tzinfo=UTC))):
        publish_document(policy_slug="hall", document=tree(physics), reason="r", at=at, actor=COMMAND)
    policy.refresh_from_db()
    make_source(NewSource(slug="c1", name="c1", namespace="c1"), at=AT, actor=COMMAND)
    columns = load_tree(policy)
    rule = Rule(kind="glob", target_uid=columns.uuid(0), suffix="/{group}/{user}")
    set_rules(policy_slug="hall", rules=[rule], at=AT, actor=COMMAND)
    start = datetime(2026, 9, 20, 6, tzinfo=UTC)
    send(
        [
            row(n, start + n * DAY, who, group, cpus)
            for n in range(61)
            for who, group, cpus in (("alice", "physics", 2 + n % 3), ("carol", "biology", 3 + n % 2))
        ]
    )
    build(policy)
    return policy


def row(n: int, start_at: datetime, user: str, group: str, cpus: float) -> RecordRow:
    """Three hours; submitted four hours before on every fifth day."""
    submit_at = start_at - (4 if n % 5 == 0 else 0) * HOUR
    return RecordRow(
        f"{user}-{n}", user, group, submit_at=submit_at, start_at=start_at, end_at=start_at + 3 * HOUR, cpus=cpus
    )


def send(rows: list[RecordRow]) -> None:
    ingest_batch(source=Source.objects.get(slug="c1"), rows=rows, at=AT)


def build(policy: Policy) -> None:
    done = work_run_now(enqueue_series_build(policy, at=AT).pk)
    assert done.state == "succeeded", done.error
