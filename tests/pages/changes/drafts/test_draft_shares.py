"""Shares of one group by request: which numbers go to the page, to whom, and that the prediction is the forecast."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.contrib.forecast.selectors import get_forecasts
from apps.core import clock
from apps.policies.changesets import drafts
from apps.policies.models import ChangeSet
from apps.priorities.serving.lookup import AccountQuery
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid, send_mixed_days
from tests.pages.page import read
from tests.sign_in import sign_in

HTMX = {"HX-Request": "true"}


@pytest.fixture
def weeks(grid: Grid) -> Grid:
    """Twenty days of which each runs another mix."""
    send_mixed_days(grid)
    return grid


def draft_of(user: User) -> ChangeSet:
    return drafts.open_draft(policy_slug=SLUG, at=clock.now(), actor=Actor(user=user, via="page"))


def url(draft: ChangeSet, name: str) -> str:
    return f"/changes/{draft.pk}/edit/{name}"


def numbers(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read(answer).one("#group-numbers").text())
    return found


def outlook(client: Client, draft: ChangeSet, **asked: str) -> dict[str, dict[str, Any]]:
    answer = client.get(url(draft, "_outlook"), asked, headers=HTMX)
    assert answer.status_code == 200, answer.content
    return {row["uid"]: row for row in answer.json()["rows"]}


def forecast_of(path: str) -> Any:
    """Of a level on the way to a user below it."""
    user = {"/biomed": "carol", "/atlas": "alice", "/cms": "dave"}[path]
    (found,) = get_forecasts(policy_slug=SLUG, account=AccountQuery(user), actor=COMMAND, at=clock.now())
    return next(level for level in found.levels if level.path == path), found.as_of


def test_the_prediction_is_the_forecast_of_each_level(weeks: Grid, client: Client) -> None:
    sign_in(client, weeks.admin)
    rows = outlook(client, draft_of(weeks.admin), group=str(weeks.uid("/")), lines="1")
    assert len(rows) == 3
    for path in ("/atlas", "/biomed", "/cms"):
        level, as_of = forecast_of(path)
        row = rows[str(weeks.uid(path))]
        wanted = level.outlook.to_target.middle
        assert row["target"] == pytest.approx(level.target, abs=1e-15)
        assert row["in_s"] == wanted.in_s, path
        assert row["outcome"] == wanted.outcome
        assert row["ahead"] == [round(point.likely, 6) for point in level.curve(as_of, 30, 31)]
        assert [part for _day, part in row["so_far"]] == [round(part, 6) for _at, part in level.past_shares[-14:]]
    assert len({row["in_s"] for row in rows.values()}) > 1


def test_the_prediction_of_a_drop_equals_the_forecast_after_publishing(weeks: Grid, client: Client) -> None:
    sign_in(client, weeks.admin)
    draft, root, uid = draft_of(weeks.admin), str(weeks.uid("/")), str(weeks.uid("/biomed"))
    dropped = {"op": "set_shares", "entry": uid, "shares": "65", "mode": "shares"}
    tried = outlook(client, draft, group=root, **dropped)
    assert tried[uid]["target"] == pytest.approx(65 / 135)
    draft.refresh_from_db()
    assert (draft.operations, draft.version) == ([], 1), "asking changes nothing"
    unchanged = outlook(client, draft, group=root)
    assert unchanged[uid]["target"] == pytest.approx(0.3)
    assert (unchanged[uid]["outcome"], tried[uid]["outcome"]) == ("not_at_this_pace", "on_target")
    client.post(url(draft, "_operation"), {**dropped, "version": "1"}, headers=HTMX)
    assert outlook(client, draft, group=root) == tried
    client.post(url(draft, "_finish"), {"version": "2", "step": "publish", "reason": "More for biomed."})
    weeks.recompute()
    for path in ("/atlas", "/biomed", "/cms"):
        level, _as_of = forecast_of(path)
        wanted = level.outlook.to_target.middle
        assert tried[str(weeks.uid(path))]["in_s"] == pytest.approx(wanted.in_s)


def test_an_impossible_operation_is_refused_without_a_prediction(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    draft = draft_of(grid.admin)
    answer = client.get(
        url(draft, "_outlook"), {"op": "set_shares", "entry": str(grid.uid("/cms")), "shares": "-1"}, headers=HTMX
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "negative")
    assert client.get(url(draft, "_outlook")).status_code == 303


def test_invisible_entries_are_combined_without_names(closed_grid: Grid, client: Client) -> None:
    grid, lead = closed_grid, User.objects.create_user("lead")
    make_grant(lead, grid.uid("/atlas"), at=clock.now())
    sign_in(client, lead)
    draft = draft_of(lead)
    answer = client.get(url(draft, "shares/"))
    found = numbers(answer)
    assert [row["name"] for row in found["rows"]] == ["atlas"]
    assert (found["rest"], found["rows"][0]["is_fixed"]) == (40, True)
    text = answer.content.decode() + client.get(url(draft, "_outlook"), {"lines": "1"}, headers=HTMX).content.decode()
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


def test_a_draft_adds_an_entry_that_has_no_prediction(weeks: Grid, client: Client) -> None:
    sign_in(client, weeks.admin)
    draft = draft_of(weeks.admin)
    fields = {"op": "add", "parent": str(weeks.uid("/")), "name": "dune", "kind": "vo", "shares": "50", "version": "1"}
    client.post(url(draft, "_operation"), fields)
    found = numbers(client.get(url(draft, "shares/")))
    added = next(row for row in found["rows"] if row["name"] == "dune")
    assert (added["shares"], added["shares_before"], added["actual"]) == (50, None, None)
    row = outlook(client, draft, lines="1")[added["uid"]]
    assert (row["outcome"], row["on_target"], "ahead" in row) == (None, "–", False)


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
