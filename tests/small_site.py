"""A small site for tests of the faces: people with every kind of right, two policies, usage, and a snapshot.

/            grid: visible by path and grant
├─ physics   pia divides it            alice (6 of 10 hours), bob
└─ biology   ben divides it            carol
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any
from uuid import UUID

from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
from apps.accounts.services import NewToken, make_token
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.models import Policy
from apps.policies.recompute_runs import queue_recompute
from apps.policies.services import make_policy, publish_document
from apps.policies.tree.stored import load_tree
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from apps.usage.services import NewSource, PushedRecords, make_source, push_records
from tests.grants import make_grant

TREE: dict[str, Any] = {
    "name": "grid",
    "kind": "vo",
    "children": [
        {
            "name": "physics",
            "kind": "project",
            "shares": 60,
            "children": [{"name": "alice", "kind": "user", "shares": 2}, {"name": "bob", "kind": "user", "shares": 1}],
        },
        {
            "name": "biology",
            "kind": "project",
            "shares": 40,
            "children": [{"name": "carol", "kind": "user", "shares": 1}],
        },
    ],
}
JOBS = [("1", "alice", "physics", 6), ("2", "bob", "physics", 1), ("3", "carol", "biology", 3)]


@dataclass
class Site:
    at: datetime
    admin: User
    pia: User  # authority of /physics
    ben: User  # authority of /biology
    alice: User  # member: her account is at /physics/alice
    nobody: User  # signs in, and has no right to anything
    policy: Policy
    other: Policy  # unrelated to the others

    def uid(self, path: str) -> UUID:
        tree = load_tree(Policy.objects.get(pk=self.policy.pk))
        i = tree.index_of_path(path)
        assert i is not None, path
        return tree.uuid(i)

    def token(self, *scopes: str, user: User | None = None, **bounds: Any) -> str:
        at = bounds.pop("at", self.at)
        owner = user or self.admin
        _, text = make_token(NewToken(name="test", scopes=scopes, user=owner, **bounds), at=at, actor=SYSTEM)
        return text

    def recompute(self) -> int:
        """A new snapshot, as a worker would make it."""
        run = work_run_now(queue_recompute(self.policy, at=self.at).pk)
        store.poll()
        return int(run.result["snapshot"])


def build_site(at: datetime) -> Site:
    people = {name: User.objects.create_user(name) for name in ("pia", "ben", "alice", "nobody")}
    admin = User.objects.create_superuser("admin")
    policy, other = (make_policy(slug=slug, name=slug.title(), at=at, actor=SYSTEM) for slug in ("grid", "other"))
    publish_document(policy_slug="grid", document={"root": TREE}, reason="The first tree.", at=at, actor=SYSTEM)
    policy.refresh_from_db()
    site = Site(at=at, admin=admin, policy=policy, other=other, **people)
    for name in ("pia", "ben"):
        path = "/physics" if name == "pia" else "/biology"
        make_grant(people[name], site.uid(path), policy=policy, at=at, reason="test")
    rules = [Rule(kind="glob", target_uid=site.uid("/"), group_pattern="*", suffix="/{group}/{user}")]
    make_source(NewSource(slug="cluster-a", name="Cluster A", namespace="a", site="s1"), at=at, actor=SYSTEM)
    push(site, [record(*job, at=at) for job in JOBS])
    set_rules(policy_slug="grid", rules=rules, at=at, actor=SYSTEM)
    return site


def record(job: str, user: str, group: str, hours: int, *, at: datetime) -> dict[str, Any]:
    start = at - timedelta(hours=hours + 1)
    end = start + timedelta(hours=hours)
    return {"job": job, "user": user, "group": group, "start": _text(start), "end": _text(end), "cpus": 1}


def push(site: Site, records: list[dict[str, Any]]) -> dict[str, Any]:
    body = BytesIO(json.dumps(records).encode())
    answer: dict[str, Any] = push_records(
        PushedRecords(
            source_slug="cluster-a",
            body_stream=body,
            content_type="application/json",
            gzip=False,
            idempotency_key=None,
            atomic=False,
        ),
        at=site.at,
        actor=SYSTEM,
    )
    return answer


def _text(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
