"""The inbox: what waits for whom, with its effect, and every answer to a request."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.policies import services
from apps.policies.asking import ask_upward
from apps.policies.models import ChangeSet, Comment, Grant, Policy
from apps.priorities import served
from apps.priorities.models import Snapshot
from apps.priorities.selectors.requests import tell_request
from tests.dashboard.grid import SLUG, Grid, make_grid
from tests.dashboard.test_group import HTMX, give, in_force, lead, manager, page  # noqa: F401 - fixtures

INBOX = "/inbox/"


@pytest.fixture
def grid(db: None) -> Iterator[Grid]:
    served.forget()
    yield make_grid(datetime.now(UTC), visibility="path")
    served.forget()


@pytest.fixture
def asked(grid: Grid, lead: Client) -> ChangeSet:  # noqa: F811
    """alice asks for 75 instead of 60 shares for atlas."""
    return ask_upward(
        policy_slug=SLUG, entry_uid=grid.uid("/atlas"), shares=75.0, reason="Two new postdocs.", at=grid.at,
        actor=Actor(user=grid.alice, via="page"),
    )  # fmt: skip


def answer(client: Client, asked: ChangeSet, step: str, **more: Any) -> Any:
    return client.post(f"/inbox/{asked.pk}/answer/", {"version": asked.version, "step": step, **more}, follow=True)


def words(response: Any) -> str:
    text: str = response.content.decode().replace("\N{NO-BREAK SPACE}", " ")
    return text


def test_a_request_stands_there_with_usage_and_effect(grid: Grid, asked: ChangeSet, manager: Client) -> None:  # noqa: F811
    text = words(manager.get(INBOX))
    for part in (
        "1 decision waits for you", "atlas asks for 75 shares instead of 60", "Two new postdocs.", "60.0 %", "65.2 %",
        "Used now", "If granted", "under", "biomed −3.9", "cms −1.3", "Now under; nothing is kept of earlier weeks.",
    ):  # fmt: skip
        assert part in text, part
    assert '<span class="count">1<span class="sr"> decision waits</span></span>' in text


def test_weeks_are_told_from_kept_snapshots(grid: Grid, asked: ChangeSet, manager: Client) -> None:  # noqa: F811
    newest = Snapshot.objects.get()
    for weeks in (1, 2):
        newest.pk = None
        newest.fingerprint = f"{weeks}"
        newest.as_of = grid.at - timedelta(weeks=weeks, hours=5)
        newest.save()
    text = words(manager.get(INBOX))
    assert "Under in 3 of the last 3 weeks." in text
    assert "Week by week" in text
    story = tell_request(asked, actor=Actor(user=User.objects.get(username="maria"), via="page"))
    assert [week.state for week in story.weeks] == ["under", "under", "under"]
    assert (story.n_sooner is None) == (story.n_later is None)


def test_places_are_worked_out_in_a_fragment(grid: Grid, asked: ChangeSet, manager: Client) -> None:  # noqa: F811
    path = f"/inbox/{asked.pk}/_ranks"
    text = words(manager.get(path, headers=HTMX))
    assert "place" in text or "sooner" in text
    assert manager.get(path)["Location"] == INBOX


def test_granting_puts_it_in_force_and_tells_whoever_asked(
    grid: Grid, asked: ChangeSet, lead: Client, manager: Client  # noqa: F811
) -> None:  # fmt: skip
    assert "Granted: published as revision 3" in words(answer(manager, asked, "grant"))
    assert in_force(grid, "/atlas").shares == 75.0
    assert "Nothing waits for you" in words(manager.get(INBOX))
    assert "granted" in words(lead.get(INBOX))
    assert "Granted" in words(lead.get(page(grid)))


def test_another_amount_is_granted_with_words(grid: Grid, asked: ChangeSet, lead: Client, manager: Client) -> None:  # noqa: F811
    said = words(answer(manager, asked, "grant-other", shares="66,5", until="2099-01-31", text="Half, for now."))
    assert "Another amount is granted: published as revision 3" in said
    assert in_force(grid, "/atlas").shares == 66.5
    seen = words(lead.get(page(grid)))
    for part in ("atlas asks for 75 shares", "In force instead: 66.5 shares until 31 January 2099", "Half, for now."):
        assert part in seen, part


@pytest.mark.parametrize(
    ("step", "more", "status", "message"),
    [
        ("grant-other", {"shares": ""}, 422, "How many shares?"),
        ("grant-other", {"shares": "lots"}, 422, "Write a number"),
        ("grant-other", {"shares": "70", "until": "2020-01-01"}, 422, "past"),
        ("decline", {"text": " "}, 422, "Say why"),
        ("say", {"text": ""}, 422, "Write what you want to say"),
        ("dance", {}, 422, "unknown"),
        ("grant", {"version": 99}, 412, "load it again"),
    ],
)
def test_wrong_answers_are_told_at_the_request_and_kept(
    grid: Grid,
    asked: ChangeSet,
    manager: Client,  # noqa: F811
    step: str,
    more: dict[str, Any],
    status: int,
    message: str,
) -> None:
    response = answer(manager, asked, step, **more)
    assert response.status_code == status
    assert message in words(response)
    assert f'id="problem-{asked.pk}"' in words(response)
    assert Policy.objects.get(slug=SLUG).head_number == 2


def test_declined_and_asked_back_with_words(grid: Grid, asked: ChangeSet, lead: Client, manager: Client) -> None:  # noqa: F811
    assert "The request stays open" in words(answer(manager, asked, "say", text="Is half enough?"))
    assert "Is half enough?" in words(lead.get(page(grid)))
    answer(lead, asked, "say", text="Until January, yes.")
    assert "Until January, yes." in words(manager.get(INBOX))
    assert "Declined" in words(answer(manager, asked, "decline", text="Not this year."))
    seen = words(lead.get(INBOX))
    assert "declined" in seen
    assert "Not this year." in seen


def test_whoever_asked_withdraws_and_grants_nothing(grid: Grid, asked: ChangeSet, lead: Client) -> None:  # noqa: F811
    for step in ("grant", "decline"):
        assert answer(lead, asked, step, text="x").status_code == 403
    assert in_force(grid, "/atlas").shares == 60.0
    assert "Withdrawn" in words(answer(lead, asked, "withdraw"))
    asked.refresh_from_db()
    assert asked.state == "withdrawn"


def test_a_request_that_rests_on_old_shares_is_granted_anew_with_an_amount(
    grid: Grid, asked: ChangeSet, manager: Client  # noqa: F811
) -> None:  # fmt: skip
    services.change_shares(
        policy_slug=SLUG, entry_uid=grid.uid("/atlas"), shares=62, reason="r", at=grid.at,
        actor=Actor(user=grid.admin, via="page"),
    )  # fmt: skip
    assert answer(manager, asked, "grant").status_code == 409
    assert answer(manager, asked, "grant-other", shares="70").status_code == 200
    assert in_force(grid, "/atlas").shares == 70.0


def test_changes_of_others_and_own_drafts_are_listed(grid: Grid, lead: Client, manager: Client) -> None:  # noqa: F811
    alice = Actor(user=grid.alice, via="page")
    operations = [{"op": "set_shares", "entry": "/atlas/bob", "shares": 4}]
    draft = services.make_change_set(policy_slug=SLUG, operations=operations, reason="Bob.", at=grid.at, actor=alice)
    assert "Your drafts" in words(lead.get(INBOX))
    assert "Bob." not in words(manager.get(INBOX))
    services.propose_change_set(id=draft.pk, version=draft.version, at=grid.at, actor=alice)
    seen = words(manager.get(INBOX))
    assert "Bob." in seen
    assert "review" in seen
    ChangeSet.objects.filter(pk=draft.pk).update(held_for="Somebody archived bob.")
    assert "Somebody archived bob." in words(manager.get(INBOX))


def test_what_ends_soon_is_listed(grid: Grid, lead: Client, manager: Client) -> None:  # noqa: F811
    Grant.objects.filter(user=grid.alice).update(expires_at=grid.at + timedelta(days=10))
    operations = [
        {"op": "set_dates", "entry": "/atlas/bob",
         "dates": {"ends_on": (grid.at + timedelta(days=5)).date().isoformat(), "at_end": 1}}
    ]  # fmt: skip
    admin = Actor(user=grid.admin, via="page")
    draft = services.make_change_set(policy_slug=SLUG, operations=operations, reason="r", at=grid.at, actor=admin)
    services.publish_change_set(id=draft.pk, version=1, at=grid.at, actor=admin)
    text = words(lead.get(INBOX))
    for part in ("Ends soon", "Role ends: you", "bob: until", "shares 1 to 1"):
        assert part in text, part
    assert "bob: until" in words(manager.get(INBOX))


def test_news_are_said_and_move_nothing(grid: Grid, asked: ChangeSet, manager: Client) -> None:  # noqa: F811
    mark = f"{asked.pk}.{asked.version}"
    assert f"?seen={mark}" in words(manager.get(INBOX))
    assert "Something changed" not in words(manager.get(f"/inbox/_news?seen={mark}", headers=HTMX))
    assert "Something changed" in words(manager.get("/inbox/_news?seen=none", headers=HTMX))


def test_somebody_with_nothing_to_decide_has_an_empty_inbox(grid: Grid, asked: ChangeSet) -> None:
    stranger = Client()
    stranger.force_login(User.objects.create_user("zoe"))
    text = words(stranger.get(INBOX))
    assert "Nothing waits for you" in text
    assert "atlas" not in text
    assert stranger.post(f"/inbox/{asked.pk}/answer/", {"step": "grant", "version": 2}).status_code == 404
    assert stranger.get(f"/inbox/{asked.pk}/_ranks", headers=HTMX).status_code == 404


def test_a_change_set_that_asks_for_nothing_is_not_answered_here(grid: Grid, manager: Client) -> None:  # noqa: F811
    admin = Actor(user=grid.admin, via="page")
    operations = [{"op": "set_shares", "entry": "/atlas/bob", "shares": 4}]
    other = services.make_change_set(policy_slug=SLUG, operations=operations, reason="r", at=grid.at, actor=admin)
    services.propose_change_set(id=other.pk, version=1, at=grid.at, actor=admin)
    assert manager.post(f"/inbox/{other.pk}/answer/", {"step": "grant", "version": 2}).status_code == 404
    assert not Comment.objects.exists()
