"""Goals by REST: the numbers of the page, and operations that a change set takes as they are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from apps.core import clock
from tests.rest_site import refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

GOAL = "/api/v1/policies/grid/goal"
pytestmark = pytest.mark.django_db


def _get(site: Site, **asked: str) -> Any:
    cache.clear()
    token = site.token("policies:read", user=site.admin)
    return Client().get(GOAL, asked, headers={"authorization": f"Bearer {token}"})


def test_an_option_has_numbers_and_operations(computed: Site) -> None:
    by = (clock.now() + timedelta(days=7)).date().isoformat()
    answer = _get(computed, entry="/physics", by=by, most_lost="60")
    assert answer.status_code == 200
    found = answer.json()
    assert (found["path"], found["entry"]) == ("/physics", "/physics"), "the old name, for a year"
    assert found["assumes"]["demand_days"] == 14
    assert found["is_possible"]
    for option in found["options"]:
        assert option["is_reached"]
        assert option["outside_points"] == 0
        assert option["most_lost_points"] <= 60
        assert {one["op"] for one in option["operations"]} <= {"set_shares", "adjust_usage", "set_policy"}


def test_wrong_goals_are_refused_with_their_fields(computed: Site) -> None:
    assert refused(_get(computed, entry="/physics", by="2001-01-01")) == (422, "past", ["by"])
    assert refused(_get(computed, entry="/physics", by="tomorrow")) == (400, "bad_goal", ["by"])
    assert _get(computed, entry="/nothing", by="2030-01-01").status_code in {400, 404}
