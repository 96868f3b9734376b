"""Drift: outside the band for days on end, with demand; and who may learn of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from apps.accounts.actor import SYSTEM, Actor
from apps.analytics.series.daily_series import DailySeries, SeriesState
from apps.notices import selectors
from apps.notices.evaluation import evaluate
from apps.notices.kinds import drift, kind_of
from apps.notices.kinds.drift import drift_of, newest_day
from apps.notices.models import Notice
from apps.notices.rules import NEW, Place, set_rule
from apps.policies.models import Policy
from tests.api.small_site import Site
from tests.instants import AT
from tests.notices.made_series import made_series

TOLERANCE = {"relative": 0.1, "points": 1.0}


def test_starved_means_under_tolerance_with_waiting_jobs() -> None:
    found = drift_of(made_series([0.5, 0.5], [[1, 1, 1], [9, 9, 9]], [[5, 5, 5], [0, 0, 0]]), tolerance=TOLERANCE)
    assert found.starved_days.tolist() == [3, 0]
    assert found.pushing_days.tolist() == [0, 3]
    assert found.deviation.tolist() == pytest.approx([-0.4, 0.4])


def test_without_demand_there_is_no_drift() -> None:
    found = drift_of(made_series([0.5, 0.5], [[0, 1, 1], [9, 9, 9]], [[0, 0, 0], [7, 7, 7]]), tolerance=TOLERANCE)
    assert found.starved_days.tolist() == [0, 0]
    assert found.pushing_days.tolist() == [0, 0]


def test_one_day_on_target_resets_the_count_of_days() -> None:
    waited = [[5, 0, 5, 5], [0, 0, 0, 0]]
    found = drift_of(made_series([0.5, 0.5], [[1] * 4, [9] * 4], waited), tolerance=TOLERANCE)
    assert found.starved_days.tolist() == [2, 0]


def test_within_tolerance_is_on_target() -> None:
    found = drift_of(made_series([0.5, 0.5], [[46, 46], [54, 54]], [[5, 5], [0, 0]]), tolerance=TOLERANCE)
    assert found.starved_days.tolist() == [0, 0]


def test_without_data_on_waiting_jobs_there_is_no_notice() -> None:
    series = made_series([0.5, 0.5], [[1, 1], [9, 9]], [[0, 0], [0, 0]], knows=False)
    assert drift_of(series, tolerance=TOLERANCE).starved_days.tolist() == [0, 0]


def test_days_before_a_gap_do_not_count() -> None:
    days = [date(2026, 10, 1), date(2026, 10, 2), date(2026, 10, 4), date(2026, 10, 5)]
    series = made_series([0.5, 0.5], [[1] * 4, [9] * 4], [[5] * 4, [0] * 4], days=days)
    assert drift_of(series, tolerance=TOLERANCE).starved_days.tolist() == [2, 0]


def test_without_built_days_there_is_no_notice() -> None:
    series = made_series([0.5, 0.5], [[], []], [[], []])
    assert drift_of(series, tolerance=TOLERANCE).starved_days.tolist() == [0, 0]


@pytest.fixture
def starved(computed: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Biology has been starved for nine days, up to yesterday, while physics was over."""
    yesterday = AT.date() - timedelta(days=1)
    uids = {computed.uid("/physics"): 0, computed.uid("/biology"): 1}

    def series(_policy: Policy, asked: Any, *, through_on: date, n_days: int) -> DailySeries:
        rows = [uids.get(uid) for uid in asked]
        first_on = through_on - timedelta(days=n_days - 1)
        target = [0.0 if row is None else (0.6, 0.4)[row] for row in rows]
        used = [[1.0] * n_days if row is None else [(95.0, 5.0)[row]] * n_days for row in rows]
        waits = [[0.0] * (n_days - 9) + [4.0 if row == 1 else 0.0] * 9 for row in rows]
        made = made_series(target, used, waits, first_on=first_on)
        return replace(made, uids=tuple(asked))

    monkeypatch.setattr(drift, "newest_day", lambda _policy, _today: yesterday)
    monkeypatch.setattr(drift, "last_days", series)
    return computed


def open_drifts() -> dict[str, str]:
    found = Notice.objects.filter(kind="drift", closed_at=None)
    return {each.facts["path"]: kind_of("drift").describe(each.facts).text for each in found}


def test_drift_is_described_with_days_and_points(starved: Site) -> None:
    evaluate(at=AT)
    assert open_drifts() == {
        "/": "2 groups of grid are off target: biology under by 35.0 points for 9 days, "
        "physics over by 35.0 points for 9 days.",
        "/biology": "/biology has had waiting jobs and been under its share for 9 days (now 35.0 points).",
        "/physics": "/physics has been over its share for 9 days while others wait (now 35.0 points).",
    }


def test_the_rule_sets_the_number_of_days(starved: Site) -> None:
    place = Place(policy=starved.policy)
    set_rule(kind="drift", place=place, is_on=True, terms={"days": 10}, version=NEW, at=AT, actor=SYSTEM)
    evaluate(at=AT)
    assert open_drifts() == {}


def test_users_without_access_to_numbers_get_no_drift_notice(starved: Site) -> None:
    """ben's biology is starved: that physics pushes says something of physics, which isn't his to know."""
    evaluate(at=AT)
    shown = {
        user.username: {line.notice.facts["path"] for line in selectors.list_open_notices(Actor(user, "page"), AT)}
        for user in (starved.admin, starved.pia, starved.ben, starved.alice, starved.nobody)
    }
    assert shown["admin"] == {"/"}, "both groups at once"
    assert shown["ben"] == {"/biology"}
    assert shown["pia"] == shown["alice"] == shown["nobody"] == set()


def test_sibling_groups_share_one_notice_for_the_managers_above(starved: Site) -> None:
    evaluate(at=AT)
    lines = selectors.list_open_notices(Actor(starved.admin, "page"), AT)
    (family,) = (line for line in lines if line.notice.kind == "drift")
    assert family.sentence.key == "drift.family"
    assert [(one["name"], one["is_starved"]) for one in family.notice.facts["groups"]] == [
        ("biology", True),
        ("physics", False),
    ]
    assert family.notice.entry_uid == starved.uid("/")
    again = evaluate(at=AT + timedelta(hours=1))
    assert (again, len(open_drifts())) == (0, 3), "nothing is opened twice"


def test_old_days_are_not_evaluated(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for through_on, newest in ((date(2026, 11, 1), None), (date(2026, 11, 18), date(2026, 11, 18)), (None, None)):
        state = SeriesState(through_on=through_on)
        monkeypatch.setattr("apps.notices.kinds.drift.series_state", lambda _policy, state=state: state)
        assert newest_day(computed.policy, AT.date()) == newest
