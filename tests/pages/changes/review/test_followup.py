"""What follows a publication: a strip until the recompute is there, then who moved, how far and why."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.accounts.models import Account, User
from apps.core import clock
from apps.policies import services
from apps.policies.models import ChangeSet, Policy
from apps.policies.publishing.direct import publish_operations
from apps.policies.records import NewChangeSet
from apps.priorities.serving import store
from apps.runs.models import Run
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read
from tests.pages.page import text_of as text
from tests.sign_in import sign_in

HTMX = {"HX-Request": "true"}
MORE = {"op": "set_shares", "entry": "/biomed", "shares": 900}


def publish(grid: Grid, *operations: dict[str, Any]) -> ChangeSet:
    actor = Actor(user=grid.admin, via="page")
    draft = services.make_change_set(
        policy_slug=SLUG,
        new=NewChangeSet(operations=operations, reason="More for biomed."),
        at=clock.now(),
        actor=actor,
    )
    services.publish_change_set(id=draft.pk, version=draft.version, at=clock.now(), actor=actor)
    return draft


@pytest.fixture
def published(grid: Grid) -> ChangeSet:
    return publish(grid, MORE)


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    return sign_in(client, grid.admin)


def ask(client: Client, change_set: ChangeSet, tag: str = "") -> Any:
    return client.get(f"/changes/{change_set.pk}/_followup", headers=HTMX | {"If-None-Match": tag})


def strip(client: Client, change_set: ChangeSet) -> Page:
    return read(ask(client, change_set))


def moved(page: Page) -> dict[str, str]:
    """Person → ranks, as the list says them."""
    found = page.all('[data-testid="moved-person"]')
    return {str(one.attributes["data-name"]): " ".join(text(one).split()) for one in found}


def ranks(grid: Grid) -> dict[str, int]:
    snapshot = store.newest(SLUG)
    tree, values = snapshot.tree, snapshot.values
    return {tree.name[i]: int(values.rank[i]) for i in range(len(tree)) if values.is_ranked[i]}


def test_before_the_recompute_expected_rank_changes_are_listed(grid: Grid, published: ChangeSet, admin: Client) -> None:
    page = read(admin.get(f"/changes/{published.pk}/"))
    assert page.one("#followup").attributes["data-state"] == "waiting"
    assert int(page.one("[role=timer]").attributes["data-left"] or 0) > 0
    assert "Schedulers get the priorities of revision 2" in page.text("[data-followup-text]")
    assert "expected" in page.text(".moved header p")
    assert moved(page)


def test_after_the_recompute_the_list_has_both_ranks_and_the_reason(
    grid: Grid, published: ChangeSet, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, expected = ranks(grid), moved(strip(admin, published))
    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(minutes=2)).isoformat())
    grid.recompute()
    page, after = strip(admin, published), ranks(grid)
    assert page.one("#followup").attributes["data-state"] == "done"
    differ = {name for name in before if before[name] != after[name]}
    assert differ
    found = moved(page)
    assert set(found) == differ == set(expected)
    for name in differ:
        assert f"{before[name]} to {after[name]}" in found[name]
    assert "Target of biomed: 30.0 % to 92.8 %." in " ".join(page.text(".moved").split())
    assert f"{len(differ)} of {len(before)} people changed rank" in page.text("[data-followup-text]")


def test_an_unchanged_state_is_a_304_until_the_recompute(
    grid: Grid, published: ChangeSet, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = ask(admin, published)["ETag"]
    assert ask(admin, published, tag).status_code == 304
    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(minutes=2)).isoformat())
    grid.recompute()
    assert ask(admin, published, tag).status_code == 200


def test_slow_and_failed_recomputes_are_reported(
    grid: Grid, published: ChangeSet, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(minutes=5)).isoformat())
    assert "longer than usual" in strip(admin, published).text("[data-followup-heading]")
    Run.objects.filter(kind="recompute").update(
        state=Run.State.FAILED, error="The usage of Cluster A could not be read.", attempts=3, finished_at=clock.now()
    )
    page = strip(admin, published)
    assert page.one("#followup").attributes["data-state"] == "failed"
    assert "The usage of Cluster A could not be read." in page.text("[data-followup-text]")


def test_a_change_without_rank_changes_is_reported(grid: Grid, admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    change_set = publish(grid, {"op": "set_shares", "entry": "/atlas", "shares": 60.01})
    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(minutes=2)).isoformat())
    grid.recompute()
    page = strip(admin, change_set)
    assert "No rank changed" in page.text("[data-followup-text]")
    assert not page.has("#moved"), "it is said once"


def test_a_user_who_sees_the_own_path_gets_no_other_names(closed: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    change_set = publish(closed, MORE)
    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(minutes=2)).isoformat())
    closed.recompute()
    everyone = moved(strip(sign_in(Client(), closed.admin), change_set))
    alice = ask(sign_in(Client(), closed.alice), change_set)
    assert len(everyone) > 1
    assert alice.status_code == 404 or set(moved(read(alice))) <= {"alice"}


def test_undo_publishes_the_inverse(grid: Grid, published: ChangeSet, admin: Client) -> None:
    answer = admin.post(f"/changes/{published.pk}/undo/", {"reason": "It was too much."}, follow=True)
    assert read(answer).one("#followup").attributes["data-state"] == "waiting"
    policy = Policy.objects.get(slug=SLUG)
    assert policy.head_number == 4
    biomed = grid.tree.index_of_path("/biomed")
    assert biomed is not None
    assert grid.tree.shares[biomed] == 30


def test_undo_of_a_later_changed_field_becomes_a_draft(grid: Grid, published: ChangeSet, admin: Client) -> None:
    publish_operations(
        policy_slug=SLUG,
        operations=[{"op": "set_shares", "entry": "/biomed", "shares": 77}],
        reason="Less.",
        at=clock.now(),
        actor=Actor(user=grid.admin, via="page"),
    )
    answer = admin.post(f"/changes/{published.pk}/undo/", {"reason": "Back."}, follow=True)
    assert "Not undone yet" in read(answer).text("#problem")
    assert Policy.objects.get(slug=SLUG).head_number == 4
    assert ChangeSet.objects.latest("pk").state == ChangeSet.State.DRAFT


def test_without_the_right_to_publish_no_undo_is_offered(grid: Grid, published: ChangeSet) -> None:
    client = sign_in(Client(), User.objects.create_user("reader"))
    answer = ask(client, published)
    if answer.status_code == 200:
        assert not read(answer).has("#undo-box")
    assert client.post(f"/changes/{published.pk}/undo/", {"reason": "x"}).status_code in (403, 404)


@pytest.fixture
def recomputed(grid: Grid, published: ChangeSet, monkeypatch: pytest.MonkeyPatch) -> ChangeSet:
    carol = User.objects.create_user("carol", first_name="Carol")
    Account.objects.filter(user_name="carol").update(person=carol)
    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(minutes=2)).isoformat())
    grid.recompute()
    return published


def test_rest_returns_moved_users(grid: Grid, recomputed: ChangeSet, admin: Client) -> None:
    found = admin.get(f"/api/v1/policies/{SLUG}/changesets/{recomputed.pk}/followup").json()
    assert (found["state"], found["n_moved"]) == ("done", len(found["moves"]))
    ranks = {move["path"]: (move["rank_before"], move["rank_after"]) for move in found["moves"]}
    assert ranks["/atlas/alice"] == (4, 6)
    assert all(move["reason"] for move in found["moves"])
