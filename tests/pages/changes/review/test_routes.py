"""Addresses of a change set that only act by POST, its fragments, and conflicts of place and of inherited shares."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.pages.changes.review.checks import check_effect
from apps.policies import services
from apps.priorities import change_effect_runs
from apps.runs.services import work_run_now
from tests.pages.changes.review.test_review import AT, MORE, authority, decide, drafted, signed_in
from tests.pages.grid import SLUG, Grid
from tests.pages.page import names_in, read

HTMX = {"HX-Request": "true"}


@pytest.fixture
def grid(closed_grid: Grid) -> Grid:
    return closed_grid


@pytest.fixture
def bob(grid: Grid) -> User:
    return authority(grid, "bob")


def publish(user: User, *operations: dict[str, Any]) -> None:
    made = drafted(user, *operations, reason="Meanwhile.")
    at = AT + timedelta(minutes=1)
    services.publish_change_set(id=made.pk, version=made.version, at=at, actor=Actor(user=user, via="page"))


@pytest.mark.parametrize(("address", "tab"), [("decide/", ""), ("comment/", "discussion/"), ("compute/", "effect/")])
def test_an_address_that_acts_leads_to_its_tab_when_it_is_opened(bob: User, address: str, tab: str) -> None:
    here = f"/changes/{drafted(bob, MORE).pk}/"
    answer = signed_in(bob).get(f"{here}{address}")
    assert (answer.status_code, answer["Location"]) == (303, f"{here}{tab}")


@pytest.mark.parametrize("step", ["", "dance"])
def test_an_unknown_decision_is_refused_and_changes_nothing(bob: User, step: str) -> None:
    change_set = drafted(bob, MORE)
    assert read(decide(signed_in(bob), change_set, step), 422).error_codes() == ["invalid"]
    before = change_set.version
    change_set.refresh_from_db()
    assert (change_set.state, change_set.version) == ("draft", before)


def test_the_effect_of_a_large_policy_is_asked_for_with_the_proposal(
    bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, small = signed_in(bob), drafted(bob, MORE)
    assert decide(client, small, "propose").status_code == 303
    assert change_effect_runs.newest_run(small) is None, "computed within the request"
    monkeypatch.setattr(change_effect_runs, "MOST_ENTRIES_AT_ONCE", 3)
    large = drafted(bob, {**MORE, "shares": 7})
    assert decide(client, large, "propose").status_code == 303
    assert change_effect_runs.newest_run(large) is not None


def test_a_requested_effect_is_a_fragment_that_polls_and_tells_when_it_is_there(
    bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_effect_runs, "MOST_ENTRIES_AT_ONCE", 3)
    change_set = drafted(bob, MORE)
    client, here = signed_in(bob), f"/changes/{change_set.pk}/"
    asked = client.post(f"{here}compute/", headers=HTMX)
    assert read(asked).has("[data-poll]")
    assert "<html" not in asked.content.decode().lower()
    assert "HX-Trigger" not in client.get(f"{here}_effect", headers=HTMX)
    assert "HX-Trigger" not in client.get(f"{here}_effect?waited=1", headers=HTMX), "not there yet"
    run = change_effect_runs.newest_run(change_set)
    assert run is not None
    work_run_now(run.pk)
    waited = client.get(f"{here}_effect?waited=1", headers=HTMX)
    assert json.loads(waited["HX-Trigger"]) == {"announce": check_effect(waited.context["effect"]).title}
    assert waited.context["effect"].state == "ready"


def test_a_conflict_of_places_names_the_parents_that_the_reader_sees(grid: Grid) -> None:
    change_set = drafted(grid.admin, {"op": "move", "entry": "/atlas/alice", "parent": "/cms"})
    publish(grid.admin, {"op": "move", "entry": "/atlas/alice", "parent": "/biomed"})
    page = read(signed_in(grid.admin).get(f"/changes/{change_set.pk}/conflicts/"))
    assert page.texts(".conflict .value") == ["atlas", "cms", "biomed"], "base, mine, theirs"
    assert str(grid.uid("/cms")) not in page.texts(".conflict .value")


def test_a_conflict_with_inherited_shares_is_stated_in_words(grid: Grid) -> None:
    change_set = drafted(grid.admin, {"op": "set_shares", "entry": "/atlas/alice", "shares": "parent"})
    services.change_shares(
        policy_slug=SLUG, entry_uid=grid.uid("/atlas/alice"), shares=4, reason="Meanwhile.", at=AT, actor=COMMAND
    )
    page = read(signed_in(grid.admin).get(f"/changes/{change_set.pk}/conflicts/"))
    base, mine, theirs = page.texts(".conflict .value")
    assert (names_in(base, "1"), names_in(theirs, "4")) == (True, True)
    assert mine not in ("parent", "None", "")
