"""The series by the hour: what a recompute as of each hour's end divides, for the last seven days."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from django.db import transaction
from django.test import Client

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.core.errors import Invalid
from apps.policies.models import Grant, Policy
from apps.policies.tree.stored import load_tree
from apps.priorities.recompute import pipeline as assembly
from apps.runs.models import Run
from apps.runs.services import claim_run, work_lease
from apps.series import runs
from apps.series.convergence.numbers import get_hourly_convergence
from apps.series.convergence.share_methods import ShareMethod
from apps.series.daily_series import DailySeries
from apps.series.models import Series, SeriesHour, SeriesHourTile
from apps.series.stored_series import load_hours, load_series, series_state
from apps.usage.models import Record
from apps.usage.records.record_rows import undo_records
from apps.usage.records.stored_versions import lock_source
from tests.grants import make_grant
from tests.priority_site import AS_OF, NO_AGING, PROJECTS, WINDOW, Site
from tests.series.test_series import publish

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ENDLESS = {"window": {"length_s": None, "aging": "exponential", "half_life_s": 86_400}}
LINEAR = {"window": {"length_s": 3 * 86_400, "aging": "linear"}}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.runs.services.BACK_OFF_S", 0.0)


def build(site: Site, at: datetime = AS_OF) -> dict[str, Any]:
    run = runs.enqueue_series_build(site.policy, at=at)
    lease = claim_run(at=at, run_id=run.pk, clock=lambda: at)
    assert lease is not None
    work_lease(lease)
    done = Run.objects.get(pk=run.pk)
    assert done.state == "succeeded", done.error
    result: dict[str, Any] = done.result
    return result


def whole(site: Site) -> DailySeries:
    tree = load_tree(site.policy)
    return load_hours(site.policy, [tree.uuid(i) for i in range(len(tree))])


def grown_with(make_site: Callable[..., Site], settings: dict[str, Any]) -> Site:
    made = make_site(at=AS_OF - 30 * DAY)
    publish(made, PROJECTS, settings, AS_OF - 30 * DAY)
    made.map(at=AS_OF - 30 * DAY)
    for ago_h in (1.5, 7.25, 26, 50, 100, 170, 300):
        made.job("alice", "physics", 1 + ago_h, ago_h=ago_h)
        made.job("carol", "biology", 3, ago_h=ago_h + 2.5)
    return made


@pytest.fixture
def grown(make_site: Callable[..., Site]) -> Site:
    return grown_with(make_site, WINDOW)


@pytest.mark.parametrize(
    "settings", [*(pytest.param(each, marks=pytest.mark.deep) for each in (WINDOW, ENDLESS)), LINEAR, NO_AGING]
)
def test_each_hour_equals_a_recompute_at_its_end(make_site: Callable[..., Site], settings: dict[str, Any]) -> None:
    site = grown_with(make_site, settings)
    build(site)
    found = whole(site)
    assert found.days.on[0] == AS_OF - 7 * DAY
    assert len(found.days.on) == 168
    for at in (0, 1, 11, 12, 60, 117, 142, 160, 166, 167):
        as_of = datetime.fromtimestamp(float(found.days.ends_s[at]), UTC)
        result = assembly.compute(assembly.load_inputs(site.policy, as_of=as_of)).result
        np.testing.assert_allclose(found.decayed[:, at], result.usage, rtol=1e-12, atol=1e-9)
        np.testing.assert_array_equal(found.target[1:, at], result.target[1:])
    daily = load_series(site.policy, found.uids, from_on=AS_OF.date() - DAY, to_on=AS_OF.date() - DAY)
    np.testing.assert_allclose(found.used[:, 132:156].sum(axis=1), daily.used[:, 0], rtol=1e-12)


@pytest.mark.parametrize(
    "settings", [WINDOW, *(pytest.param(each, marks=pytest.mark.deep) for each in (ENDLESS, LINEAR))]
)
def test_incremental_hours_equal_a_full_build(make_site: Callable[..., Site], settings: dict[str, Any]) -> None:
    grown = grown_with(make_site, settings)
    assert build(grown)["hours"] == 168
    assert runs.build_series_stale(at=AS_OF + HOUR / 2) == []
    assert runs.build_series_stale(at=AS_OF + HOUR) != []
    assert build(grown, AS_OF + HOUR)["hours"] == 1
    added = whole(grown)
    assert added.days.on[0] == AS_OF - 7 * DAY + HOUR
    Series.objects.all().delete()
    SeriesHour.objects.all().delete()
    SeriesHourTile.objects.all().delete()
    assert build(grown, AS_OF + HOUR)["hours"] == 168
    rebuilt = whole(grown)
    np.testing.assert_allclose(added.decayed, rebuilt.decayed, rtol=1e-12)
    np.testing.assert_array_equal(added.used, rebuilt.used)


@pytest.mark.fault("F6")
def test_late_usage_rebuilds_its_hours_only(grown: Site) -> None:
    build(grown)
    before = whole(grown)
    grown.job("bob", "physics", 9, ago_h=30)
    assert build(grown, AS_OF + HOUR)["hours"] <= 31 + 12 + 1  # notes of changes are by the day
    after = whole(grown)
    at = after.days.on.index(AS_OF - 31 * HOUR)
    gained = after.used[:, at] - before.used[:, at + 1]
    bob = load_tree(grown.policy).index_of_path("/physics/bob")
    assert bob is not None
    assert gained[bob] == 9 * 3600
    np.testing.assert_array_equal(after.used[:, : at - 24], before.used[:, 1 : at - 23])


def test_hours_older_than_seven_days_are_deleted(grown: Site) -> None:
    build(grown)
    build(grown, AS_OF + 9 * DAY)
    kept = SeriesHour.objects.order_by("begins_at").values_list("begins_at", flat=True)
    assert (kept[0], len(kept)) == (AS_OF + 2 * DAY, 168)
    assert min(SeriesHourTile.objects.values_list("day_on", flat=True)) == (AS_OF + 2 * DAY).date()


def test_a_killed_build_resumes_after_the_last_stored_hours(grown: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    n_stored = 0

    def killed(name: str) -> None:
        nonlocal n_stored
        n_stored += name == "series.after_commit" and SeriesHour.objects.exists()
        if n_stored == 3:
            raise _Killed

    run = runs.enqueue_series_build(grown.policy, at=AS_OF)
    monkeypatch.setattr(runs, "fault_point", killed)
    lease = claim_run(at=AS_OF, run_id=run.pk, clock=lambda: AS_OF)
    assert lease is not None
    with pytest.raises(_Killed):
        work_lease(lease)
    first = SeriesHour.objects.count()
    assert 0 < first < 168
    monkeypatch.undo()
    Run.objects.update(lease_until=AS_OF - HOUR)
    lease = claim_run(at=AS_OF, run_id=run.pk, clock=lambda: AS_OF)
    assert lease is not None
    work_lease(lease)
    assert SeriesHour.objects.count() == 168
    assert len({row.begins_at for row in SeriesHour.objects.all()}) == 168


class _Killed(BaseException):
    pass


def test_very_large_trees_have_days_but_no_hours(grown: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_HOURLY_ENTRIES", 3)
    assert build(grown)["hours"] == 0
    assert series_state(grown.policy).hours_through_at is None
    assert runs.build_series_stale(at=AS_OF + HOUR) == []


def read(answer: Any) -> str:
    return b"".join(answer.streaming_content).decode()


@pytest.fixture
def young(make_site: Callable[..., Site]) -> Site:
    """Five hours old."""
    made = make_site(at=AS_OF - 5 * HOUR)
    publish(made, PROJECTS, NO_AGING, AS_OF - 5 * HOUR)
    made.map(at=AS_OF - 5 * HOUR)
    made.job("alice", "physics", 30, ago_h=3)
    made.job("carol", "biology", 10, ago_h=3)
    made.job("carol", "biology", 20, ago_h=1)
    build(made)
    return made


def test_a_new_instance_shows_hours_on_its_first_day(young: Site, client: Client) -> None:
    client.force_login(User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase"))
    body = client.get("/api/v1/policies/grid/convergence", {"step": "hour"}).json()
    assert (body["days"], body["step"], body["built"]["through_on"]) == ([], "hour", None)
    assert body["hours"] == [f"2026-11-20T{hour:02}:00:00Z" for hour in (7, 8, 9, 10, 11)]
    assert body["built"]["hours_through_at"] == "2026-11-20T12:00:00Z"
    physics = next(one for one in body["results"] if one["name"] == "physics")
    assert physics["actual"] == [None, 0.75, 0.75, 0.5, 0.5]
    assert physics["target"] == [0.6] * 5
    page = client.get("/policy/grid/convergence/").content.decode()
    assert 'data-testid="by-hour" data-value="5"' in page
    assert 'data-testid="no-days-yet"' not in page
    assert 'data-testid="hours-late"' not in page
    rows = read(client.get("/policy/grid/convergence/days.csv")).splitlines()
    assert rows[0].startswith('"hour","name","entry"')
    assert len(rows) == 1 + 2 * 5


def test_on_the_first_day_hours_are_rebuilt_hourly_or_after_a_mapping_change(young: Site) -> None:
    young.job("bob", "physics", 1, ago_h=2)
    assert runs.build_series_stale(at=AS_OF + HOUR / 2) == []
    young.map(young.rule("/physics", suffix="/{user}"))
    assert runs.build_series_stale(at=AS_OF + HOUR / 2) != []
    assert build(young, AS_OF + HOUR / 2) == {"days": 0, "hours": 5}
    assert runs.build_series_stale(at=AS_OF + HOUR / 2) == []
    assert runs.build_series_stale(at=AS_OF + HOUR) != []


def test_late_hours_are_reported(young: Site, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.force_login(User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase"))
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AS_OF + 3 * HOUR).isoformat())
    assert 'data-testid="hours-late"' in client.get("/policy/grid/convergence/?step=hour").content.decode()


def test_before_the_first_hour_the_page_explains_what_will_appear(
    make_site: Callable[..., Site], client: Client
) -> None:
    make_site()
    client.force_login(User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase"))
    assert 'data-testid="no-days-yet"' in client.get("/policy/grid/convergence/").content.decode()
    assert 'data-testid="no-days' in client.get("/policy/grid/convergence/?step=hour").content.decode()
    assert client.get("/api/v1/policies/grid/convergence?step=hour").json()["hours"] == []


def test_hours_need_the_right_to_see_names(young: Site) -> None:
    """Two sums an hour apart differ by what one person used."""
    Policy.objects.update(visibility="path")
    sums = User.objects.create_user("sums", "sums@example.org", "a long pass phrase")
    make_grant(
        sums,
        load_tree(young.policy).uuid(0),
        "viewer",
        policy=young.policy,
        verbs=[Grant.Verb.VIEW_AGGREGATE],
        at=AS_OF,
    )
    found = get_hourly_convergence(policy_slug="grid", actor=Actor(user=sums, via="page"), method=ShareMethod())
    assert len(found.members) == 2
    assert not found.visible.any()
    assert not np.isfinite(found.actual).any()
    assert set(found.states.ravel()) == {""}


def test_windows_are_counted_in_days(young: Site, client: Client) -> None:
    with pytest.raises(Invalid) as refused:
        get_hourly_convergence(policy_slug="grid", actor=COMMAND, method=ShareMethod("windowed"))
    assert refused.value.fields[0].where == "view"
    client.force_login(User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase"))
    answer = client.get("/policy/grid/convergence/?step=hour&view=windowed")
    assert answer.status_code == 422
    assert 'data-testid="cannot-be-shown" data-value="view"' in answer.content.decode()


def test_hours_before_all_usage_that_is_left_have_none(make_site: Callable[..., Site]) -> None:
    site = make_site(at=AS_OF - 2 * DAY)
    publish(site, PROJECTS, NO_AGING, AS_OF - 2 * DAY)
    site.map(at=AS_OF - 2 * DAY)
    site.job("alice", "physics", 1, ago_h=3)
    site.job("carol", "biology", 5, ago_h=100)
    build(site)
    assert whole(site).used[:, 0].any()
    with transaction.atomic():
        lock_source(site.source.pk)
        carols = Record.objects.filter(account__user_name="carol").values_list("pk", flat=True)
        undo_records(site.source.pk, np.array(carols, np.int64))
    build(site)
    found = whole(site)
    assert np.count_nonzero(found.used.sum(axis=0)) == 1, "only the hour of alice"
