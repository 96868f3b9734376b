"""Shares of one group by request: which numbers go to the page, and to whom."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core import clock
from apps.policies.changesets import drafts
from apps.policies.models import ChangeSet
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read
from tests.sign_in import sign_in

HTMX = {"HX-Request": "true"}


def draft_of(user: User) -> ChangeSet:
    return drafts.open_draft(policy_slug=SLUG, at=clock.now(), actor=Actor(user=user, via="page"))


def url(draft: ChangeSet, name: str) -> str:
    return f"/changes/{draft.pk}/edit/{name}"


def numbers(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read(answer).one("#group-numbers").text())
    return found


def test_invisible_entries_are_combined_without_names(closed_grid: Grid, client: Client) -> None:
    grid, lead = closed_grid, User.objects.create_user("lead")
    make_grant(lead, grid.uid("/atlas"), at=clock.now())
    sign_in(client, lead)
    draft = draft_of(lead)
    answer = client.get(url(draft, "shares/"))
    found = numbers(answer)
    assert [row["name"] for row in found["rows"]] == ["atlas"]
    assert (found["rest"], found["rows"][0]["is_fixed"]) == (40, True)
    text = answer.content.decode()
    for path in ("/biomed", "/cms"):
        assert str(grid.uid(path)) not in text
    assert "biomed" not in text


def test_inherited_shares_have_no_segment_and_cannot_give_shares(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    draft = draft_of(grid.admin)
    fields = {"op": "set_shares", "entry": str(grid.uid("/cms")), "shares": "inherit", "version": "1"}
    client.post(url(draft, "_operation"), fields)
    found = numbers(client.get(url(draft, "shares/")))
    shares = {row["name"]: (row["shares"], row["target"]) for row in found["rows"]}
    assert shares["cms"] == (None, None)
    assert shares["atlas"] == (60, pytest.approx(60 / 92)), "dave and erin compete with one share each"
    assert (found["rest"], found["is_closed"]) == (2, False)


def test_an_added_entry_has_shares_and_no_usage(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    draft = draft_of(grid.admin)
    fields = {"op": "add", "parent": str(grid.uid("/")), "name": "dune", "kind": "vo", "shares": "50", "version": "1"}
    client.post(url(draft, "_operation"), fields)
    found = numbers(client.get(url(draft, "shares/")))
    added = next(row for row in found["rows"] if row["name"] == "dune")
    assert (added["shares"], added["shares_before"], added["actual"]) == (50, None, None)


def test_the_largest_two_hundred_are_shown_and_the_rest_is_counted(large_grid: Grid, client: Client) -> None:
    sign_in(client, large_grid.admin)
    draft = draft_of(large_grid.admin)
    answer = client.get(url(draft, "shares/"), {"group": str(large_grid.uid("/cms"))})
    found = numbers(answer)
    assert (len(found["rows"]), found["left_out"], found["rest"]) == (200, 52, 52)
    assert len(read(answer).all("#members tr[data-uid]")) == 200


def test_a_page_opens_at_the_group_of_an_entry_and_forms_lead_back(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    draft = draft_of(grid.admin)
    answer = client.get(url(draft, "shares/"), {"entry": str(grid.uid("/atlas/bob"))})
    assert [row["name"] for row in numbers(answer)["rows"]] == ["alice", "bob"]
    page = read(answer)
    back = page.one("#finish-form [name=back]").attributes["value"]
    assert back == f"group={grid.uid('/atlas')}"
    answer = client.post(url(draft, "_update"), {"version": "1", "back": back})
    assert (answer.status_code, answer["Location"]) == (303, url(draft, f"shares/?{back}"))
    assert client.get(url(draft, "shares/"), {"group": "no"}).status_code == 422
