"""A build that goes on behind its first stored month has usage that changed in that month, and so has all else that
starts from stored sums.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest

from apps.accounts.actor import COMMAND
from apps.policies.tree.stored import load_tree
from apps.priorities.recompute import pipeline
from apps.runs import leases
from apps.runs.models import Run
from apps.runs.services import claim_run, work_lease
from apps.series import runs
from apps.series.back_test import back_test, past_priorities
from apps.series.back_test_runs import current_state, days_until
from apps.series.builder import CarriedSums
from apps.series.models import Series
from apps.series.stored_series import load_against_today, load_series, series_state
from tests.examples import first
from tests.priority_site import AS_OF, NO_AGING, PROJECTS, Site, finished
from tests.priority_site import build_series as build
from tests.series.test_rebuilding import work_run_now_at
from tests.series.test_series import DAY, TODAY, agrees_with_recomputes, publish, read, uid

pytestmark = pytest.mark.django_db
FIRST_OF_NOVEMBER = date(2026, 11, 1)
NINETY_DAYS = {"window": {"length_s": 90 * 86_400, "aging": "exponential", "half_life_s": 7 * 86_400}}
UNBOUNDED = {"window": {"length_s": None, "aging": "exponential", "half_life_s": 7 * 86_400}}


class _Killed(BaseException):
    """As if the process were gone: nothing catches it on the way."""


def _killed(site: Site, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    with monkeypatch.context() as at_first_month:
        at_first_month.setattr(runs, "fault_point", _raise_after_commit(_Killed))
        with pytest.raises(_Killed):
            work_lease(_claimed(run))
    Run.objects.filter(pk=run.pk).update(lease_until=AS_OF - DAY)
    return run


def _asked_to_stop(site: Site, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    with monkeypatch.context() as stopping:
        stopping.setattr(leases, "is_stopping", lambda: True)
        work_lease(_claimed(run))
    assert Run.objects.get(pk=run.pk).state == "queued"
    Run.objects.filter(pk=run.pk).update(due_at=AS_OF)
    return run


def _failed(site: Site, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """For good: another run is planned, from the first day that lacks."""
    Run.objects.filter(pk=run.pk).update(max_attempts=1)
    with monkeypatch.context() as at_first_month:
        at_first_month.setattr(runs, "fault_point", _raise_after_commit(RuntimeError))
        work_lease(_claimed(run))
    assert Run.objects.get(pk=run.pk).state == "failed"
    return runs.enqueue_series_build(site.policy, at=AS_OF)


def _raise_after_commit(error: type[BaseException]) -> Callable[[str], None]:
    def fault_point(name: str) -> None:
        if name == "series.after_commit":
            raise error

    return fault_point


def _claimed(run: Run) -> Any:
    lease = claim_run(at=AS_OF, run_id=run.pk, clock=lambda: AS_OF)
    assert lease is not None
    return lease


@pytest.fixture
def make_built(make_site: Callable[..., Site]) -> Callable[[dict[str, Any]], Site]:
    """Seventy days of usage; their series ends on 31 October, and is of the settings given."""

    def make(settings: dict[str, Any]) -> Site:
        site = make_site()
        publish(site, PROJECTS, settings, AS_OF - 70 * DAY)
        site.map()
        site.jobs([finished("alice", "physics", 1, ago_h=24 * ago_d) for ago_d in range(8, 70, 3)])
        site.jobs([finished("carol", "biology", 1, ago_h=24 * ago_d + 1) for ago_d in range(8, 70, 3)])
        then = AS_OF - 19 * DAY
        work_run_now_at(runs.enqueue_series_build(site.policy, at=then).pk, then)
        assert series_state(site.policy).through_on == FIRST_OF_NOVEMBER - DAY
        return site

    return make


@pytest.mark.fault("F16")
@pytest.mark.parametrize(
    ("interrupted", "settings"),
    first(1, [(_killed, UNBOUNDED), (_asked_to_stop, NINETY_DAYS), (_failed, NO_AGING)]),
    ids=["killed", "asked to stop", "failed and planned anew"],
)
def test_late_usage_of_a_month_that_is_stored_counts_in_the_months_behind_it(
    make_built: Callable[[dict[str, Any]], Site],
    monkeypatch: pytest.MonkeyPatch,
    interrupted: Callable[[Site, Run, pytest.MonkeyPatch], Run],
    settings: dict[str, Any],
) -> None:
    site = make_built(settings)
    site.job("bob", "physics", 1000, ago_h=24 * 40)
    run = interrupted(site, runs.enqueue_series_build(site.policy, at=AS_OF), monkeypatch)
    assert Series.objects.get(policy=site.policy).redo_from_on == FIRST_OF_NOVEMBER
    work_run_now_at(run.pk, AS_OF)
    assert series_state(site.policy).stale_from_on is None
    resumed = read(site, "/physics", "/physics/bob", "/biology")
    assert resumed.decayed[1, resumed.days.on.index(FIRST_OF_NOVEMBER)] > 0
    assert agrees_with_recomputes(site) == 40
    Series.objects.all().delete()
    build(site)
    from_nothing = read(site, "/physics", "/physics/bob", "/biology")
    np.testing.assert_allclose(resumed.decayed, from_nothing.decayed, rtol=1e-12, atol=0)


@pytest.mark.deep
def test_a_back_test_past_priorities_and_days_against_today_have_late_usage_of_before_their_first_day(
    make_built: Callable[[dict[str, Any]], Site],
) -> None:
    site = make_built(NINETY_DAYS)
    build(site)
    site.job("bob", "physics", 1000, ago_h=24 * 20)
    days, state, tree = days_until(site.policy, AS_OF, 7), current_state(site.policy), load_tree(site.policy)
    physics, bob = (list(tree.name).index(name) for name in ("physics", "bob"))
    ends = [datetime.fromtimestamp(day.to_s, UTC) for day in days]
    true = [pipeline.compute(pipeline.load_inputs(site.policy, as_of=at)).result for at in ends]
    actual, rank = ([getattr(one, name) for one in true] for name in ("actual", "rank"))
    past = list(past_priorities(site.policy, state, days))
    np.testing.assert_allclose([one.actual for one in past], actual, rtol=1e-12)
    against = load_against_today(site.policy, [tree.uuid(physics)], from_on=days[0].on, to_on=days[-1].on)
    np.testing.assert_allclose(
        against.decayed[0] / against.peers_decayed[0], [one[physics] for one in actual], rtol=1e-12
    )
    tested = back_test(site.policy, state, state, days)
    assert tested.off_was[physics] == pytest.approx(np.mean([abs(one[physics] - 0.6) for one in actual]))
    assert tested.rank_was[bob] == np.mean([one[bob] for one in rank]) == 4


def test_stored_sums_hold_before_the_first_change_of_usage_and_for_the_engine_that_made_them(
    make_built: Callable[[dict[str, Any]], Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_built(NINETY_DAYS)
    day = days_until(site.policy, AS_OF, 1)[0]

    def days_of_sums(**window: Any) -> list[date]:
        settings, ids = current_state(site.policy).settings, np.array([site.source.pk], np.int64)
        terms = {"metric": settings.metric, "window": {**settings.window, **window}}
        sums = CarriedSums(site.policy).sums_before(day, terms, np.arange(1_000), ids)
        return [one.day.on for one in sums]

    stored = days_of_sums()
    assert stored[-1] == FIRST_OF_NOVEMBER - DAY
    assert days_of_sums(length_s=None) == []
    changed_on = TODAY - 30 * DAY
    site.job("bob", "physics", 1, ago_h=24 * 30)
    assert days_of_sums() == [on for on in stored if on < changed_on] != []
    monkeypatch.setattr("apps.engine.VERSION", "another")
    assert days_of_sums() == []
    monkeypatch.undo()
    Series.objects.update(carry=b"damaged")
    assert days_of_sums() == []


@pytest.mark.deep
def test_days_that_another_layout_stored_are_built_from_nothing(
    make_built: Callable[[dict[str, Any]], Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade: also where a run of the former release was interrupted, and goes on."""
    site = make_built(NINETY_DAYS)
    first_on, right = TODAY - 70 * DAY, read(site, "/physics")
    inputs = Series.objects.get(policy=site.policy).inputs
    site.job("bob", "physics", 1, ago_h=24 * 40)
    run = _killed(site, runs.enqueue_series_build(site.policy, at=AS_OF), monkeypatch)
    former = {**inputs, "layout": inputs["layout"] - 1}
    cursor = Run.objects.get(pk=run.pk).cursor
    Run.objects.filter(pk=run.pk).update(cursor={**cursor, "inputs": {**cursor["inputs"], "layout": former["layout"]}})
    Series.objects.update(inputs=former, hours_inputs=former)
    work_run_now_at(run.pk, AS_OF)
    assert series_state(site.policy).stale_from_on == first_on
    rebuilt = build(site)
    assert date.fromisoformat(rebuilt["from"]) == first_on
    assert series_state(site.policy).stale_from_on is None
    series = load_series(site.policy, [uid(site, "/physics")], from_on=first_on, to_on=TODAY)
    assert len(series.days.on) == 70 > len(right.days.on)


@pytest.mark.deep
def test_a_build_that_goes_on_after_a_later_one_leaves_no_days_without_numbers(
    make_built: Callable[[dict[str, Any]], Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, later = make_built(NINETY_DAYS), AS_OF + 3 * DAY
    site.job("bob", "physics", 1000, ago_h=24 * 40)
    run = _asked_to_stop(site, runs.enqueue_series_build(site.policy, at=AS_OF), monkeypatch)
    rebuild = runs.request_rebuild(policy_slug=site.policy.slug, at=later, actor=COMMAND)
    work_run_now_at(rebuild.pk, later)
    work_run_now_at(run.pk, later)
    assert agrees_with_recomputes(site) == 40
    work_run_now_at(runs.enqueue_series_build(site.policy, at=later).pk, later)
    assert series_state(site.policy).through_on == later.date() - DAY
    days = load_series(site.policy, [uid(site, "/physics")], from_on=TODAY - 5 * DAY, to_on=later.date()).days
    assert days.on == tuple(TODAY + n * DAY for n in range(-5, 3))
