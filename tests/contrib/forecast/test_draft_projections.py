"""The day on target of entries whose shares are edited: that of the forecast of each level."""

from __future__ import annotations

from datetime import datetime, timedelta
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
from tests.pages.changes.drafts.test_draft_shares import BARS, HTMX, draft_of, numbers, url
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


def effect_on(client: Client, draft: ChangeSet, **asked: str) -> dict[str, dict[str, Any]]:
    answer = client.get(url(draft, "_effect"), asked, headers=HTMX)
    assert answer.status_code == 200, answer.content
    return {row["uid"]: row for row in answer.json()["rows"]}


def forecast_of(path: str) -> Any:
    """Of a level on the way to a user below it."""
    user = {"/biomed": "carol", "/atlas": "alice", "/cms": "dave"}[path]
    (found,) = get_forecasts(policy_slug=SLUG, account=AccountQuery(user), actor=COMMAND, at=clock.now())
    return next(level for level in found.levels if level.path == path), found.as_of


def instant_of(recovery: Any, as_of: datetime) -> str | None:
    return (as_of + timedelta(seconds=recovery.in_s)).isoformat() if recovery.in_s else None


def test_the_prediction_is_the_forecast_of_each_level(weeks: Grid, client: Client) -> None:
    sign_in(client, weeks.admin)
    rows = effect_on(client, draft_of(weeks.admin), group=str(weeks.uid("/")))
    assert len(rows) == 3
    for path in ("/atlas", "/biomed", "/cms"):
        level, as_of = forecast_of(path)
        row = rows[str(weeks.uid(path))]
        wanted = level.outlook.to_target.middle
        assert row["target"] == pytest.approx(level.target, abs=1e-15)
        assert row["on_target_at"] == instant_of(wanted, as_of), path
        assert row["outcome"] == wanted.outcome
    assert len({row["on_target"] for row in rows.values()}) > 1


def test_the_prediction_of_a_drop_equals_the_forecast_after_publishing(weeks: Grid, client: Client) -> None:
    sign_in(client, weeks.admin)
    draft, root, uid = draft_of(weeks.admin), str(weeks.uid("/")), str(weeks.uid("/biomed"))
    dropped = {"op": "set_shares", "entry": uid, "shares": "65", "mode": "shares"}
    tried = effect_on(client, draft, group=root, **dropped)
    assert tried[uid]["target"] == pytest.approx(65 / 135)
    draft.refresh_from_db()
    assert (draft.operations, draft.version) == ([], 1), "asking changes nothing"
    unchanged = effect_on(client, draft, group=root)
    assert unchanged[uid]["target"] == pytest.approx(0.3)
    assert (unchanged[uid]["outcome"], tried[uid]["outcome"]) == ("not_at_this_pace", "on_target")
    client.post(url(draft, "_operation"), {**dropped, "version": "1"}, headers=HTMX)
    assert effect_on(client, draft, group=root) == tried
    client.post(url(draft, "_finish"), {"version": "2", "step": "publish", "reason": "More for biomed."})
    weeks.recompute()
    for path in ("/atlas", "/biomed", "/cms"):
        level, level_as_of = forecast_of(path)
        wanted = level.outlook.to_target.middle
        row = tried[str(weeks.uid(path))]
        assert row["outcome"] == wanted.outcome
        at = row["on_target_at"]
        in_s = (datetime.fromisoformat(at) - level_as_of).total_seconds() if at else wanted.in_s
        assert in_s == pytest.approx(wanted.in_s)


def test_an_impossible_operation_is_refused_without_a_prediction(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    draft = draft_of(grid.admin)
    answer = client.get(
        url(draft, "_effect"), {"op": "set_shares", "entry": str(grid.uid("/cms")), "shares": "-1"}, headers=HTMX
    )
    assert (answer.status_code, [*answer.json()], answer.json()["code"]) == (200, ["problem", "code"], "negative")
    assert client.get(url(draft, "_effect")).status_code == 303


def test_the_prediction_names_no_invisible_entries(closed_grid: Grid, client: Client) -> None:
    lead = User.objects.create_user("lead")
    make_grant(lead, closed_grid.uid("/atlas"), at=clock.now())
    sign_in(client, lead)
    text = client.get(
        url(draft_of(lead), "_effect"), {"group": str(closed_grid.uid("/"))}, headers=HTMX
    ).content.decode()
    assert [
        name for name in ("biomed", str(closed_grid.uid("/biomed")), str(closed_grid.uid("/cms"))) if name in text
    ] == []


def test_an_added_entry_has_no_prediction(weeks: Grid, client: Client) -> None:
    sign_in(client, weeks.admin)
    draft = draft_of(weeks.admin)
    fields = {"op": "add", "parent": str(weeks.uid("/")), "name": "dune", "kind": "vo", "shares": "50", "version": "1"}
    client.post(url(draft, "_operation"), fields)
    added = next(row for row in numbers(client.get(url(draft), BARS))["rows"] if row["name"] == "dune")
    row = effect_on(client, draft, rows=added["uid"])[added["uid"]]
    assert (row["outcome"], row["on_target_at"], row["on_target"]) == (None, None, "–")
