"""ShareMethod, judging and measuring of shares day by day, on series made by hand."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import date, timedelta
from math import inf, isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import Invalid, Malformed
from apps.series.convergence.periods import (
    MOST_CONVERGENCE_DAYS,
    Period,
    available_days_text,
    default_period,
    read_period,
    whole_period,
)
from apps.series.convergence.query import BEFORE_ENTRY, select_days, select_entries
from apps.series.convergence.share_methods import (
    ShareMethod,
    actual_share,
    read_share_method,
    target_share,
    visible_windows,
)
from apps.series.convergence.verdict import (
    Shares,
    assess_entries,
    day_states,
    half_band,
    half_times_of,
    has_the_only_demand,
    measure,
    verdict,
    verdict_of_one,
)
from apps.series.daily_series import DailySeries, SeriesDays, SeriesState
from tests.examples import examples
from tests.oracles import convergence as oracle
from tests.series_by_hand import plain_series

FIRST = date(2026, 3, 1)
TOLERANCE = {"relative": 0.1, "points": 0.5}


def shares_of(
    actual: list[list[float]],
    target: list[float],
    *,
    waits: list[list[float]] | None = None,
    runs: list[list[float]] | None = None,
) -> tuple[Shares, SeriesDays]:
    """Judged as given: actual shares as passed, all running unless `runs` says otherwise."""
    n = len(actual[0])
    series = plain_series(FIRST, used=runs or [[1.0] * n for _ in actual], target=target, waited=waits)
    there = np.array(actual)
    wanted = target_share(series, "parent")
    slack = half_band(wanted, TOLERANCE, np.zeros(len(wanted), dtype=np.bool_))
    found = np.ones(there.shape, dtype=np.bool_)
    states = day_states(there, wanted, slack, series, found)
    names = [f"g{n}" for n in range(len(actual))]
    return Shares(names, series.days.on, there, wanted, slack, states), series.days


def keys(shares: Shares) -> list[str]:
    return [sentence.key for sentence in verdict(shares)]


STATE = SeriesState(date(2025, 1, 1), date(2026, 3, 31))
TODAY = date(2026, 4, 1)


def test_a_period_includes_both_its_days() -> None:
    found = read_period("2026-03-01", "2026-03-31", state=STATE, today=TODAY)
    assert found == Period(date(2026, 3, 1), date(2026, 3, 31))
    assert found.n_days == 31


def test_omitted_bounds_default_to_the_available_period() -> None:
    assert read_period("2026-03-01", "", state=STATE, today=TODAY).to_on == STATE.through_on
    assert default_period(STATE, TODAY).n_days == 30
    assert whole_period(STATE, TODAY) == Period(date(2025, 1, 1), date(2026, 3, 31))


@pytest.mark.parametrize(
    ("first", "last", "kind", "where", "found"),
    [
        ("2026-03-02", "2026-03-01", Invalid, "to", "swap them"),
        ("1026-03-01", "2026-03-01", Invalid, "from", "the limit is 3,660"),
        ("yesterday", "", Malformed, "from", "write it like 2026-03-31"),
        ("2026-02-30", "", Malformed, "from", "write it like 2026-03-31"),
        ("", "tomorrow", Malformed, "to", "write it like 2026-03-31"),
        ("0001-01-01", "9999-12-31", Invalid, "from", "the limit is 3,660"),
    ],
)
def test_an_impossible_period_names_the_possible_ones(
    first: str, last: str, kind: type[Invalid], where: str, found: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        read_period(first, last, state=STATE, today=TODAY)
    assert found in refusal.value.message
    assert "Data available from 2025-01-01 to 2026-03-31." in refusal.value.message
    assert (type(refusal.value), refusal.value.fields[0].where) == (kind, where)


def test_the_default_period_respects_the_limit() -> None:
    ages = SeriesState(date(1970, 1, 1), date(2026, 3, 31))
    assert whole_period(ages, TODAY).n_days == MOST_CONVERGENCE_DAYS
    assert Period(date(1, 1, 3), date(1, 1, 5)).starting_earlier(40).from_on == date(1, 1, 1)


def test_each_course_has_its_sentence_and_days_before_an_entry_are_counted() -> None:
    rising, waits = [0.5, 0.53, 0.6, 0.7], [[0.0, 9.0, 9.0, 9.0]]
    of_courses = {
        "moves_away": shares_of([rising], [0.5])[0],
        "starved": shares_of([[0.5, 0.3, 0.3, 0.3]], [0.5], waits=waits)[0],
        "one_approaching": shares_of([[0.9, 0.8, 0.7, 0.65]], [0.5])[0],
        "one_steady": shares_of([[0.6, 0.6, 0.601, 0.6]], [0.5])[0],
        "one_on": shares_of([[0.5, 0.5]], [0.5])[0],
        "one_idle": shares_of([[0.5, 0.1]], [0.5], runs=[[1.0, 0.0]])[0],
        "one_unknown": shares_of([[0.5, math.nan]], [0.5])[0],
    }
    assert {key: [each.key for each in verdict_of_one(shares)] for key, shares in of_courses.items()} == {
        key: [key] for key in of_courses
    }
    later, _days = shares_of([rising, [1 - each for each in rising]], [0.5, 0.5])
    is_before = np.array([[False] * 4, [True] * 3 + [False]])
    later = replace(later, states=np.where(is_before, BEFORE_ENTRY, later.states))
    (sentence,) = (each for each in verdict(later) if each.key == "before_some_entries")
    assert sentence.values == {"n": 3}
    near = assess_entries(shares_of([[0.496]], [0.5])[0])[0]
    assert (near.side, round(near.points, 3)) == ("under", -0.4)


def test_a_period_has_as_many_days_as_the_limit_and_none_more() -> None:
    last = date(2026, 3, 31)
    first = last - timedelta(days=MOST_CONVERGENCE_DAYS - 1)
    assert read_period(first.isoformat(), f" {last} ", state=STATE, today=TODAY).n_days == MOST_CONVERGENCE_DAYS
    with pytest.raises(Invalid, match="That is 3,661 days"):
        read_period((first - timedelta(days=1)).isoformat(), last.isoformat(), state=STATE, today=TODAY)
    assert read_period("2026-03-31", "2026-03-31", state=STATE, today=TODAY).n_days == 1


def test_before_the_first_build_a_period_ends_today() -> None:
    nothing = SeriesState(None, None)
    assert whole_period(nothing, TODAY) == Period(TODAY, TODAY)
    assert default_period(nothing, TODAY) == Period(TODAY - timedelta(days=29), TODAY)
    assert read_period("2026-04-05", "", state=nothing, today=TODAY) == Period(date(2026, 4, 5), date(2026, 4, 5))
    assert read_period("", "2026-02-01", state=STATE, today=TODAY).n_days == 30
    assert read_period("", "", state=STATE, today=TODAY) == default_period(STATE, TODAY)
    for half in (SeriesState(None, TODAY), SeriesState(TODAY, None)):
        assert available_days_text(half) == "No daily data yet."


def test_a_text_that_is_no_date_is_quoted_up_to_40_characters() -> None:
    with pytest.raises(Malformed, match=f"“{'x' * 40}” is not a date"):
        read_period("x" * 60, "", state=STATE, today=TODAY)


def test_raw_windowed_and_decayed_shares_follow_from_their_sums() -> None:
    series = plain_series(FIRST, used=[[4.0, 0.0, 2.0], [4.0, 6.0, 0.0]], target=[0.5, 0.5], decay=0.5)
    raw = actual_share(series, ShareMethod("raw"))
    assert raw.tolist() == [[0.5, 0.0, 1.0], [0.5, 1.0, 0.0]]
    two = actual_share(series, ShareMethod("windowed", window_days=2))
    assert two[0].tolist() == [0.5, 4 / 14, 2 / 8]
    decayed = actual_share(series, ShareMethod())
    assert decayed[0].tolist() == [0.5, 2 / 10, 3 / 7]
    assert np.allclose(decayed.sum(axis=0), 1)


def test_without_usage_shares_are_undefined() -> None:
    series = plain_series(FIRST, used=[[0.0, 2.0], [0.0, 2.0]], target=[0.5, 0.5])
    found = actual_share(series, ShareMethod("raw"))
    assert np.isnan(found[:, 0]).all()
    assert found[:, 1].tolist() == [0.5, 0.5]


def test_shares_of_the_total_are_against_the_root() -> None:
    series = plain_series(FIRST, used=[[1.0], [1.0]], target=[0.5, 0.5], root_used=[8.0])
    assert actual_share(series, ShareMethod("raw", of="total"))[:, 0].tolist() == [1 / 8, 1 / 8]


def test_a_window_counts_started_days_completely() -> None:
    assert read_share_method("windowed", "", 86_400 * 2 + 1).window_days == 3
    assert read_share_method("windowed", "", 1).window_days == 1
    assert read_share_method().view == "decayed"


@pytest.mark.parametrize("window_s", [0, -1, inf, 3_661 * 86_400])
def test_an_impossible_window_names_the_possible_ones(window_s: float) -> None:
    with pytest.raises(Invalid) as refused:
        read_share_method("windowed", "", window_s)
    assert re.findall(r"[\d,]+\d|\d", refused.value.message)[:2] == ["1", "3,660"]


def test_a_window_with_a_hidden_day_is_hidden() -> None:
    found = np.array([[True, False, True, True, True]])
    assert visible_windows(found, 2).tolist() == [[True, False, False, True, True]]


def test_numbers_are_independent_of_the_selection_of_days() -> None:
    series = plain_series(FIRST, used=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], target=[0.5, 0.5])
    assert select_days(series, np.array([False, True, True])).used.tolist() == [[2.0, 3.0], [5.0, 6.0]]
    turned = select_entries(series, [1, 0])
    assert turned.uids == (series.uids[1], series.uids[0])
    assert turned.used[0].tolist() == [4.0, 5.0, 6.0]


def test_entries_within_tolerance_or_idle_are_fine() -> None:
    shares, _ = shares_of([[0.51, 0.52], [0.49, 0.1]], [0.5, 0.5], runs=[[1.0, 1.0], [1.0, 0.0]])
    assert [one.course for one in assess_entries(shares)] == ["on", "idle"]
    assert keys(shares) == ["all_at_target_or_idle"]


def test_a_diverging_entry_has_its_start_and_the_demand_of_siblings() -> None:
    grows = [0.5, 0.5, 0.56, 0.62, 0.7]
    shares, _ = shares_of([grows, [1 - one for one in grows]], [0.5, 0.5], runs=[[1.0] * 5, [1.0, 1.0, 0.0, 0.0, 0.0]])
    judged = assess_entries(shares)[0]
    assert judged.course == "moves_away"
    assert judged.since == FIRST + timedelta(days=1), "the last day on which it was at its target"
    found = verdict(shares)[1]
    assert found.key == "moves_away"
    shares.states[1, 1:] = "no_demand"
    assert has_the_only_demand(shares, 0, 1)
    found = verdict(shares)[1]
    assert found.key == "moves_away_alone"
    assert found.values["points"] == 20.0
    assert re.findall(r"\bg0\b|2 Mar 2026|\d+\.\d", found.text) == ["g0", "2 Mar 2026", "20.0"]


def test_a_waiting_entry_below_target_has_its_number_of_days() -> None:
    low = [0.5, 0.3, 0.3, 0.3]
    waits = [[0.0, 0.0, 9.0, 9.0], [0.0] * 4]
    shares, _ = shares_of([low, [1 - one for one in low]], [0.5, 0.5], waits=waits)
    assert assess_entries(shares)[0].course == "starved"
    found = next(one for one in verdict(shares) if one.key == "starved")
    assert found.values["n"] == 2
    assert re.findall(r"\bg0\b|\b\d+\b", found.text) == ["g0", "2"]
    assert found.json()["values"]["since"] == "2026-03-03"


def test_a_converging_entry_is_not_diverging() -> None:
    shares, _ = shares_of([[0.9, 0.8, 0.7, 0.65]], [0.5])
    assert assess_entries(shares)[0].course == "approaching"
    assert keys(shares) == ["none_at_target", "approaching"]


def test_an_entry_that_stays_off_target_is_reported() -> None:
    shares, _ = shares_of([[0.6, 0.6, 0.601, 0.6]], [0.5])
    assert assess_entries(shares)[0].course == "steady"
    found = verdict_of_one(shares)[0]
    assert (found.key, found.values["points"]) == ("one_steady", pytest.approx(10.0))
    assert re.findall(r"\bg0\b|\d+\.\d", found.text) == ["g0", "10.0"]


SHARE = st.integers(0, 20).map(lambda n: n / 20) | st.just(math.nan)
COURSE = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(SHARE, min_size=n, max_size=n),
        st.lists(st.sampled_from([0.5, 0.5, 0.3]), min_size=n, max_size=n),
        st.lists(st.sampled_from(["over", "under", "on", "starved", "met", "no_demand", ""]), min_size=n, max_size=n),
    )
)


@examples(2_000, fixed=300)
@given(COURSE)
def test_the_course_of_an_entry_follows_from_its_distances_and_states(
    drawn: tuple[list[float], list[float], list[str]],
) -> None:
    actual, target, states = drawn
    band = [0.1 * each for each in target]
    days = [FIRST + timedelta(days=n) for n in range(len(actual))]
    shares = Shares(["g"], days, np.array([actual]), np.array([target]), np.array([band]), np.array([states]))
    (entry,) = assess_entries(shares)
    course, since = oracle.course(actual, target, band, states)
    assert (entry.course, entry.first) == (course, since)
    assert entry.since == (days[since] if course in ("starved", "moves_away", "approaching", "steady") else None)
    if course != "unknown":
        assert entry.points == pytest.approx(100 * (actual[-1] - target[-1]))
    first = max((n + 1 for n, each in enumerate(actual) if math.isnan(each)), default=0)
    gaps = oracle.half_times(actual[first:], target[first:], band[first:])
    found = [(each.at, each.outcome.name.lower(), each.days) for each in half_times_of(shares, 0)]
    assert found == [(at + first, outcome, n) for at, outcome, n in gaps]


def test_starved_and_no_demand_are_distinct() -> None:
    shares, _ = shares_of([[0.2], [0.2]], [0.5, 0.5], runs=[[0.0], [0.0]], waits=[[5.0], [0.0]])
    assert shares.states[:, 0].tolist() == ["starved", "no_demand"]


def test_many_entries_are_counted() -> None:
    n = 5
    shares, _ = shares_of([[0.3, 0.2]] * n, [0.5] * n, waits=[[9.0, 9.0]] * n)
    found = verdict(shares, n_hidden=1)
    assert [one.key for one in found] == ["none_at_target", "starved", "starved", "more_starved", "hidden"]
    assert found[3].values == {"n": 3}
    assert all(one.json()["text"] for one in found)


def test_without_usage_there_is_no_verdict() -> None:
    shares, _ = shares_of([[np.nan, np.nan]], [0.5])
    assert keys(shares) == ["nobody_used"]
    empty, _ = shares_of([[]], [0.5])
    assert keys(empty) == ["no_days"]
    assert verdict_of_one(empty)[0].key == "no_days"


def test_figures_are_means_of_days_weighted_by_shares() -> None:
    shares, days = shares_of([[0.8, 0.75], [0.2, 0.25]], [0.75, 0.25], runs=[[1.0, 1.0], [1.0, 0.0]])
    found = measure(shares, days)
    assert found.mean_deviation == pytest.approx((0.75 * 0.05 + 0.25 * 0.05) / 2)
    assert found.inside == pytest.approx((0.75 + 1.0) / 2), "g1 is 5 points off on the first day, with a band of 2.5"
    assert found.n_days == 2
    assert found.half_time_days is None


def test_idle_share_is_the_unused_target_of_idle_entries() -> None:
    shares, days = shares_of([[0.9], [0.1]], [0.5, 0.5], runs=[[1.0], [0.0]])
    assert measure(shares, days).idle_redistributed == pytest.approx(0.4)


def test_the_half_life_is_of_the_last_change_and_slowest_entry() -> None:
    shares, days = shares_of([[0.2] * 4 + [0.3, 0.45, 0.5], [0.8] * 4 + [0.7, 0.55, 0.5]], [0.2, 0.8])
    shares.target[:, 4:] = [[0.5] * 3, [0.5] * 3]
    found = measure(shares, days)
    assert found.half_time_days == 2
    assert (found.n_halved, found.n_changed) == (2, 2)
    assert [one.at for one in half_times_of(shares, 0)] == [4]
    shares.actual[:, 5:] = [[0.3, 0.3], [0.7, 0.7]]
    assert measure(shares, days).half_time_days == inf


def test_figures_of_no_days_are_empty() -> None:
    shares, days = shares_of([[np.nan, np.nan]], [0.5])
    found = measure(shares, days)
    assert found.mean_deviation is None
    assert found.inside is None
    assert found.idle_redistributed is None
    assert not isnan(found.n_days)


def test_a_series_without_days_has_no_figures() -> None:
    series: DailySeries = plain_series(FIRST, used=[[]], target=[0.5])
    assert actual_share(series, ShareMethod("windowed", window_days=9)).shape == (1, 0)
