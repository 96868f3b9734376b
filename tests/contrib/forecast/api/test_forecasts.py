"""Forecasts by REST: numbers with their sentences, own accounts, and absurd questions answered."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.rest_site import refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

FORECAST = "/api/v1/policies/grid/forecast"
pytestmark = pytest.mark.django_db


def _get(site: Site, path: str, user: Any = None, *scopes: str) -> Any:
    token = site.token(*(scopes or ("self:read", "policies:read")), user=user or site.admin)
    return Client().get(path, headers={"authorization": f"Bearer {token}"})


def test_levels_have_numbers_outcomes_and_sentences_by_key(computed: Site) -> None:
    answer = _get(computed, f"{FORECAST}?account=alice")
    assert answer.status_code == 200
    (found,) = answer.json()["results"]
    assert [level["path"] for level in found["levels"]] == ["/physics", "/physics/alice"]
    for level in found["levels"]:
        assert set(level["to_target"]) == {"soonest", "middle", "latest"}
        assert level["daily_usage"]["least"] <= level["daily_usage"]["p50"] <= level["daily_usage"]["most"]
        (result, *_more) = level["sentences"]
        assert result["key"].startswith("forecast.")
        assert result["text"] in level["sentence"]
        assert {"name", "target", "actual"} <= set(result["values"])
    assert found["curve"][0]["at"] == found["as_of"]
    assert len(found["curve"]) > 10


def test_another_pace_is_a_parameter_and_an_impossible_one_is_refused(computed: Site) -> None:
    (found,) = _get(computed, f"{FORECAST}?account=alice&share=0.1").json()["results"]
    assert [level["share"] for level in found["levels"]] == [0.1, 0.1]
    assert found["levels"][0]["share_seen"] == pytest.approx(0.7)
    for share in ("2", "-1", "NaN", "1e999", "much"):
        answer = _get(computed, f"{FORECAST}?account=alice&share={share}")
        assert refused(answer) == (400, "invalid", ["share"]), share


def test_me_lists_only_own_accounts(computed: Site) -> None:
    (mine,) = _get(computed, "/api/v1/me/forecast", computed.alice, "self:read").json()["results"]
    assert (mine["account"], mine["path"]) == ("alice", "/physics/alice")
    assert _get(computed, f"{FORECAST}?account=bob", computed.alice, "self:read").json() == {"results": []}
    assert "bob" not in _get(computed, "/api/v1/me/forecast", computed.alice, "self:read").content.decode()


def test_unknown_accounts_and_parameters_are_refused(computed: Site) -> None:
    assert _get(computed, f"{FORECAST}?account=nobody-here").json() == {"results": []}
    assert _get(computed, f"{FORECAST}?account=alice&shares=1").status_code == 400
    assert _get(computed, FORECAST).status_code == 400
