"""A member of a deepest group without entries: one level below the deepest leaf, whom no key of that depth holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.models import User
from apps.engine.algorithms import all_algorithms
from apps.mapping.rules.rule import Rule
from apps.policies.tree.stored import load_tree
from apps.priorities.serving import store
from apps.priorities.serving.leaf_lines import every_leaf
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.priority_site import AS_OF, NO_AGING, Site
from tests.rest_site import Caller
from tests.series.test_series import publish

pytestmark = pytest.mark.django_db(transaction=True)
ALICE = {"name": "alice", "kind": "user", "shares": 1}
LAB = {"name": "lab", "kind": "group", "shares": 1, "children": []}
TREE = [{"name": "physics", "kind": "group", "shares": 1, "children": [ALICE, LAB]}]


@pytest.mark.parametrize("algorithm", all_algorithms())
def test_an_account_of_a_deepest_empty_group_fails_no_look_up(make_site: Callable[..., Site], algorithm: str) -> None:
    site = make_site(at=AS_OF - timedelta(days=5))
    publish(site, TREE, {**NO_AGING, "algorithm": {"name": algorithm}}, AS_OF - timedelta(days=5))
    site.map(Rule(kind="association", suffix="/{user}", target_uid=load_tree(site.policy).uuid(0)))
    end_at = AS_OF - timedelta(hours=2)
    begun_at = end_at - timedelta(hours=1)
    rows = [
        RecordRow(user, user, group, "finished", begun_at, begun_at, end_at, cpus=1.0)
        for user, group in (("alice", "physics"), ("zoe", "lab"))
    ]
    ingest_batch(source=site.source, rows=rows, at=AS_OF)
    site.recompute()
    store.poll()
    lines: list[dict[str, Any]] = list(every_leaf(store.newest("grid")))
    assert [line["entry"] for line in lines if line["rank"] is not None][:1] == ["/physics/alice"]
    call = Caller(user=User.objects.create_superuser("adm", "a@example.org", "a long pass phrase"))
    accounts = [{"user": row.user, "group": row.group, "namespace": "c1"} for row in rows]
    answer = call.post("policies/grid/priorities/lookup", json.dumps({"accounts": accounts}))
    assert answer.status_code == 200
    alice, zoe = answer.json()["results"]
    assert (alice["entry"], alice["rank"] is not None) == ("/physics/alice", True)
    assert zoe["entry"] == "/physics/lab"
