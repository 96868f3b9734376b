"""Days of the stored series are computed again from the buckets, and what differs is named with its place."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.core.errors import NotAllowed
from apps.runs.services import work_run_now
from apps.series import day_audit
from apps.series.day_audit import Audit, audit_days
from apps.series.models import Series, SeriesDay
from apps.series.runs import enqueue_series_build, request_rebuild
from apps.series.stored_series import series_state
from apps.series.tiles import read_month, write_month
from tests.priority_site import AS_OF, WINDOW, Site
from tests.series.test_series import DAY, TODAY, publish, read

pytestmark = pytest.mark.django_db
WRONG_ON = date(2026, 11, 5)


@pytest.fixture
def built(month_of_days: Site) -> Site:
    return month_of_days


def plant(site: Site, name: str = "decayed", factor: float = 2.0) -> None:
    """Another value of all entries in the tiles of one day, as a wrong build leaves it."""
    month_on = WRONG_ON.replace(day=1)
    n_slots = Series.objects.get(policy=site.policy).n_slots
    month = read_month(site.policy, month_on, n_days=TODAY.day - 1, n_slots=n_slots)
    month[name][WRONG_ON.day - 1] = month[name][WRONG_ON.day - 1] * factor
    write_month(site.policy, month_on, month)


def audits(*drawn: int) -> list[Audit]:
    """With these draws, in turn; the last one again and again."""
    numbers = list(drawn)
    return list(audit_days(draw=lambda below: (numbers.pop(0) if len(numbers) > 1 else numbers[0]) % below))


def test_all_days_of_a_small_series_are_compared_in_a_run_and_are_right(built: Site) -> None:
    (audit,) = audits(0)
    assert (audit.n_stored, audit.has_windows, audit.differences) == (30, True, ())
    assert audit.days == tuple(TODAY - n * DAY for n in range(30, 0, -1))
    (from_another_on,) = audits(0, 17)
    assert (from_another_on.days, from_another_on.differences) == (audit.days, ())


@pytest.mark.parametrize("name", ["used", "decayed", "target", "n_active", "flags"])
def test_a_planted_wrong_day_is_named_with_the_entry_and_both_values(built: Site, name: str) -> None:
    right = read(built, "/").decayed[0, -15]
    plant(built, name)
    (audit,) = audits(0)
    (found,) = audit.differences
    assert found.on == WRONG_ON
    assert found.stored != found.computed
    if name == "decayed":
        assert (found.path, found.name) == ("/", "decayed")
        assert (found.stored, found.computed) == pytest.approx((2 * right, right))


def test_a_missing_day_and_another_total_are_named(built: Site) -> None:
    SeriesDay.objects.filter(on=WRONG_ON).delete()
    SeriesDay.objects.filter(on=WRONG_ON + DAY).update(root_used=7)
    (audit,) = audits(0)
    assert [(each.on, each.name) for each in audit.differences] == [
        (WRONG_ON, "revision"),
        (WRONG_ON + DAY, "root_used"),
    ]


def test_each_day_of_a_large_series_is_compared_in_some_run(built: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(day_audit, "MOST_ENTRY_DAYS", 1)
    monkeypatch.setattr(day_audit, "MOST_AUDITED_ENTRIES", 3)
    plant(built)
    found: list[tuple[Sequence[date], bool]] = []
    for number in range(30):
        (audit,) = audits(0, number, 2)
        found.append((audit.days, bool(audit.differences)))
    assert [days for days, _differs in found] == [(TODAY - n * DAY,) for n in range(30, 0, -1)]
    assert [differs for _days, differs in found].count(True) == 1
    assert found[15] == ((WRONG_ON,), True)


def test_with_too_many_buckets_the_usage_of_one_day_alone_is_compared(
    built: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(day_audit, "MOST_AUDITED_BUCKETS", 1)
    (audit,) = audits(0, 15)
    assert (audit.days, audit.has_windows, audit.differences) == ((WRONG_ON,), False, ())
    plant(built)
    assert audits(0, 15)[0].differences == ()
    plant(built, "used")
    assert audits(0, 15)[0].differences[0].name == "used"


def test_days_that_wait_to_be_built_again_are_not_compared(built: Site) -> None:
    built.job("bob", "physics", 50, ago_h=24 * 20)
    (audit,) = audits(0)
    assert audit.days[-1] == TODAY - 21 * DAY
    assert audit.differences == ()


def test_days_of_several_revisions_are_compared_with_their_own(built: Site) -> None:
    publish(built, [{"name": "physics", "kind": "group", "shares": 1}], WINDOW, AS_OF - 5 * DAY)
    done = work_run_now(request_rebuild(policy_slug=built.slug, at=AS_OF, actor=COMMAND).pk)
    assert done.state == "succeeded", done.error
    assert audits(0)[0].differences == ()


def test_a_requested_rebuild_stores_every_day_anew_also_beside_a_waiting_run(built: Site, as_alice: Actor) -> None:
    plant(built)
    assert series_state(built.policy).stale_from_on is None
    with pytest.raises(NotAllowed):
        request_rebuild(policy_slug=built.slug, at=AS_OF, actor=as_alice)
    waiting = enqueue_series_build(built.policy, at=AS_OF)
    done = work_run_now(request_rebuild(policy_slug=built.slug, at=AS_OF, actor=COMMAND).pk)
    assert done.pk != waiting.pk
    assert (done.state, done.result["days"]) == ("succeeded", 30)
    assert audits(0)[0].differences == ()


@pytest.mark.parametrize("n_days", [1, 3, 18])
def test_a_month_with_fewer_days_than_are_listed_is_damaged_from_each_day_on(built: Site, n_days: int) -> None:
    """numpy repeats a single row for all days that are asked for."""
    month_on = WRONG_ON.replace(day=1)
    n_slots = Series.objects.get(policy=built.policy).n_slots
    write_month(built.policy, month_on, read_month(built.policy, month_on, n_days=n_days, n_slots=n_slots))
    for first in range(30):
        (audit,) = audits(0, first)
        assert (audit.damage, audit.differences) == (f"A tile has {n_days} of {TODAY.day - 1} stored rows", ())


def test_waiting_is_compared_with_the_other_numbers_of_windows(built: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    month_on = WRONG_ON.replace(day=1)
    n_slots = Series.objects.get(policy=built.policy).n_slots
    month = read_month(built.policy, month_on, n_days=TODAY.day - 1, n_slots=n_slots)
    month["waited_core_s"][WRONG_ON.day - 1] += 7.0
    write_month(built.policy, month_on, month)
    (audit,) = audits(0)
    assert [(each.on, each.name, each.stored, each.computed) for each in audit.differences] == [
        (WRONG_ON, "waited_core_s", 7.0, 0.0)
    ]
    monkeypatch.setattr(day_audit, "MOST_AUDITED_BUCKETS", 4)
    (small,) = audits(audit.days.index(WRONG_ON))
    assert (small.days, small.has_windows, small.differences) == ((WRONG_ON,), False, ())
