"""A delegate of one part tries to move all users' accounts under it: by REST, on a running service."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from tests.faults.stack import eventually
from tests.security.conftest import Instance

pytestmark = pytest.mark.timeout(300)
RIVALS = ("rival", "rita")
_MAKE_PARTS = """
import json
from datetime import timedelta
from apps.accounts.actor import COMMAND
from apps.accounts.models import Account, User
from apps.accounts.services import NewToken, make_token
from apps.core.clock import now
from apps.policies.access.authority import GrantTerms
from apps.policies.access.delegation import create_grant
from apps.policies.models import Policy
from apps.policies.services import make_policy, publish_document
from apps.policies.tree.stored import load_tree
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules

at = now() - timedelta(seconds=1)
make_policy(slug="parts", name="Parts", at=at, actor=COMMAND)
people = lambda *names: [{"name": name, "kind": "user"} for name in names]
root = {"name": "parts", "children": [
    {"name": "rivals", "children": people("rival", "rita")},
    {"name": "climate", "children": [*people("cyd"), {"name": "seasonal", "children": []}]},
]}
publish_document(policy_slug="parts", document={"policy": "parts", "root": root}, reason="t", at=at, actor=COMMAND)
tree = load_tree(Policy.objects.get(slug="parts"))
glob = Rule("glob", tree.uuid(0), group_pattern="?*", suffix="/{group}/{user}")
set_rules(policy_slug="parts", rules=[glob], at=at, actor=COMMAND)
Account.objects.create(namespace="cluster", user_name="guest", group_name="visitors", first_seen_at=at)
user = User.objects.create_user("cleo")
climate = tree.uuid(tree.index_of_path("/climate"))
terms = GrantTerms(username="cleo", role="manager", reason="t")
create_grant(policy_slug="parts", entry_uid=climate, terms=terms, at=at, actor=COMMAND)
scopes = ["policies:read", "policies:write", "priorities:read"]
print(json.dumps(make_token(NewToken(name="cleo", scopes=scopes, user=user), at=at, actor=COMMAND)[1]))
"""
_WORK = """
from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.mapping.membership_plan import apply_membership_rules
from apps.priorities.recompute.staleness import request_recompute
from apps.runs.services import work_run_now
apply_membership_rules(at=now())
work_run_now(request_recompute(policy_slug="parts", at=now(), actor=COMMAND).pk)
"""


class Site:
    """The policy `parts` of the shared instance: requests by the delegate, by a scheduler, by a usage source."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.tokens = {**instance.tokens, "cleo": json.loads(instance.stack.run(_MAKE_PARTS))}

    def ask(self, by: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.instance.port, timeout=30)
        headers = {"Authorization": f"Bearer {self.tokens[by]}", "Content-Type": "application/json", **headers}
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, f"/api/v1/{path}", data, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def publish(self, *operations: dict[str, Any]) -> int:
        head = json.loads(self.ask("cleo", "GET", "policies/parts/tree")[1])["revision"]
        draft = {"base_revision": head, "reason": "r", "operations": list(operations)}
        status, made = self.ask("cleo", "POST", "policies/parts/changesets", draft)
        if status != 201:
            return status
        return self.ask("cleo", "POST", f"policies/parts/changesets/{json.loads(made)['id']}/publish")[0]

    def change_mapping(self, what: str, body: dict[str, Any]) -> int:
        seen = json.loads(self.ask("cleo", "GET", "policies/parts/mappings/rules")[1])["version"]
        return self.ask("cleo", "POST", f"policies/parts/mappings/{what}", body, **{"If-Match": f'"{seen}"'})[0]

    def counts_somewhere(self, account: str) -> bool:
        """False also while an older snapshot is served, which doesn't know the account."""
        status, text = self.ask("reader", "GET", f"policies/parts/priorities?account={account}")
        return status == 200 and all(line.get("entry") for line in json.loads(text)["results"])

    def served(self, account: str) -> dict[str, Any]:
        """Where an account counts and its priorities from the root on: neither depends on how many others there are."""
        status, text = self.ask("reader", "GET", f"policies/parts/priorities?account={account}")
        assert status == 200, text
        (line,) = json.loads(text)["results"]
        return {name: line.get(name) for name in ("entry", "vector")}


@pytest.fixture(scope="module")
def parts(instance: Instance) -> Site:
    site = Site(instance)
    times = {"submit": "2026-01-01T00:00:00Z", "start": "2026-01-01T00:00:00Z"}
    used = [("rival", "rivals", 3), ("rita", "rivals", 1), ("cyd", "climate", 2)]
    records = [
        {"job": user, "user": user, "group": group, "cpus": 1, **times, "end": f"2026-01-01T0{hours}:00:00Z"}
        for user, group, hours in used
    ]
    assert site.ask("pusher", "POST", "usage/records?source=cluster", records)[0] == 200
    instance.stack.run(_WORK)
    eventually(lambda: site.counts_somewhere("rival"), "priorities with the usage that was sent")
    return site


@pytest.mark.deep
def test_a_membership_rule_for_all_users_moves_and_discloses_no_one_else(parts: Site) -> None:
    before = {name: parts.served(name) for name in RIVALS}
    assert {found["entry"] for found in before.values()} == {"/rivals/rival", "/rivals/rita"}
    everybody = {"op": "set_members", "entry": "/climate/seasonal", "members": [{"group": "*"}]}
    assert parts.publish(everybody) == 200
    pattern = {"kind": "glob", "group": "*", "entry": "/climate", "suffix": "/{user}", "reason": "r"}
    assert parts.change_mapping("rules", pattern) in (201, 403, 422)
    rival = {"namespace": "cluster", "user": "rival", "group": "rivals"}
    taken = {"assignments": [{"account": rival, "entry": "/climate"}], "reason": "r"}
    assert parts.change_mapping("assignments", taken) == 422, "the same as for an account that does not exist"
    parts.instance.stack.run(_WORK)
    eventually(lambda: parts.served("guest")["entry"] == "/climate/seasonal/guest", "the rule has taken who was free")
    assert {name: parts.served(name) for name in RIVALS} == before
    for path in ("priorities/all", "tree", "mappings/rules", "mappings/unmapped", "changesets"):
        text = parts.ask("cleo", "GET", f"policies/parts/{path}")[1]
        assert not [name for name in RIVALS if name in text], path
