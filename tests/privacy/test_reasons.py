"""Reasons of revisions that changed only what a reader doesn't see."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
from apps.policies.models import Grant
from apps.policies.publishing.direct import publish_operations
from apps.policies.tree.stored import load_tree
from apps.priorities.serving import store
from tests.grants import make_grant
from tests.plugin_parts import added
from tests.priority_site import AS_OF, Site, _clock, children, make_site  # noqa: F401 - fixtures
from tests.worlds import forget_process

TREE = children(ocean={"": 50, "alice": 1, "bea": 1}, genomics={"": 50, "gil": 1, "gus": 1})
REASONS: dict[str, list[dict[str, Any]]] = {
    "zzgil leaves": [{"op": "set_shares", "entry": "/genomics/gil", "shares": 3}],
    "zzgus goes": [{"op": "archive", "entry": "/genomics/gus"}],
    "zznew group": [{"op": "add", "parent": "/genomics", "name": "lab", "kind": "group"}],
    "all: longer memory": [{"op": "set_policy", "settings": {"fallback_factor": 0.4}}],
    "ocean: alice leads": [{"op": "set_shares", "entry": "/ocean/alice", "shares": 4}],
    "ocean: more": [{"op": "set_shares", "entry": "/ocean", "shares": 60}],
}


@pytest.fixture
def site(make_site: Any) -> Site:  # noqa: F811 - the fixture
    found: Site = make_site(visibility="path")
    found.publish(TREE)
    found.map()
    found.job("alice", "ocean", 5)
    for reason, operations in REASONS.items():
        publish_operations(policy_slug=found.slug, operations=operations, reason=reason, at=AS_OF, actor=SYSTEM)
    found.policy.refresh_from_db()
    found.recompute()
    forget_process()
    store.poll()
    return found


def _client(site: Site, role: str = "", path: str = "/ocean") -> Client:
    user = User.objects.create_user("alice")
    if role:
        tree = load_tree(site.policy)
        i = tree.index_of_path(path)
        assert i is not None
        make_grant(user, tree.uuid(i), role, policy=site.policy)
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


PAGES = (
    "/api/v1/policies/grid/revisions",
    "/policy/grid/history/",
    "/policy/grid/history/?q=zz",
    "/policy/grid/history/diff/",
    "/policy/grid/history/3/undo/",
    "/policy/grid/history/4/restore/",
    "/policy/grid/?at=4",
    "/",
    *added("privacy", "SEARCHES"),
    "/api/v1/policies/grid/tree?at=3",
)


@pytest.mark.parametrize("role", ["", Grant.Role.MANAGER])
def test_a_reader_of_a_part_reads_no_reason_about_the_rest(site: Site, role: str) -> None:
    client = _client(site, role)
    for path in PAGES:
        answer: Any = client.get(path, follow=True)
        assert answer.status_code == 200, path
        text = answer.content.decode()
        assert [reason for reason in REASONS if reason.startswith("zz") and reason in text] == [], path


def test_what_changes_the_own_part_or_all_keeps_its_reason(site: Site) -> None:
    answer: Any = _client(site).get("/api/v1/policies/grid/revisions")
    rows = {row["reason"]: row for row in json.loads(answer.content)["results"]}
    assert set(rows) == {"", "ocean: alice leads", "ocean: more", "all: longer memory", "test", "A new policy."}
    assert rows[""]["author"] == ""
    assert rows[""]["n_entries"] is None
    assert rows[""]["is_outside_view"]
    assert rows["ocean: more"]["n_entries"]


def test_who_sees_the_entries_reads_their_reasons(site: Site) -> None:
    answer: Any = _client(site, Grant.Role.MANAGER, "/genomics").get("/api/v1/policies/grid/revisions")
    reasons = {row["reason"] for row in json.loads(answer.content)["results"]}
    assert {"zzgil leaves", "zzgus goes", "zznew group"} <= reasons
