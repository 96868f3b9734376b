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
BARS = {"view": "bars"}


def draft_of(user: User) -> ChangeSet:
    return drafts.open_draft(policy_slug=SLUG, at=clock.now(), actor=Actor(user=user, via="page"))


def url(draft: ChangeSet, name: str = "") -> str:
    return f"/changes/{draft.pk}/edit/{name}"


def numbers(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read(answer).one("#group-numbers").text())
    return found


def test_invisible_entries_are_combined_without_names(closed_grid: Grid, client: Client) -> None:
    grid, lead = closed_grid, User.objects.create_user("lead")
    make_grant(lead, grid.uid("/atlas"), at=clock.now())
    sign_in(client, lead)
    draft = draft_of(lead)
    answer = client.get(url(draft), BARS)
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
    found = numbers(client.get(url(draft), BARS))
    shares = {row["name"]: (row["shares"], row["target"]) for row in found["rows"]}
    assert shares["cms"] == (None, None)
    assert shares["atlas"] == (60, pytest.approx(60 / 92)), "dave and erin compete with one share each"
    assert (found["rest"], found["is_closed"]) == (2, False)


def test_an_added_entry_has_shares_and_no_usage(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    draft = draft_of(grid.admin)
    fields = {"op": "add", "parent": str(grid.uid("/")), "name": "dune", "kind": "vo", "shares": "50", "version": "1"}
    client.post(url(draft, "_operation"), fields)
    found = numbers(client.get(url(draft), BARS))
    added = next(row for row in found["rows"] if row["name"] == "dune")
    assert (added["shares"], added["shares_before"], added["actual"]) == (50, None, None)


def test_the_largest_two_hundred_are_shown_and_the_rest_is_counted(large_grid: Grid, client: Client) -> None:
    sign_in(client, large_grid.admin)
    draft = draft_of(large_grid.admin)
    answer = client.get(url(draft), {**BARS, "group": str(large_grid.uid("/cms"))})
    found = numbers(answer)
    assert (len(found["rows"]), found["left_out"], found["rest"]) == (200, 52, 52)
    assert len(read(answer).all("#members tr[data-uid]")) == 200


def test_a_page_opens_at_the_group_of_an_entry_and_forms_lead_back(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    draft = draft_of(grid.admin)
    bob, atlas = str(grid.uid("/atlas/bob")), str(grid.uid("/atlas"))
    answer = client.get(url(draft), {**BARS, "entry": bob})
    assert [row["name"] for row in numbers(answer)["rows"]] == ["alice", "bob"]
    page = read(answer)
    assert (page.text("#picked-name"), page.one("#picked-shares").attributes["value"]) == ("bob", "1")
    back = page.one("#finish-form [name=back]").attributes["value"]
    assert back == f"view=bars&entry={bob}&group={atlas}"
    answer = client.post(url(draft, "_update"), {"version": "1", "back": back})
    assert (answer.status_code, answer["Location"]) == (303, f"{url(draft)}?{back}")
    assert client.get(url(draft), {"group": "no"}).status_code == 422


def test_three_views_show_one_draft_and_link_to_each_other_with_the_same_entry(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    draft, bob = draft_of(grid.admin), str(grid.uid("/atlas/bob"))
    fields = {"op": "set_shares", "entry": bob, "shares": "3", "version": "1"}
    client.post(url(draft, "_operation"), fields)
    for view in ("tree", "bars", "treemap"):
        page = read(client.get(url(draft), {"view": view, "entry": bob}))
        assert page.each("#views [aria-current=true]", "data-view") == [view]
        assert all(f"entry={bob}" in link for link in page.each("#views a", "href"))
        assert page.one(f"#s-{bob}").attributes["value"] == "3"
        assert page.text("#picked-facts [data-fact=target]") == "50.00 to 75.00 %"
        assert page.has("#finish-publish")


def test_publishing_without_a_reason_stays_in_its_view(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    draft, atlas = draft_of(grid.admin), str(grid.uid("/atlas"))
    client.post(url(draft, "_operation"), {"op": "set_shares", "entry": atlas, "shares": "3", "version": "1"})
    for view in ("tree", "bars", "treemap"):
        sent = {"version": "2", "step": "publish", "reason": " ", "back": f"view={view}&entry={atlas}"}
        page = read(client.post(url(draft, "_finish"), sent), 422)
        assert page.one("#editor").attributes["data-view"] == view
        assert page.text("#reason-problem") == "Enter a reason to publish."
        assert {"aria-invalid", "autofocus"} <= set(page.one("#id_reason").attributes)
        assert page.error_codes() == ["reason_missing"]
        assert not page.has("#refused")
