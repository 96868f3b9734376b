"""The small policy of these tests, as it is published."""

from __future__ import annotations

from apps.accounts.actor import COMMAND
from apps.policies import services
from apps.policies.models import Policy
from tests.instants import AT

GRID = {
    "root": {
        "name": "grid",
        "children": [
            {
                "name": "physics",
                "kind": "vo",
                "shares": 30,
                "children": [
                    {"name": "alice", "kind": "user", "shares": 1},
                    {"name": "bob", "kind": "user", "shares": 3},
                ],
            },
            {
                "name": "biology",
                "kind": "vo",
                "shares": 50,
                "children": [{"name": "lab", "kind": "group", "children": []}],
            },
            {"name": "reserve", "kind": "reserve", "shares": 20},
        ],
    }
}


def publish_grid() -> Policy:
    services.make_policy(slug="grid", name="Grid", at=AT, actor=COMMAND)
    services.publish_document(policy_slug="grid", document=GRID, reason="The start.", at=AT, actor=COMMAND)
    return Policy.objects.get(slug="grid")
