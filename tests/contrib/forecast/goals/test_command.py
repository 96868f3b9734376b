"""Goals by command: the object that REST gives, a text for people, and a draft of what was printed."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.contrib.forecast.goals.selectors import get_solution, read_goal
from apps.core import clock
from apps.policies.models import ChangeSet
from apps.priorities.selectors.rows import open_view
from apps.web.rest.rendering import dumps
from tests.cli.refusals import code_of
from tests.small_site import Site

pytestmark = pytest.mark.django_db


def goal(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("goal", "grid", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


@pytest.fixture
def by(computed_site: Site) -> str:
    return (clock.now() + timedelta(days=7)).date().isoformat()


def test_json_equals_rest_and_a_change_becomes_a_draft(by: str) -> None:
    tree = open_view(policy_slug="grid", actor=COMMAND).tree
    i = tree.index_of_path("/physics")
    assert i is not None
    asked = read_goal({"by": by, "most_lost": "60"}, entry=tree.uuid(i), today=clock.now().date())
    found = get_solution(policy_slug="grid", goal=asked, actor=COMMAND)
    out, _err = goal("/physics", "--by", by, "--most-lost", "60", "--json")
    assert json.loads(out) == json.loads(dumps(asdict(found)))
    change = found.options[0].lever
    out, err = goal(str(tree.uuid(i)), "--by", by, "--most-lost", "60", "--draft", change)
    assert [line.split(":")[0] for line in out.splitlines() if not line.startswith(" ")][1:] == [
        one.lever for one in found.options
    ]
    draft = ChangeSet.objects.get(state="draft")
    assert f"/changes/{draft.pk}/" in err
    assert [one["op"] for one in draft.operations] == [one["op"] for one in found.options[0].operations]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("/nothing", "--by", "2030-01-01"), "not_found"),
        (("/physics", "--by", "tomorrow"), "bad_goal"),
        (("/physics", "--by", "2001-01-01"), "past"),
    ],
)
def test_invalid_goals_are_refused_by_code(computed_site: Site, arguments: tuple[str, ...], code: str) -> None:
    with pytest.raises(CommandError) as refused:
        goal(*arguments)
    assert code_of(refused.value) == code


def test_a_change_that_does_not_reach_the_goal_makes_no_draft(by: str) -> None:
    with pytest.raises(CommandError) as refused:
        goal("/physics", "--by", by, "--most-lost", "60", "--draft", "none")
    assert code_of(refused.value) == "no_option"
    assert not ChangeSet.objects.filter(state="draft").exists()
