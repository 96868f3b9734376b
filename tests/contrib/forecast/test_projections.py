"""Projections that pages draw are the forecasts of the levels, for what the reader sees in full."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.actor import COMMAND, Actor
from apps.contrib.forecast import cached_forecasts
from apps.contrib.forecast.selectors import get_forecasts
from apps.core import clock
from apps.policies.models import Policy
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.priorities.projections import projections_of
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.serving.lookup import AccountQuery
from tests.pages.grid import SLUG, Grid, send_mixed_days
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = pytest.mark.django_db

USERS = {"/biomed": "carol", "/atlas": "alice", "/cms": "dave"}


@pytest.fixture
def weeks(open_grid: Grid) -> Grid:
    send_mixed_days(open_grid)
    return open_grid


def level_at(path: str) -> Any:
    (forecast,) = get_forecasts(policy_slug=SLUG, account=AccountQuery(USERS[path]), actor=COMMAND, at=clock.now())
    return next(level for level in forecast.levels if level.path == path), forecast.as_of


def open_as(actor: Actor, at: int | None = None) -> PolicyView:
    return open_view(policy_slug=SLUG, actor=actor, at=at)


def publish_shares(grid: Grid, path: str, shares: float) -> None:
    actor = Actor(grid.admin, "command")
    new = NewChangeSet(operations=[{"op": "set_shares", "entry": path, "shares": shares}], reason="Another share.")
    draft = make_change_set(policy_slug=SLUG, new=new, at=clock.now(), actor=actor)
    publish_change_set(id=draft.pk, version=draft.version, at=clock.now(), actor=actor)


def test_a_projection_is_the_forecast_of_the_level(weeks: Grid) -> None:
    projected = projections_of(open_as(COMMAND), [weeks.uid(path) for path in USERS])
    assert len(projected) == 3
    for path in USERS:
        level, as_of = level_at(path)
        projection, middle = projected[weeks.uid(path)], level.outlook.to_target.middle
        assert projection.outcome == middle.outcome
        assert projection.as_of == as_of
        assert projection.on_target_at == (as_of + timedelta(seconds=middle.in_s) if middle.in_s else None)
        assert list(projection.curve(30)) == list(level.curve(as_of, 30, 31))


def test_all_children_are_projected_with_as_many_queries_as_one(
    weeks: Grid, django_assert_max_num_queries: Any
) -> None:
    view = open_as(COMMAND)
    _ = view.shows_numbers
    with CaptureQueriesContext(connection) as alone:
        projections_of(view, [weeks.uid("/atlas")])
    cached_forecasts._forecasts.cache_clear()
    with django_assert_max_num_queries(len(alone)):
        projections_of(view, [weeks.uid(path) for path in USERS])


def test_a_newer_revision_is_projected_to_its_own_target(weeks: Grid) -> None:
    uid = weeks.uid("/biomed")
    assert projections_of(open_as(COMMAND), [uid])[uid].outcome == "not_at_this_pace"
    publish_shares(weeks, "/biomed", 65)
    projection = projections_of(open_as(COMMAND), [uid])[uid]
    assert (projection.outcome, projection.on_target_at) == ("on_target", None)


def test_what_a_reader_sees_as_a_sum_only_is_not_projected(weeks: Grid) -> None:
    Policy.objects.filter(slug=SLUG).update(visibility=Policy.Visibility.PATH)
    view = open_as(Actor(weeks.alice, "page"))
    uids = [weeks.uid(path) for path in USERS]
    assert set(projections_of(view, uids)) == {weeks.uid("/atlas")}


def test_the_past_is_not_projected(weeks: Grid) -> None:
    assert projections_of(open_as(COMMAND, at=1), [weeks.uid("/atlas")]) == {}
