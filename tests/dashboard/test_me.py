"""My priority as a page: the accounts, the walk, what to do, why them first, the past, and who sees what of me."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps import clock
from apps.accounts.models import Account, User
from apps.policies.models import Grant, Policy
from apps.policies.roles import VERBS_OF_ROLE
from apps.usage.collectors.base import RecordRow
from apps.usage.ingest import ingest_batch
from apps.usage.models import Source
from tests.dashboard.grid import SLUG, Grid

PAGE = "/me/priority/"
WHY = "/me/priority/_why"
pytestmark = pytest.mark.django_db


def sign_in(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def text(client: Client, path: str = PAGE, status: int = 200, htmx: bool = False, **query: Any) -> str:
    answer = client.get(path, query, headers={"HX-Request": "true"} if htmx else {})
    assert answer.status_code == status, answer.content
    return answer.content.decode()


def give(grid: Grid, user: User, path: str, role: str) -> None:
    Grant.objects.create(
        policy=Policy.objects.get(slug=SLUG),
        entry_uid=grid.uid(path), user=user, role=role, verbs=list(VERBS_OF_ROLE[role]), created_at=grid.at,
        reason="test",
    )  # fmt: skip


def second_account(grid: Grid, user: str, vo: str, cores: int) -> None:
    """Another account of alice's, with a job of its own."""
    row = RecordRow(
        job=f"second-{user}", user=user, group=vo, start_at=grid.at - timedelta(hours=5),
        end_at=grid.at - timedelta(hours=4), cpus=cores,
    )  # fmt: skip
    ingest_batch(source=Source.objects.get(slug="cluster-a"), rows=[row], at=grid.at)
    Account.objects.filter(user_name=user).update(person=grid.alice)
    grid.recompute()


def test_the_page_says_where_why_and_what_to_do(grid: Grid) -> None:
    page = text(sign_in(grid.alice))
    for words in ("Main reason", "What to do", "What the scheduler gets", "Only the fairshare part", "Look back"):
        assert words in page
    assert 'data-key="advice.' in page
    assert "My newest jobs" in page


def test_every_account_is_listed_best_first_and_can_be_chosen(grid: Grid) -> None:
    second_account(grid, "bob", "atlas", 1)
    client = sign_in(grid.alice)
    page = text(client)
    assert "one of 2 accounts" in page
    rows = page[page.index('id="others"') :]
    first, second = rows.index("/atlas/"), rows.rindex("cluster-a:")
    assert first < second
    chosen = text(client, account="alice", namespace="cluster-a")
    assert '<b class="mono break">cluster-a:alice</b>' in chosen


def test_the_past_is_told_with_its_time_bar_and_nothing_of_now(grid: Grid) -> None:
    client = sign_in(grid.alice)
    then = (clock.now() + timedelta(minutes=5)).isoformat()
    page = text(client, at=then)
    assert "You are looking at revision" in page
    for words in ("What to do", "My newest jobs", "What others see about you", "These accounts are mine"):
        assert words not in page
    long_ago = text(client, at="2001-01-01T00:00:00Z")
    assert "No priorities are kept from then" in long_ago


def test_a_day_typed_leads_to_the_instant_it_is_here(grid: Grid) -> None:
    answer = sign_in(grid.alice).get(PAGE, {"day": "2026-01-31T12:00", "account": "alice"})
    assert answer.status_code == 303
    assert "at=2026-01-31T" in answer["Location"]
    assert "account=alice" in answer["Location"]


@pytest.mark.parametrize("at", ["yesterday", "2026-01-01T00:00:00", "9999-99-99"])
def test_a_moment_that_is_none_is_refused(grid: Grid, at: str) -> None:
    answer: Any = sign_in(grid.alice).get(PAGE, {"at": at})
    assert answer.status_code == 422
    assert [field.where for field in answer.context["refusal"].fields] == ["at"]


def test_somebody_else_is_set_beside_me_and_what_would_turn_it_is_told(grid: Grid) -> None:
    client = sign_in(grid.alice)
    page = text(client)
    assert 'id="why"' in page
    found = text(client, WHY, htmx=True, who="carol")
    assert ">carol<" in found
    told = text(client, WHY, htmx=True, other="/biomed/carol", who="carol")
    for words in ("against", "decides", "It would turn if"):
        assert words in told
    assert told.count('class="bullet') == 2
    assert "Nobody whose numbers you may see is called" in text(client, WHY, htmx=True, who="xyzzy")


def test_opened_by_itself_the_fragment_leads_to_its_page(grid: Grid) -> None:
    answer = sign_in(grid.alice).get(WHY)
    assert (answer.status_code, answer["Location"]) == (303, PAGE)


def test_where_others_may_not_be_seen_nobody_is_offered(closed: Grid) -> None:
    client = sign_in(closed.alice)
    page = text(client)
    assert 'id="why-who"' not in page
    for name in ("bob", "carol"):
        assert name not in page
    hidden, missing = (text(client, WHY, htmx=True, who=n, other=f"/atlas/{n}").replace(n, "") for n in ("bob", "nil"))
    assert hidden == missing


def test_a_lead_compares_inside_the_own_group_alone(closed: Grid) -> None:
    give(closed, closed.alice, "/atlas", "lead")
    client = sign_in(closed.alice)
    assert ">bob<" in text(client, WHY, htmx=True, who="bob")
    assert ">carol<" not in text(client, WHY, htmx=True, who="carol")
    assert "There is no" in text(client, WHY, htmx=True, other="/biomed/carol")


def test_what_others_see_is_told_by_role_from_the_grants_in_force(closed: Grid) -> None:
    lena, vera, gone = (User.objects.create_user(name) for name in ("lena", "vera", "gone"))
    give(closed, lena, "/atlas", "lead")
    give(closed, vera, "/", "viewer")
    give(closed, gone, "/cms", "manager")
    page = text(sign_in(closed.alice))
    seen = page[page.index('id="seen"') :]
    assert "1 person with the role Group lead at atlas sees your name, your share, what you used and your jobs." in seen
    assert "1 person with the role Viewer at SweGrid sees sums of groups alone" in seen
    assert "1 administrator of this site sees everything." in seen
    assert "Your colleagues, and all others without a role here, see neither your name nor your numbers." in seen
    assert "cms" not in seen
    for name in ("lena", "vera"):
        assert name not in page, "by role, never by name"
    Grant.objects.filter(user=lena).update(expires_at=clock.now() - timedelta(seconds=1))
    assert "Group lead" not in text(sign_in(closed.alice))


def test_a_part_that_is_open_to_everybody_says_so(closed: Grid) -> None:
    Grant.objects.create(
        policy=Policy.objects.get(slug=SLUG), entry_uid=closed.uid("/atlas"), people="*", role="viewer",
        verbs=["view_members"], created_at=closed.at, reason="test",
    )  # fmt: skip
    page = text(sign_in(closed.alice))
    assert (
        "atlas is open: everybody who signs in sees your name, your share, what you used and your jobs there." in page
    )
    assert "Your colleagues, and all others without a role here" not in page


def test_an_open_policy_says_so(grid: Grid) -> None:
    assert "SweGrid is open: everybody who signs in sees its whole tree" in text(sign_in(grid.alice))


def test_somebody_without_a_place_is_told_what_to_do(grid: Grid) -> None:
    page = text(sign_in(User.objects.create_user("zoe")))
    assert "Your accounts have no place in a policy" in page
    assert "Another account of mine" in page
