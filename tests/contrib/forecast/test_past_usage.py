"""The estimate of pace: the daily series and hours agree, and days before the first usage are ignored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.forecast.past_usage import PlaceInSeries, from_series, load_past
from apps.contrib.forecast.selectors import get_forecasts
from apps.policies.models import Policy
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery
from apps.runs.services import work_run_now
from apps.series.daily_series import DailySeries, SeriesDays
from apps.series.runs import enqueue_series_build
from tests.contrib.forecast.test_forecast import FADING
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
    (level,) = from_series(
        _series([uid], [0, 0, 2, 0, 4], [0, 0, 8, 0, 8]), [PlaceInSeries(uid)], as_of=AS_OF, hourly=False
    )
    assert level.group_daily.tolist() == [8, 0, 8]
    assert level.own_daily.tolist() == [2, 0, 4]
    assert [part for _, part in level.past_shares] == [0.25, 0.5]


def test_daily_usage_spread_over_hours_keeps_its_sum() -> None:
    uid = uuid4()
    (level,) = from_series(_series([uid], [24, 48], [240, 480]), [PlaceInSeries(uid)], as_of=AS_OF, hourly=True)
    assert level.history is not None
    assert level.history.own_usage.sum() == 72
    assert level.history.hour_start_s[-1] == AS_OF.timestamp() - 3600
    assert len(level.history.hour_start_s) == 48


def test_an_entry_missing_in_the_series_has_no_days() -> None:
    (level,) = from_series(_series([uuid4()], [1], [2]), [PlaceInSeries(uuid4())], as_of=AS_OF, hourly=False)
    assert not len(level.group_daily)


def test_the_pace_uses_the_last_28_days() -> None:
    uid = uuid4()
    (level,) = from_series(_series([uid], [1] * 40, [2] * 40), [PlaceInSeries(uid)], as_of=AS_OF, hourly=False)
    assert len(level.group_daily) == len(level.past_shares) == 28


def test_days_before_an_entry_competed_are_not_days_without_usage_of_its_group() -> None:
    """Three of five days: the group used 8 a day throughout. For windows by hour it counts on all of them."""
    uid, parent = uuid4(), uuid4()
    series = _series([uid, parent], [0, 0, 2, 0, 4], [0, 0, 8, 8, 8])
    series.used[1] = 8
    series.days.root_used[:] = 50
    series.competes[0, :2] = False
    (level,) = from_series(series, [PlaceInSeries(uid, parent)], as_of=AS_OF, hourly=True)
    assert (level.own_daily.tolist(), level.group_daily.tolist()) == ([2, 0, 4], [8, 8, 8])
    assert level.history is not None
    assert (level.history.own_usage.sum(), level.history.group_usage.sum()) == pytest.approx((6, 40))


def test_days_below_another_parent_do_not_count() -> None:
    uid = uuid4()
    series = _series([uid], [1] * 6, [9, 9, 9, 2, 2, 2])
    series.days.revision[:] = [1, 2, 2, 3, 4, 5]
    place = PlaceInSeries(uid, None, ((3, None),))
    (level,) = from_series(series, [place], as_of=AS_OF, hourly=False)
    assert level.group_daily.tolist() == [2, 2, 2]
    (level,) = from_series(series, [PlaceInSeries(uid, None, ((1, 2), (4, None)))], as_of=AS_OF, hourly=False)
    assert level.group_daily.tolist() == [9, 2, 2]


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
    monkeypatch.setattr("apps.contrib.forecast.past_usage.load_snapshot_inputs", lambda *_: None)
    by_days = load_past(days.policy, snapshot, chain, hourly=False)
    assert by_hours is not None
    assert by_days is not None
    for one, other in zip(by_hours, by_days, strict=True):
        assert other.own_daily.tolist() == pytest.approx([one.own_daily[1]] * 12)
        assert other.own_daily.sum() / other.group_daily.sum() == pytest.approx(
            one.own_daily.sum() / one.group_daily.sum()
        )
        assert other.past_shares[-1][1] == pytest.approx(one.past_shares[-1][1], rel=1e-6)


def _publish(site: Site, operations: list[dict[str, Any]], at: datetime) -> None:
    made = make_change_set(
        policy_slug=site.slug, new=NewChangeSet(operations=operations, reason="later"), at=at, actor=COMMAND
    )
    publish_change_set(id=made.pk, version=1, reason="later", at=at, actor=COMMAND)
    site.policy.refresh_from_db()


def test_the_forecast_of_a_young_entry_counts_its_group_as_it_was(make_site: Any) -> None:
    """The group ran every day of four weeks; the entry and its only member are five days old."""
    site: Site = make_site(at=AS_OF - timedelta(days=28))
    site.publish(PROJECTS, FADING)
    _publish(site, [{"op": "add", "parent": "/", "name": "waves", "shares": 30}], AS_OF - timedelta(days=5, hours=13))
    _publish(
        site,
        [{"op": "add", "parent": "/waves", "name": "karl", "kind": "user", "shares": 1}],
        AS_OF - timedelta(days=5, hours=12),
    )
    site.map()
    midnight = datetime(2026, 11, 20, tzinfo=UTC)
    for user, group, cpus, n_days in (
        ("alice", "physics", 20, 28),
        ("carol", "biology", 30, 28),
        ("karl", "waves", 1, 5),
    ):
        start_at = midnight - timedelta(days=n_days)
        site.job(user, group, cpus * 24 * n_days, ago_h=12, start_at=start_at, submit_at=start_at, cpus=cpus)
    site.recompute()
    assert work_run_now(enqueue_series_build(site.policy, at=AS_OF).pk).state == "succeeded"
    store.poll()
    (found,) = get_forecasts(policy_slug=site.slug, account=AccountQuery("karl"), actor=COMMAND, at=AS_OF)
    waves, karl = found.levels
    assert waves.outlook is not None
    assert waves.n_days == 6, "the day on which it was added counts"
    assert waves.outlook.paces[2].group_rate * 86_400 == pytest.approx(51 * 86_400)
    assert waves.outlook.to_target.middle.outcome == "not_at_this_pace"
    assert [one.key for one in waves.messages] == ["forecast.stays_under"]
    assert [one.key for one in karl.messages] == ["forecast.on_target"], "the only member"
