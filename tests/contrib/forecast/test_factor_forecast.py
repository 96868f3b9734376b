"""The factor of the days to come, where one number of the whole path decides: against what is then recomputed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.forecast.api.forecasts import ForecastSerializer
from apps.contrib.forecast.entry_forecast import DAYS, FactorAhead
from apps.contrib.forecast.selectors import get_forecasts
from apps.priorities.models import Snapshot
from apps.priorities.recompute.pipeline import compute, load_inputs
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery
from tests.priority_site import AS_OF, PROJECTS, Site
from tests.worlds import forget_process

DAY_S = 86_400
FADING = {"length_s": 60 * DAY_S, "aging": "exponential", "half_life_s": 3 * DAY_S}
STEPS = {"length_s": 30 * DAY_S, "aging": "step", "granularity_s": DAY_S, "factor": 0.8}
RATIO = ("slurm-classic", "slurm-depth-oblivious")
USERS = (("alice", "physics", 2), ("bob", "physics", 4), ("carol", "biology", 3), ("dan", "biology", 1))


def _run(site: Site, from_days: float, to_days: float) -> None:
    """Steady usage of all users between two instants in days from now."""
    start_at, end_at = AS_OF + timedelta(days=from_days), AS_OF + timedelta(days=to_days)
    for user, group, cpus in USERS:
        site.job(user, group, cpus, ago_h=-to_days * 24, start_at=start_at, submit_at=start_at, end_at=end_at)


def _site(make_site: Any, algorithm: str, window: dict[str, Any], *, burst: float = 0.0) -> Site:
    """burst: core-hours that alice had used beside her steady use, long ago."""
    site: Site = make_site()
    site.publish(PROJECTS, {"window": window, "algorithm": {"name": algorithm}})
    site.map()
    _run(site, -14, 0)
    if burst:
        site.job("alice", "physics", burst, ago_h=15 * 24)
    site.recompute()
    store.poll()
    return site


def _ahead(site: Site, account: str = "alice") -> FactorAhead | None:
    (found,) = get_forecasts(policy_slug=site.slug, account=AccountQuery(account), actor=COMMAND, at=AS_OF)
    return found.factor_ahead


def _recomputed(site: Site, days: int, path: str) -> tuple[float, Any]:
    inputs = load_inputs(site.policy, as_of=AS_OF + timedelta(days=days))
    result = compute(inputs).result
    return float(result.factor[inputs.tree.index_of_path(path) or 0]), result


@pytest.mark.parametrize("window", [FADING, STEPS], ids=["exponential", "steps"])
@pytest.mark.parametrize("algorithm", [RATIO[0], pytest.param(RATIO[1], marks=pytest.mark.deep)])
def test_the_forecast_factor_equals_a_recompute_of_that_day(
    make_site: Any, algorithm: str, window: dict[str, Any]
) -> None:
    site = _site(make_site, algorithm, window, burst=900.0)
    result = {user: _ahead(site, user) for user, _group, _cpus in USERS}
    shown = {
        user: {point.days: point.factor for point in found.points}
        for user, found in result.items()
        if found is not None
    }
    assert set(shown) == set(result)
    assert shown["alice"][0] < shown["alice"][28], "what she used long ago counts less from day to day"
    gone = 0
    for days in (1, 10, 28):
        _run(site, gone, days)
        gone = days
        for user, group, _cpus in USERS:
            assert shown[user][days] == pytest.approx(_recomputed(site, days, f"/{group}/{user}")[0], rel=1e-9)


@pytest.mark.parametrize("algorithm", RATIO)
def test_the_forecast_starts_from_the_served_factor(make_site: Any, algorithm: str) -> None:
    site = _site(make_site, algorithm, FADING, burst=900.0)
    found = _ahead(site)
    assert found is not None
    by_day = {point.days: point for point in found.points}
    served = store.newest(site.slug).lookup([AccountQuery("alice")])[0]
    assert by_day[0].factor == served["factor"]
    assert by_day[7].at == AS_OF + timedelta(days=7)
    values_by_key = {one.key: one.values for one in found.messages}
    assert values_by_key["forecast.factor_goes"]["week_factor"] == by_day[7].factor
    assert values_by_key["forecast.factor_goes"]["month_factor"] == by_day[28].factor


@pytest.mark.parametrize("algorithm", RATIO)
def test_the_named_level_has_the_stated_usage(make_site: Any, algorithm: str) -> None:
    site = _site(make_site, algorithm, FADING, burst=900.0)
    found = _ahead(site)
    assert found is not None
    assert found.level is not None
    (result,) = [one.values for one in found.messages if one.key == "forecast.factor_by_level"]
    _run(site, 0, 28)
    _factor, then = _recomputed(site, 28, "/physics/alice")
    assert result["actual"] == pytest.approx(float(then.actual[found.level]), rel=1e-9)
    assert result["other_actual"] == float(store.newest(site.slug).values.actual[found.level])


def test_a_constant_factor_is_reported_as_constant(make_site: Any) -> None:
    site = _site(make_site, "slurm-classic", {"length_s": None, "aging": "none"})
    found = _ahead(site)
    assert found is not None
    assert [one.key for one in found.messages] == ["forecast.factor_stays"]
    assert [point.factor for point in found.points] == pytest.approx([found.points[0].factor] * (len(DAYS) + 1))


@pytest.mark.parametrize("algorithm", ["aequus", "slurm-fair-tree"])
def test_without_a_factor_by_distance_there_is_no_curve(make_site: Any, algorithm: str) -> None:
    site = _site(make_site, algorithm, FADING)
    assert _ahead(site) is None
    (found,) = get_forecasts(policy_slug=site.slug, account=AccountQuery("alice"), actor=COMMAND, at=AS_OF)
    assert ForecastSerializer(found).data["factor_ahead"] is None


def test_too_many_hours_are_reported(make_site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    site = _site(make_site, "slurm-classic", FADING)
    monkeypatch.setattr("apps.contrib.forecast.past_usage.MOST_FORECAST_BUCKETS", 3)
    forget_process()
    found = _ahead(site)
    assert found is not None
    assert found.points == ()
    assert [one.key for one in found.messages] == ["forecast.factor_too_many_hours"]


def test_json_has_points_with_their_sentence_and_nothing_is_stored(make_site: Any) -> None:
    site = _site(make_site, "slurm-depth-oblivious", FADING, burst=900.0)
    n_snapshots = Snapshot.objects.count()
    (found,) = get_forecasts(policy_slug=site.slug, account=AccountQuery("alice"), actor=COMMAND, at=AS_OF)
    result = ForecastSerializer(found).data["factor_ahead"]
    assert [point["days"] for point in result["points"]] == [0, *DAYS]
    assert result["level"] in ("/physics", "/physics/alice")
    assert result["sentence"] == " ".join(one["text"] for one in result["sentences"])
    assert Snapshot.objects.count() == n_snapshots
