"""When a level comes back to its target: pace of the last days, outcomes in words, and the snapshot's own numbers."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.contrib.forecast.entry_forecast import LevelState, Outlook, curve_of, forecast_level, with_target
from apps.contrib.forecast.past_usage import LevelPast
from apps.contrib.forecast.selectors import Forecast, curve_days, get_forecasts, get_my_forecasts, level_sentences
from apps.core.errors import Invalid, NotAllowed
from apps.engine.decay import Window, bucket_weights
from apps.engine.explain import History
from apps.engine.target_state import state_of
from apps.priorities.recompute.pipeline import compute, load_inputs
from apps.priorities.sentences import Message
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery
from tests.each_case import each_case
from tests.engine.explain.test_recovery import history
from tests.examples import examples
from tests.instants import AT
from tests.priority_site import AS_OF, PROJECTS, Site
from tests.worlds import forget_process

DAY_S = 86_400.0
WEEK = Window.of(aging="exponential", half_life_s=7 * DAY_S)
USUAL = Window.of(length_s=90 * DAY_S, aging="exponential", half_life_s=7 * DAY_S)


def _past(own: list[float], group: list[float], hours: History | None = None) -> LevelPast:
    return LevelPast(np.array(own, dtype=np.float64), np.array(group, dtype=np.float64), AT, tuple, hours)


def _standing(own: float, group: float, target: float) -> LevelState:
    return LevelState(own, group, target, max(0.1 * target, 0.005))


def _messages(outlook: Outlook, window_s: float | None = None) -> list[Message]:
    return list(level_sentences(outlook, name="physics", parent="grid", window_s=window_s, as_of=AT))


def _texts(outlook: Outlook, window_s: float | None = None) -> str:
    return " ".join(one.text for one in _messages(outlook, window_s))


def _keys(outlook: Outlook, window_s: float | None = None) -> list[str]:
    return [one.key for one in _messages(outlook, window_s)]


OVER = _standing(55.0, 100.0, 0.4)
STEADY = [8.0, 10.0, 12.0] * 9
PAST_WEEK = history(8, hours=168)
PAST_WEEK_END_S = float(PAST_WEEK.hour_start_s[-1] + 3600)


def test_an_entry_over_target_has_the_range_of_days_until_it_returns() -> None:
    found = forecast_level(OVER, _past([1.0, 1.25, 1.5] * 9, STEADY), WEEK, as_of_s=0.0)
    assert found.share == found.share_seen == pytest.approx(0.125)
    assert found.to_target.soonest.in_s is not None
    assert found.to_target.middle.in_s is not None
    assert found.to_target.latest.in_s is not None
    assert found.to_target.soonest.in_s < found.to_target.middle.in_s < found.to_target.latest.in_s
    (result, *_more) = _messages(found)
    assert result.values["in_s"] == pytest.approx(3 * DAY_S, rel=0.01), "55 of 100 fall to 44 %"
    assert result.values["soonest_s"] < result.values["in_s"] < result.values["latest_s"]
    assert result.text.startswith("physics is on target around 23 November (")
    assert _keys(found) == ["forecast.recovers"]


def test_without_usage_in_the_group_nothing_changes() -> None:
    found = forecast_level(OVER, _past([0.0] * 28, [0.0] * 28), WEEK, as_of_s=0.0)
    assert _texts(found) == (
        "grid had no usage on the 28 days before Fri 20 Nov 2026, 12:00\u00a0UTC. Without new usage physics stays at "
        "55.0\u00a0%; target 40.0\u00a0%."
    )
    unknown = forecast_level(OVER, _past([], []), WEEK, as_of_s=0.0)
    assert (unknown.is_known, _keys(unknown)) == (False, ["forecast.no_whole_day"])
    windowed = forecast_level(OVER, _past([0.0], [0.0]), USUAL, as_of_s=0.0)
    assert _keys(windowed, 90 * DAY_S) == ["forecast.never_within_window"]
    assert "90" in _texts(windowed, 90 * DAY_S), "days of the window"


@each_case("window", [WEEK, USUAL, Window(), Window.of(aging="step", granularity_s=DAY_S, factor=0.5)])
@each_case("n_active", [1, 2, 8, 13, 14, 15, 20, 28])
def test_the_date_follows_from_the_mean_however_few_days_have_usage(n_active: int, window: Window) -> None:
    """The same usage in 28 days, on few days or on all: one date, and its range holds it."""
    active = [280.0 / n_active] * n_active + [0.0] * (28 - n_active)
    every = forecast_level(OVER, _past([0.0] * 28, [10.0] * 28, PAST_WEEK), window, as_of_s=PAST_WEEK_END_S)
    found = forecast_level(OVER, _past([0.0] * 28, active, PAST_WEEK), window, as_of_s=PAST_WEEK_END_S)
    assert found.to_target.middle.in_s == pytest.approx(every.to_target.middle.in_s)
    in_s, soonest_s, latest_s = (getattr(found.to_target, name).in_s for name in ("middle", "soonest", "latest"))
    assert soonest_s <= in_s <= (latest_s or np.inf)
    assert {"n", "at"}.isdisjoint(_messages(found)[0].values), "no sentence of days without usage"


def test_at_or_above_its_target_pace_an_entry_does_not_return() -> None:
    found = forecast_level(OVER, _past([5.0] * 28, [10.0] * 28), WEEK, as_of_s=0.0)
    assert _keys(found) == ["forecast.not_at_this_pace"]
    assert _texts(found) == "physics stays over target for more than 90 days at the usual pace."


def test_on_target_means_within_tolerance_as_for_states() -> None:
    """A pace above the target itself, but within its tolerance: the day is that on which the state becomes `on`."""
    found = forecast_level(OVER, _past([1.0], [10.0]), WEEK, as_of_s=0.0, share=0.41)
    assert (found.share, found.share_seen) == (0.41, 0.1)
    assert _keys(found) == ["scenario.forecast.recovers_about"]
    in_s = found.to_target.middle.in_s
    assert in_s is not None
    tolerance = {"relative": 0.1, "points": 0.5}
    states = [
        state_of(target=0.4, actual=float(part), has_usage=True, has_demand=True, tolerance=tolerance)
        for part in np.interp(
            [in_s * 0.99 / 3600, in_s * 1.01 / 3600], found.course.hours, found.course.part(found.pace(10))
        )
    ]
    assert states == ["over", "on"]


def test_an_entry_under_target_has_the_date_until_which_it_runs_first() -> None:
    under = _standing(20.0, 100.0, 0.4)
    assert _keys(forecast_level(under, _past([7.0] * 28, STEADY), WEEK, as_of_s=0.0))[0].startswith(
        "forecast.gives_way"
    )
    stays = forecast_level(under, _past([1.0] * 28, STEADY), WEEK, as_of_s=0.0)
    assert _keys(stays) == ["forecast.stays_under"]


def test_on_target_or_in_an_unused_group_there_is_no_date() -> None:
    days = _past([4.0] * 28, [10.0] * 28)
    assert _keys(forecast_level(_standing(40.0, 100.0, 0.4), days, WEEK, as_of_s=0.0)) == ["forecast.on_target"]
    near = _keys(forecast_level(_standing(42.0, 100.0, 0.4), days, WEEK, as_of_s=0.0))
    assert near == ["forecast.on_target", "on.tolerance"], "within the tolerance, which is said"
    assert _keys(forecast_level(_standing(0.0, 0.0, 0.4), days, WEEK, as_of_s=0.0)) == ["forecast.nothing_used"]


def test_beyond_a_year_there_is_no_date() -> None:
    found = forecast_level(OVER, _past([0.0] * 28, [1e-6] * 28), Window(), as_of_s=0.0)
    assert found.to_target.middle.outcome == "not_within_horizon"
    assert _keys(found)[0] == "forecast.not_within_horizon"
    assert re.search(r"\b90\b", _texts(found)), "days that are looked ahead"


STEPS = Window.of(length_s=90 * DAY_S, aging="step", granularity_s=DAY_S, factor=0.9)


@pytest.mark.parametrize("window", [WEEK, USUAL, Window(), STEPS], ids=["endless", "usual", "no aging", "steps"])
@examples(25)
@given(seed=st.integers(0, 10**6), first=st.floats(0.0, 1.0), then=st.floats(0.0, 1.0))
def test_a_scenario_target_equals_a_forecast_with_that_target(
    window: Window, seed: int, first: float, then: float
) -> None:
    past = history(seed, hours=400)
    as_of_s = float(past.hour_start_s[-1] + 3600)
    own, group = float(past.own_usage.sum()), float(past.group_usage.sum())
    days = _past([own / 30] * 14, [group / 25] * 14, past)
    changed = with_target(
        forecast_level(_standing(own, group, first), days, window, as_of_s=as_of_s),
        target=then,
        slack=max(0.1 * then, 0.005),
    )
    wanted = forecast_level(_standing(own, group, then), days, window, as_of_s=as_of_s)
    assert (changed.state, changed.method) == (wanted.state, wanted.method)
    assert changed.to_target == wanted.to_target
    at = datetime.fromtimestamp(as_of_s, AS_OF.tzinfo)
    assert curve_of(changed, at, days=30) == curve_of(wanted, at, days=30), "no target changes what is used"


@examples(30)
@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 0.35), rate=st.floats(5e4, 5e6))
def test_a_window_with_little_weight_at_its_end_has_an_exact_closed_form(seed: int, share: float, rate: float) -> None:
    past = history(seed, hours=2000)
    as_of_s = float(past.hour_start_s[-1] + 3600)
    weight = bucket_weights(past.hour_start_s, as_of_s, USUAL)
    standing = _standing(float(weight @ past.own_usage), float(weight @ past.group_usage), 0.4)
    days = _past([share * rate], [rate], past)
    closed = forecast_level(standing, days, USUAL, as_of_s=as_of_s)
    # The window by a decay function without a closed form: one step an hour, equal to the half-life's.
    stepped = Window.of(length_s=90 * DAY_S, aging="step", granularity_s=3600, factor=2 ** (-1 / 168))
    hourly = forecast_level(standing, days, stepped, as_of_s=as_of_s)
    assert (closed.method, hourly.method) == ("closed_form", "hour_by_hour")
    one, other = closed.to_target.middle, hourly.to_target.middle
    assume(one.in_s is None or one.in_s < 80 * DAY_S)
    if one.in_s is not None:
        assert other.in_s == pytest.approx(one.in_s, rel=0.01, abs=60)


def test_a_window_without_a_closed_form_is_simulated_by_hour() -> None:
    """All of the own usage was on one day; when that leaves the window of ten days, the excess is gone."""
    starts = np.arange(10 * 24, dtype=np.float64) * 3600
    own = np.where((starts >= 2 * DAY_S) & (starts < 3 * DAY_S), 10.0, 0.0)
    past = History(starts, own, own + 1.0)
    window = Window(length_s=10 * DAY_S)
    standing = _standing(float(own.sum()), float((own + 1).sum()), 0.3)
    found = forecast_level(standing, _past([0.0], [24.0], past), window, as_of_s=10 * DAY_S)
    assert found.method == "hour_by_hour"
    assert found.to_target.middle.in_s is not None
    assert 2 * DAY_S < found.to_target.middle.in_s < 3 * DAY_S + 7200


def test_the_curve_starts_at_the_current_value_and_stays_in_its_range() -> None:
    found = forecast_level(OVER, _past([1.0, 2.0, 3.0], [5.0, 10.0, 20.0]), WEEK, as_of_s=0.0)
    points = curve_of(found, AS_OF, days=14)
    first = points[0]
    assert first.likely == first.least == first.most == pytest.approx(0.55)
    assert points[-1].at == AS_OF + timedelta(days=14)
    for point in points:
        assert point.least <= point.p25 <= point.likely <= point.p75 <= point.most
    middle_s = found.to_target.middle.in_s
    assert middle_s is not None
    hours = [(point.at - AS_OF).total_seconds() for point in points]
    assert np.interp(middle_s, hours, [point.likely for point in points]) == pytest.approx(0.44, abs=0.005)


FADING = {"window": {"length_s": None, "aging": "exponential", "half_life_s": 3 * 86_400}}


def _forecast(site: Site, account: str = "alice", **more: Any) -> Forecast:
    (found,) = get_forecasts(policy_slug=site.slug, account=AccountQuery(account), actor=COMMAND, at=AS_OF, **more)
    return found


@pytest.fixture
def steady(make_site: Any) -> Site:
    """Ten days: alice two core-hours an hour, bob one, carol three; before that alice ran much."""
    site: Site = make_site()
    site.publish(PROJECTS, FADING)
    site.map()
    _run(site, AS_OF - timedelta(days=10), AS_OF)
    site.job("alice", "physics", 3000, ago_h=26)
    site.recompute()
    store.poll()
    return site


def _run(site: Site, start_at: datetime, end_at: datetime) -> None:
    for user, group, cpus in (("alice", "physics", 2), ("bob", "physics", 1), ("carol", "biology", 3)):
        site.job(
            user, group, cpus, ago_h=(AS_OF - end_at).total_seconds() / 3600, start_at=start_at, submit_at=start_at
        )


def test_levels_start_at_the_snapshot_and_continue_at_their_pace(steady: Site) -> None:
    found = _forecast(steady)
    values, tree = found.snapshot.values, found.snapshot.tree
    assert [level.path for level in found.levels] == ["/physics", "/physics/alice"]
    for level in found.levels:
        assert level.outlook is not None
        assert level.actual == pytest.approx(float(values.actual[level.entry]))
        assert level.target == pytest.approx(float(values.target[level.entry]))
        assert level.n_days == 10
    physics = found.levels[0].outlook
    assert physics is not None
    assert physics.daily_group[0] == pytest.approx(6 * 24 * 3600)
    assert physics.share == pytest.approx((3 * 240 + 3000) / (6 * 240 + 3000))
    assert tree.path(found.levels[0].entry) == "/physics"


def test_the_forecast_equals_the_later_recompute(steady: Site) -> None:
    """At a given share, and days of that: the engine turns when it was said to."""
    found = _forecast(steady, share=0.5)
    physics = found.levels[0]
    assert physics.outlook is not None
    middle = physics.outlook.to_target.middle
    assert middle.in_s is not None
    days = middle.in_s / DAY_S
    _run(steady, AS_OF, AS_OF + timedelta(days=2 * days))
    over = {}
    for hours in (int(days * 24 * 0.98), int(days * 24 * 1.02) + 2):
        inputs = load_inputs(steady.policy, as_of=AS_OF + timedelta(hours=hours))
        result = compute(inputs).result
        i = inputs.tree.index_of_path("/physics") or 0
        over[hours] = result.actual[i] > result.target[i] + physics.outlook.state.slack
    assert list(over.values()) == [True, False]


def test_the_curve_covers_days_before_to_after_the_recovery(steady: Site) -> None:
    level = _forecast(steady, share=0.2).levels[0]
    assert level.outlook is not None
    middle_s = level.outlook.to_target.latest.in_s
    assert middle_s is not None
    assert curve_days(level) * DAY_S > middle_s
    assert [at for at, _ in level.past_shares] == sorted(at for at, _ in level.past_shares)
    assert all(at < AS_OF for at, _ in level.past_shares)
    assert level.past_shares[0][1] == pytest.approx(0.5)  # three of six, before the big day
    assert level.past_shares[-1][1] > 0.9


def test_another_pace_changes_the_forecast_and_an_invalid_one_is_refused(steady: Site) -> None:
    def days(share: float) -> float:
        level = _forecast(steady, share=share).levels[0]
        assert level.outlook is not None
        found = level.outlook.to_target.middle.in_s
        assert found is not None
        return found

    assert days(0.1) < days(0.4)
    for share in (-0.1, 1.5, float("nan"), float("inf")):
        with pytest.raises(Invalid) as refused:
            _forecast(steady, share=share)
        assert refused.value.fields[0].where == "share"


def test_running_jobs_count_in_the_pace_if_they_count_as_usage(make_site: Any) -> None:
    shares = {}
    for approach in ("historical", "active"):
        site: Site = make_site(f"p{approach}")
        both = {"approach": {"local": approach, "global": approach}}
        site.publish(PROJECTS, {**FADING, **both})
        site.map()
        site.job("carol", "biology", 24, ago_h=2)
        site.running("alice", "physics", cpus=10, since_h=30)
        site.recompute()
        store.poll()
        level = _forecast(site).levels[0]
        assert level.outlook is not None
        shares[approach] = level.outlook.share
    assert shares["historical"] == 0.0
    assert shares["active"] > 0.8


def test_adjustments_change_the_balance_but_not_the_pace(steady: Site) -> None:
    """What the snapshot counts is where the curve begins, whatever it is made of."""
    level = _forecast(steady).levels[1]
    assert level.outlook is not None
    assert level.outlook.course.part(level.outlook.paces[2])[0] == pytest.approx(level.actual)


def test_users_see_only_forecasts_of_their_accounts(make_site: Any) -> None:
    site: Site = make_site(visibility="path")
    site.publish(PROJECTS, FADING)
    site.map()
    site.job("alice", "physics", 40)
    site.job("carol", "biology", 45)
    site.recompute()
    store.poll()
    alice = Actor(user=User.objects.create_user("alice"), via="page")
    (mine,) = get_my_forecasts(actor=alice, at=AS_OF)
    assert [level.path for level in mine.levels] == ["/physics", "/physics/alice"]
    asked = get_forecasts(policy_slug=site.slug, account=AccountQuery("carol"), actor=alice, at=AS_OF)
    assert asked == []
    with pytest.raises(NotAllowed):
        get_my_forecasts(actor=COMMAND, at=AS_OF)


def test_an_unknown_account_has_no_forecast(steady: Site) -> None:
    unknown = AccountQuery(f"nobody-{uuid4()}")
    assert get_forecasts(policy_slug=steady.slug, account=unknown, actor=COMMAND, at=AS_OF) == []


def test_too_many_hours_are_reported_and_not_read(steady: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.contrib.forecast.past_usage.MOST_FORECAST_BUCKETS", 10)
    forget_process()
    found = _forecast(steady)
    assert not found.has_days
    assert [one.key for level in found.levels for one in level.messages] == ["forecast.no_days"] * 2
