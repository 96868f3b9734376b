"""Forecasts and suppositions by REST: numbers with their sentences, own accounts, and absurd questions answered."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from apps.priorities.models import Snapshot
from tests.rest_site import refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

FORECAST = "/api/v1/policies/grid/forecast"
WHAT_IF = "/api/v1/policies/grid/what-if"
pytestmark = pytest.mark.django_db


def _get(site: Site, path: str, user: Any = None, *scopes: str) -> Any:
    token = site.token(*(scopes or ("self:read", "policies:read")), user=user or site.admin)
    return Client().get(path, headers={"authorization": f"Bearer {token}"})


def test_levels_have_numbers_outcomes_and_sentences_by_key(computed: Site) -> None:
    answer = _get(computed, f"{FORECAST}?account=alice")
    assert answer.status_code == 200
    (found,) = answer.json()["results"]
    assert [level["entry"] for level in found["levels"]] == ["/physics", "/physics/alice"]
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
    assert (mine["account"], mine["entry"]) == ("alice", "/physics/alice")
    assert _get(computed, f"{FORECAST}?account=bob", computed.alice, "self:read").json() == {"results": []}
    assert "bob" not in _get(computed, "/api/v1/me/forecast", computed.alice, "self:read").content.decode()


def test_a_scenario_is_returned_with_the_current_values_and_not_stored(computed: Site) -> None:
    n_snapshots = Snapshot.objects.count()
    body = _get(computed, f"{WHAT_IF}?account=alice&core_h=5000&days=3").json()
    assert body["is_estimate"] is True
    assert body["supposed"] == {"core_h": 5000.0, "days": 3.0, "load": 1.0, "level": None, "target": None}
    assert body["with"]["then"]["rank"] >= body["without"]["then"]["rank"]
    assert body["with"]["now"] == body["without"]["now"]
    assert Snapshot.objects.count() == n_snapshots
    raised = _get(computed, f"{WHAT_IF}?account=alice&level=/physics/alice&target=99").json()
    assert raised["with"]["now"]["rank"] <= raised["without"]["now"]["rank"]


@pytest.mark.parametrize(
    ("asked", "status", "where"),
    [
        ("core_h=-1", 400, "core_h"),
        ("core_h=1e300", 400, "core_h"),
        ("core_h=NaN", 400, "core_h"),
        ("core_h=much", 400, "core_h"),
        ("days=10000", 400, "days"),
        ("load=-3", 400, "load"),
        ("target=101", 400, "target"),
        ("target=5&level=/biology", 422, "level"),
    ],
)
def test_impossible_numbers_are_answered_with_the_possible_range(
    computed: Site, asked: str, status: int, where: str
) -> None:
    cache.clear()
    answer = _get(computed, f"{WHAT_IF}?account=alice&{asked}")
    assert refused(answer) == (status, "impossible", [where])
    assert "must be" in answer.json()["detail"]


def test_unknown_accounts_and_parameters_are_refused(computed: Site) -> None:
    assert _get(computed, f"{WHAT_IF}?account=nobody-here").status_code == 404
    assert _get(computed, f"{FORECAST}?account=nobody-here").json() == {"results": []}
    assert _get(computed, f"{FORECAST}?account=alice&shares=1").status_code == 400
    assert _get(computed, FORECAST).status_code == 400


def test_too_many_requests_per_minute_are_refused(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    monkeypatch.setattr("apps.contrib.forecast.what_if.trial.MOST_A_MINUTE", 1)
    assert _get(computed, f"{WHAT_IF}?account=alice").status_code == 200
    answer = _get(computed, f"{WHAT_IF}?account=alice")
    assert (answer.status_code, answer.json()["code"]) == (429, "too_often")
    assert int(answer["Retry-After"]) > 0
    cache.clear()
