from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.policies.services import make_policy, publish_document
from apps.priorities.serving import store
from tests.cli.refusals import code_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def _computed() -> None:
    make_policy(slug="grid", name="grid", at=now(), actor=COMMAND)
    users = [{"name": name, "kind": "user", "shares": 1} for name in ("alice", "bob")]
    root = {"name": "grid", "children": [{"name": "physics", "shares": 1, "children": users}]}
    publish_document(policy_slug="grid", document={"root": root}, reason="x", at=now(), actor=COMMAND)
    call_command("recompute", "grid", "--wait", stdout=io.StringIO())


def _priorities(*arguments: str) -> str:
    out = io.StringIO()
    call_command("priorities", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


@pytest.mark.usefixtures("_computed")
def test_json_equals_rest() -> None:
    answer = json.loads(_priorities("grid", "--account", "nobody", "--json"))
    snapshot = store.newest("grid")
    expected = snapshot.head(now())
    assert {**answer, "age_s": 0} == {**expected, "age_s": 0, "results": snapshot.lookup(["nobody"])}


@pytest.mark.usefixtures("_computed")
def test_without_names_it_lists_every_leaf() -> None:
    lines = _priorities("grid").splitlines()
    assert [line.split() for line in lines] == [
        ["1/2", "1.000000", "-", "/physics/alice"],
        ["1/2", "1.000000", "-", "/physics/bob"],
    ]
    assert len(json.loads(_priorities("grid", "--json"))["results"]) == 2


def test_before_the_first_snapshot_the_command_reports_it() -> None:
    make_policy(slug="grid", name="grid", at=now(), actor=COMMAND)
    with pytest.raises(CommandError) as refused:
        _priorities("grid")
    assert (refused.value.returncode, code_of(refused.value)) == (1, "no_snapshot")
    with pytest.raises(CommandError) as refused:
        _priorities("nothing")
    assert code_of(refused.value) == "not_found"
