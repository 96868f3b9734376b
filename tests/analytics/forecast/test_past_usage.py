"""The estimate of pace: the daily series and hours agree, and days before the first usage are ignored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest

from apps.analytics.forecast.past_usage import from_series, load_past
from apps.analytics.series.daily_series import DailySeries, SeriesDays
from apps.analytics.series.runs import enqueue_series_build
from apps.policies.models import Policy
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from tests.analytics.forecast.test_forecast import FADING
from tests.priority_site import AS_OF, PROJECTS, Site


def _series(uids: list[UUID], used: list[float], peers: list[float]) -> DailySeries:
    n = len(used)
    shape = (len(uids), n)
    flat = np.zeros(shape)
    days = SeriesDays(
        on=tuple((AS_OF - timedelta(days=n - d)).date() for d in range(n)),
        ends_s=np.array([AS_OF.timestamp() - 86_400 * (n - 1 - d) for d in range(n)]),
        revision=np.ones(n, np.int32),
        is_before_first=np.zeros(n, np.bool_),
        root_used=np.array(peers),
        root_decayed=np.array(peers),
    )
    yes = np.ones(shape, np.bool_)
    return DailySeries(
        tuple(uids),
        days,
        flat + used,
        flat + peers,
        flat + used,
        flat + peers,
        flat + 0.5,
        flat + 0.5,
        yes,
        yes,
        flat,
        yes,
        np.ones(shape, np.int32),
        flat,
    )


def test_days_before_the_first_record_are_not_quiet_days() -> None:
    uid = uuid4()
    (level,) = from_series(_series([uid], [0, 0, 2, 0, 4], [0, 0, 8, 0, 8]), [uid], as_of=AS_OF, hourly=False)
    assert level.group_daily.tolist() == [8, 0, 8]
    assert level.own_daily.tolist() == [2, 0, 4]
    assert [part for _, part in level.past_shares] == [0.25, 0.5]


def test_daily_usage_spread_over_hours_keeps_its_sum() -> None:
    uid = uuid4()
    (level,) = from_series(_series([uid], [24, 48], [240, 480]), [uid], as_of=AS_OF, hourly=True)
    assert level.history is not None
    assert level.history.own_usage.sum() == 72
    assert level.history.hour_start_s[-1] == AS_OF.timestamp() - 3600
    assert len(level.history.hour_start_s) == 48


def test_an_entry_missing_in_the_series_has_no_days() -> None:
    (level,) = from_series(_series([uuid4()], [1], [2]), [uuid4()], as_of=AS_OF, hourly=False)
    assert not len(level.group_daily)


def test_the_pace_uses_the_last_28_days() -> None:
    uid = uuid4()
    (level,) = from_series(_series([uid], [1] * 40, [2] * 40), [uid], as_of=AS_OF, hourly=False)
    assert len(level.group_daily) == len(level.past_shares) == 28


@pytest.fixture
def days(make_site: Any) -> Site:
    """Twelve whole days of the zone, up to midnight before the snapshot."""
    site: Site = make_site()
    site.publish(PROJECTS, FADING)
    site.map()
    midnight = datetime(2026, 11, 20, tzinfo=UTC)
    for user, group, cpus in (("alice", "physics", 2), ("bob", "physics", 1), ("carol", "biology", 3)):
        site.job(user, group, cpus, ago_h=12, start_at=midnight - timedelta(days=12), submit_at=midnight)
    site.recompute()
    store.poll()
    return site


def test_series_and_hours_give_the_same_pace(days: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = store.newest(days.slug)
    chain = [i for i in range(1, len(snapshot.tree)) if snapshot.tree.path(i) in ("/physics", "/physics/alice")]
    by_hours = load_past(days.policy, snapshot, chain, hourly=False)
    assert work_run_now(enqueue_series_build(Policy.objects.get(pk=days.policy.pk), at=AS_OF).pk).state == "succeeded"
    monkeypatch.setattr("apps.analytics.forecast.past_usage.load_snapshot_inputs", lambda *_: None)
    by_days = load_past(days.policy, snapshot, chain, hourly=False)
    assert by_hours is not None
    assert by_days is not None
    for one, other in zip(by_hours, by_days, strict=True):
        assert other.own_daily.tolist() == pytest.approx([one.own_daily[1]] * 12)
        assert other.own_daily.sum() / other.group_daily.sum() == pytest.approx(
            one.own_daily.sum() / one.group_daily.sum()
        )
        assert other.past_shares[-1][1] == pytest.approx(one.past_shares[-1][1], rel=1e-6)
