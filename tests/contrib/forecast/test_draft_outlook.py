"""What a draft's group is predicted while shares are dragged: the forecast of each level."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.contrib.forecast.selectors import get_forecasts
from apps.core import clock
from apps.policies.models import ChangeSet
from apps.priorities.serving.lookup import AccountQuery
from tests.grants import make_grant
from tests.pages.changes.drafts.test_draft_shares import HTMX, draft_of, numbers, url
from tests.pages.grid import SLUG, Grid, send_mixed_days
from tests.sign_in import sign_in
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = pytest.mark.django_db


@pytest.fixture
def grid(open_grid: Grid) -> Grid:
    return open_grid


@pytest.fixture
def weeks(grid: Grid) -> Grid:
    """Twenty days of which each runs another mix."""
    send_mixed_days(grid)
    return grid


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


def test_the_prediction_names_no_invisible_entries(closed_grid: Grid, client: Client) -> None:
    lead = User.objects.create_user("lead")
    make_grant(lead, closed_grid.uid("/atlas"), at=clock.now())
    sign_in(client, lead)
    text = client.get(url(draft_of(lead), "_outlook"), {"lines": "1"}, headers=HTMX).content.decode()
    assert [
        name for name in ("biomed", str(closed_grid.uid("/biomed")), str(closed_grid.uid("/cms"))) if name in text
    ] == []


def test_an_added_entry_has_no_prediction(weeks: Grid, client: Client) -> None:
    sign_in(client, weeks.admin)
    draft = draft_of(weeks.admin)
    fields = {"op": "add", "parent": str(weeks.uid("/")), "name": "dune", "kind": "vo", "shares": "50", "version": "1"}
    client.post(url(draft, "_operation"), fields)
    added = next(row for row in numbers(client.get(url(draft, "shares/")))["rows"] if row["name"] == "dune")
    row = outlook(client, draft, lines="1")[added["uid"]]
    assert (row["outcome"], row["on_target"], "ahead" in row) == (None, "–", False)
