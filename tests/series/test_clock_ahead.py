"""The daily series and snapshots of a site whose clock was ahead for a while."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.accounts.actor import COMMAND
from apps.accounts.clock_watch import note_clock
from apps.core import clock
from apps.priorities import tasks as priorities_tasks
from apps.priorities.models import Snapshot
from apps.runs.models import Run
from apps.runs.services import work_due_runs
from apps.series import tasks
from apps.series.days import last_complete_day, site_zone
from apps.series.models import Series, SeriesDay, SeriesHour
from apps.series.runs import build_series_stale, request_rebuild
from apps.series.stored_series import load_hours
from tests.priority_site import AS_OF, Site, build_series, make_month_of_days
from tests.series.test_series import agrees_with_recomputes, uid

pytestmark = pytest.mark.django_db

JUMP, DAY, HOUR = timedelta(days=40), timedelta(days=1), timedelta(hours=1)


@pytest.fixture
def month(db: None) -> Site:
    return make_month_of_days()


def last_day(site: Site) -> object:
    return SeriesDay.objects.filter(policy=site.policy).order_by("-on").values_list("on", flat=True).first()


def hours(site: Site) -> tuple[object, object]:
    """The first and the last stored hour."""
    begins = SeriesHour.objects.filter(policy=site.policy).order_by("begins_at").values_list("begins_at", flat=True)
    return begins[0], list(begins)[-1]


@pytest.mark.fault("F10")
def test_nothing_is_built_or_thinned_while_a_jump_is_not_confirmed(
    month: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = month.recompute()
    for n in range(1, 20):
        copy = Snapshot.objects.get(pk=template.pk)
        copy.pk, copy.fingerprint, copy.computed_at = None, f"{n}", AS_OF - timedelta(minutes=n)
        copy.save()
    n_snapshots, last_on = Snapshot.objects.count(), last_day(month)
    note_clock(AS_OF, database_at=AS_OF)
    monkeypatch.setenv(clock.VARIABLE, (AS_OF + JUMP).isoformat())
    note_clock(AS_OF + JUMP, database_at=AS_OF + JUMP)
    tasks.build_series_stale()
    work_due_runs(clock=clock.now)
    priorities_tasks.prune_snapshots()
    assert Snapshot.objects.filter(computed_at__lte=AS_OF + DAY).count() >= n_snapshots
    assert last_day(month) == last_on == last_complete_day(AS_OF, site_zone())


@pytest.mark.deep
def test_days_ahead_are_dropped_and_built_again_when_they_come(month: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a jump that lasted: each idle day would keep the targets of the wrong moment."""
    monkeypatch.setenv(clock.VARIABLE, (AS_OF + JUMP).isoformat())
    build_series(month, AS_OF + JUMP)
    assert last_day(month) == last_complete_day(AS_OF + JUMP, site_zone()), "it is believed without a mark"
    build_series_stale(at=AS_OF)
    series = Series.objects.get(policy=month.policy)
    assert series.through_on == last_day(month) == last_complete_day(AS_OF, site_zone())
    assert series.hours_through_at is None
    work_due_runs(clock=lambda: AS_OF)
    assert hours(month) == (AS_OF - 7 * DAY, AS_OF - HOUR)
    month.publish([{"name": "physics", "shares": 1}], at=AS_OF + timedelta(hours=1))
    later = AS_OF + 5 * DAY
    monkeypatch.setenv(clock.VARIABLE, later.isoformat())
    build_series_stale(at=later)
    work_due_runs(clock=lambda: later)
    days = SeriesDay.objects.filter(policy=month.policy, on__gt=AS_OF.date()).order_by("on")
    assert [day.on for day in days] == [AS_OF.date() + n * DAY for n in range(1, 5)]
    assert {day.revision_number for day in days} == {month.policy.head_number}


def test_hours_ahead_on_the_same_day_are_dropped_and_those_before_them_built_again(
    month: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = AS_OF + 3 * HOUR
    monkeypatch.setenv(clock.VARIABLE, ahead.isoformat())
    build_series(month, ahead)
    assert hours(month) == (ahead - 7 * DAY, ahead - HOUR)
    build_series_stale(at=AS_OF)
    work_due_runs(clock=lambda: AS_OF)
    assert hours(month) == (AS_OF - 7 * DAY, AS_OF - HOUR)


@pytest.mark.deep
def test_a_build_by_a_clock_that_is_behind_leaves_no_days_and_hours_without_numbers(
    month: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = AS_OF - 2 * DAY - 3 * HOUR
    monkeypatch.setenv(clock.VARIABLE, behind.isoformat())
    run = request_rebuild(policy_slug=month.policy.slug, at=behind, actor=COMMAND)
    work_due_runs(clock=lambda: behind)
    assert Run.objects.get(pk=run.pk).state == "succeeded"
    physics = [uid(month, "/physics")]
    assert all(load_hours(month.policy, physics).exists[0])
    assert last_day(month) == last_complete_day(behind, site_zone())
    monkeypatch.setenv(clock.VARIABLE, AS_OF.isoformat())
    build_series(month, AS_OF)
    assert last_day(month) == last_complete_day(AS_OF, site_zone())
    assert hours(month)[1] == AS_OF - HOUR
    assert all(load_hours(month.policy, physics).exists[0])
    assert agrees_with_recomputes(month) == 30
