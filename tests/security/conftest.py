"""A real instance with a policy and tokens, shared by the attacks that leave it as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.faults.conftest import FirstStart, first_start  # noqa: F401 - fixture
from tests.faults.stack import Stack, eventually
from tests.rest_site import computed, site  # noqa: F401 - fixtures
from tests.security.wire import ask, lookup, status

_MAKE_SITE = """
import json
from datetime import timedelta
from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.accounts.services import NewToken, make_token
from apps.core.clock import now
from apps.policies.models import Policy
from apps.policies.services import make_policy, publish_document
from apps.policies.tree.stored import load_tree
from apps.priorities.recompute.staleness import request_recompute
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.runs.services import work_run_now
from apps.usage.models import Source

at = now() - timedelta(seconds=1)
make_policy(slug="grid", name="Grid", at=at, actor=COMMAND)
people = [{"name": name, "kind": "user", "shares": 1} for name in ("alice", "bob")]
root = {"name": "grid", "children": [{"name": "physics", "children": people}]}
publish_document(policy_slug="grid", document={"policy": "grid", "root": root}, reason="t", at=at, actor=COMMAND)
root_uid = load_tree(Policy.objects.get(slug="grid")).uuid(0)
set_rules(policy_slug="grid", rules=[Rule("glob", root_uid, suffix="/{group}/{user}")], at=at, actor=COMMAND)
work_run_now(request_recompute(policy_slug="grid", at=at, actor=COMMAND).pk)
Source.objects.create(slug="cluster", name="Cluster", created_at=at)
user = User.objects.get(username="admin")
scopes = {"reader": ["priorities:read"], "pusher": ["usage:write"], "own": ["self:read"]}
print(json.dumps({
    name: make_token(NewToken(name=name, scopes=each, user=user), at=at, actor=COMMAND)[1]
    for name, each in scopes.items()
}))
"""


@dataclass
class Instance:
    """tokens: reader (priorities:read), pusher (usage:write), own (self:read)."""

    stack: Stack
    tokens: dict[str, str]

    @property
    def port(self) -> int:
        return self.stack.port


def start_instance(first_start: FirstStart, **settings: str) -> Instance:  # noqa: F811 - the fixture's value
    stack = Stack(like=first_start.var, settings=settings)
    try:
        stack.start()
        tokens = json.loads(stack.run(_MAKE_SITE))
        eventually(lambda: stack.answers("api/v1/schema"), "a web process that answers", describe=stack.output_text)
        found = Instance(stack, tokens)
        eventually(lambda: _is_served(found), "the first snapshot in every web process", describe=stack.output_text)
    except BaseException:
        stack.remove()
        raise
    return found


def _is_served(instance: Instance) -> bool:
    """A web process looks for snapshots every second; ten requests reach each process."""
    return all(status(ask(instance.port, lookup(instance.tokens["reader"]))) == 200 for _ in range(10))


@pytest.fixture(scope="session")
def instance(first_start: FirstStart) -> Iterator[Instance]:  # noqa: F811
    found = start_instance(first_start)
    yield found
    found.stack.remove()
