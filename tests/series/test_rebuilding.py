"""What makes days of a series stale, from which one on they are built again, and what a broken build leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from django.db import transaction
from django.test import override_settings

from apps.accounts.actor import COMMAND
from apps.mapping.rules.rule import Rule
from apps.policies.recompute_runs import queue_recompute
from apps.runs.models import Run
from apps.runs.services import claim_run, work_lease
from apps.series import runs
from apps.series.daily_series import DAY_TILES
from apps.series.days import day_at, days_of, site_zone
from apps.series.models import Series, SeriesDay, SeriesHourTile, SeriesTile
from apps.series.stored_series import load_hours, load_series, series_state
from apps.series.tiles import MONTH_TILES, read_month, write_month
from apps.usage.changed_hours import earliest_change
from apps.usage.models import Bucket, ChangedHour, Record, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.quality import bucket_audit
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.overlaps import decide_overlap
from apps.usage.records.record_rows import undo_records
from apps.usage.records.stored_versions import lock_source
from apps.usage.selectors import watermarks
from apps.usage.services import NewSource, make_source
from apps.usage.sources.open_listings import ingest_listing
from apps.usage.sources.services import change_source, tag_of
from tests.examples import first
from tests.priority_site import AS_OF, PROJECTS, WINDOW, Site
from tests.priority_site import build_series as build
from tests.series.test_series import agrees_with_recomputes, publish, read, uid

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
TODAY = AS_OF.date()
Built = Callable[[], None]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.runs.services.BACK_OFF_S", 0.0)


@pytest.fixture
def built(month_of_days: Site) -> Site:
    return month_of_days


def stale(site: Site) -> date | None:
    return series_state(site.policy).stale_from_on


def again(site: Site) -> tuple[date, date]:
    """Build; the days that were made."""
    done = build(site)
    return date.fromisoformat(done["from"]), date.fromisoformat(done["through"])


@pytest.mark.fault("F6")
def test_old_usage_rebuilds_only_later_days(built: Site) -> None:
    before = _tiles()
    assert stale(built) is None
    built.job("bob", "physics", 50, ago_h=24 * 10)
    assert stale(built) == TODAY - 10 * DAY
    assert again(built) == (TODAY - 10 * DAY, TODAY - DAY)
    assert stale(built) is None
    after = _tiles()
    assert set(after) == set(before)
    assert after[date(2026, 10, 1)] == before[date(2026, 10, 1)]
    assert after[date(2026, 11, 1)] != before[date(2026, 11, 1)]
    assert agrees_with_recomputes(built) == 30
    rebuilt = _rebuilt_from_nothing(built)
    assert rebuilt == pytest.approx(read(built, "/physics", "/physics/bob").decayed, rel=1e-12)


def _tiles() -> dict[date, bytes]:
    return {tile.month_on: bytes(tile.data) for tile in SeriesTile.objects.order_by("month_on", "block")}


def _rebuilt_from_nothing(site: Site) -> Any:
    kept = read(site, "/physics", "/physics/bob").decayed
    Series.objects.all().delete()
    SeriesDay.objects.all().delete()
    SeriesTile.objects.all().delete()
    build(site)
    return kept


def test_a_new_day_extends_the_month_or_starts_one(built: Site) -> None:
    for step in range(1, 13):
        at = AS_OF + step * DAY
        built.job("alice", "physics", step, ago_h=-24 * step + 20)
        (asked,) = runs.build_series_stale(at=at)
        done = work_run_now_at(asked, at)
        assert done.result["days"] == 1
    series = load_series(built.policy, [uid(built, "/physics/alice")], from_on=TODAY, to_on=TODAY + 12 * DAY)
    assert series.days.on == tuple(TODAY + n * DAY for n in range(12))
    assert series.used[0].tolist() == [(1 + n) * 3600 for n in range(12)]
    assert len(_tiles()) == 3


def work_run_now_at(run_id: int, at: datetime) -> Run:
    lease = claim_run(at=at, run_id=run_id, clock=lambda: at)
    assert lease is not None
    work_lease(lease)
    done = Run.objects.get(pk=run_id)
    assert done.state == "succeeded", done.error
    return done


def test_a_mapping_change_rebuilds_all_days(built: Site) -> None:
    built.map(built.rule(), Rule(kind="exact", target_uid=uid(built, "/biology/dan"), user_pattern="alice", suffix=""))
    assert stale(built) == TODAY - 30 * DAY
    assert again(built) == (TODAY - 30 * DAY, TODAY - DAY)
    series = read(built, "/physics/alice", "/biology/dan")
    assert not series.used[0].any()
    assert series.used[1].sum() == sum((1 + n) * 3600 for n in range(1, 31, 2))


def test_a_backdated_revision_rebuilds_the_days_since(built: Site) -> None:
    publish(built, PROJECTS, {"window": {"length_s": None, "aging": "none"}}, AS_OF - 5 * DAY)
    assert stale(built) == TODAY - 5 * DAY
    assert again(built)[0] == TODAY - 5 * DAY
    assert read(built, "/").days.revision.tolist() == [2] * 25 + [3] * 5
    assert agrees_with_recomputes(built) == 5


def test_a_revision_of_today_rebuilds_no_past_days(built: Site) -> None:
    publish(built, PROJECTS, {"window": {"length_s": None, "aging": "none"}}, AS_OF)
    assert stale(built) is None
    assert runs.build_series_stale(at=AS_OF) == []


def test_another_engine_zone_or_layout_rebuilds_all_days(built: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with override_settings(TIME_ZONE="Europe/Berlin"):
        assert stale(built) == TODAY - 30 * DAY
    monkeypatch.setattr("apps.engine.VERSION", "another")
    assert stale(built) == TODAY - 30 * DAY


def test_an_overlapping_hour_and_its_decision_rebuild_the_day(make_site: Any) -> None:
    site = make_site(site="here")
    peer = make_source(NewSource(slug="peer", name="peer", namespace="c1", origin="elsewhere"), at=AS_OF, actor=COMMAND)
    publish(site, [{**PROJECTS[0], "scope": "global"}, PROJECTS[1]], WINDOW, AS_OF - 30 * DAY)
    site.map()
    site.job("alice", "physics", 1, ago_h=24 * 6)
    site.job("alice", "physics", 1, ago_h=24 * 3, site="here")
    site.job("alice", "physics", 1, ago_h=24)
    build(site)
    site.job("bob", "physics", 4, ago_h=24 * 3, source=peer, site="here")
    assert stale(site) == TODAY - 3 * DAY
    build(site)
    assert read(site, "/physics/bob").used.sum() == 0  # held
    found = {"site": "here", "kept_slug": site.source.slug, "held_slug": "peer"}
    decide_overlap(**found, counts=True, reason="Other jobs.", at=AS_OF, actor=COMMAND)
    assert stale(site) == TODAY - 3 * DAY
    build(site)
    assert read(site, "/physics/bob").used.sum() == 4 * 3600
    assert agrees_with_recomputes(site) > 0


def test_another_origin_of_a_source_rebuilds_all_days(built: Site) -> None:
    source = Source.objects.get(pk=built.source.pk)
    change_source(slug=source.slug, tag=tag_of(source), new_settings={"origin": "peer"}, at=AS_OF, actor=COMMAND)
    assert stale(built) == TODAY - 30 * DAY
    build(built)
    assert read(built, "/physics").used.sum() == 0


def test_repaired_buckets_rebuild_their_day(built: Site) -> None:
    first = Bucket.objects.filter(hour_at__gte=AS_OF - 9.5 * DAY).order_by("hour_at")[0]
    Bucket.objects.filter(pk=first.pk).update(cpu_s=9.0)
    source = Source.objects.get(pk=built.source.pk)
    assert bucket_audit.repair_buckets(source, reason="A disk.", at=AS_OF, actor=COMMAND).n_repaired == 1
    assert stale(built) == first.hour_at.date()


def test_an_undone_import_rebuilds_its_days(built: Site) -> None:
    before = read(built, "/physics", "/physics/bob")
    built.job("bob", "physics", 3, ago_h=24 * 6)
    build(built)
    undo_usage_of("bob", built)
    assert stale(built) == TODAY - 6 * DAY
    build(built)
    after = read(built, "/physics", "/physics/bob")
    assert after.used.tolist() == before.used.tolist()
    assert not after.decayed[1].any()  # exactly nothing
    assert after.decayed == pytest.approx(before.decayed, rel=1e-12)


@pytest.mark.parametrize("all_again", [False, True])
def test_days_before_all_usage_that_is_left_have_none(built: Site, all_again: bool) -> None:
    built.job("bob", "physics", 3, ago_h=24 * 35)
    assert again(built)[0] == TODAY - 35 * DAY
    assert read(built, "/physics").used[:, 0].any()
    undo_usage_of("bob", built)
    assert stale(built) == TODAY - 35 * DAY, "not the first day of what is left"
    if all_again:
        work_run_now_at(runs.request_rebuild(policy_slug=built.slug, at=AS_OF, actor=COMMAND).pk, AS_OF)
    else:
        build(built)
    after = read(built, "/physics", "/physics/bob")
    assert (after.days.on[0], stale(built)) == (TODAY - 35 * DAY, None)
    assert not after.used[:, :4].any()
    assert not after.decayed[1].any()


def undo_usage_of(user: str, site: Site) -> None:
    added = Record.objects.filter(account__user_name=user).values_list("pk", flat=True)
    with transaction.atomic():
        lock_source(site.source.pk)
        undo_records(site.source.pk, np.array(added, np.int64))


def test_change_notes_are_merged_to_the_earliest(built: Site) -> None:
    slug, before = built.source.slug, watermarks()
    for minute in range(30):
        built.job("bob", "physics", 1, ago_h=24 * 7 - minute / 60)
    then = watermarks()
    built.job("bob", "physics", 1, ago_h=24 * 12)
    assert earliest_change(before) == AS_OF - 12 * DAY - timedelta(hours=1)
    assert earliest_change(then) == AS_OF - 12 * DAY - timedelta(hours=1)
    assert earliest_change(watermarks()) is None
    assert earliest_change({}) == AS_OF - 29 * DAY - timedelta(hours=4)
    assert ChangedHour.objects.filter(source__slug=slug, from_hour_at__gte=AS_OF - 13 * DAY).count() == 1


@pytest.fixture
def berlin() -> Iterator[None]:
    with override_settings(TIME_ZONE="Europe/Berlin"):
        yield


@pytest.mark.usefixtures("berlin")
@pytest.mark.fault("F11")
def test_the_day_on_which_clocks_go_back_has_25_hours() -> None:
    days = days_of(date(2026, 10, 24), date(2026, 10, 26), site_zone())
    assert [(day.to_s - day.from_s) // 3600 for day in days] == [24, 25, 24]
    assert days[1].from_at == datetime(2026, 10, 24, 22, tzinfo=UTC)
    assert days_of(date(2026, 3, 29), date(2026, 3, 29), site_zone())[0].to_at == datetime(2026, 3, 29, 22, tzinfo=UTC)


@pytest.mark.usefixtures("berlin")
def test_a_series_across_a_clock_change_equals_recomputes(built: Site) -> None:
    assert date(2026, 10, 25) in read(built, "/").days.on
    assert agrees_with_recomputes(built) == 30


@pytest.mark.fault("F11")
def test_in_half_hour_zones_an_hour_belongs_to_the_day_of_its_start() -> None:
    with override_settings(TIME_ZONE="Asia/Kolkata"):  # +05:30: a day begins at 18:30 UTC
        zone = site_zone()
        (day,) = days_of(date(2026, 11, 20), date(2026, 11, 20), zone)
        assert (day.from_at, day.to_at) == (
            datetime(2026, 11, 19, 19, tzinfo=UTC),
            datetime(2026, 11, 20, 19, tzinfo=UTC),
        )
        assert day_at(datetime(2026, 11, 19, 18, 45, tzinfo=UTC), zone).on == date(2026, 11, 19)
        assert day_at(datetime(2026, 11, 19, 19, 0, tzinfo=UTC), zone).on == date(2026, 11, 20)


def test_a_series_in_a_half_hour_zone_equals_recomputes(make_site: Callable[..., Site]) -> None:
    with override_settings(TIME_ZONE="Asia/Kolkata"):
        site = make_site()
        publish(site, PROJECTS, WINDOW, AS_OF - 30 * DAY)
        site.map()
        for ago_h in (17, 17.25, 40, 64.6):
            site.job("alice", "physics", 2, ago_h=ago_h)
        build(site)
        assert agrees_with_recomputes(site) == 30


class _Killed(BaseException):
    """As if the process were gone: nothing catches it on the way."""


def test_a_killed_build_resumes_after_the_last_stored_month(
    make_site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site()
    publish(site, PROJECTS, WINDOW, AS_OF - 70 * DAY)
    site.map()
    for ago_d in range(1, 70, 3):
        site.job("alice", "physics", ago_d, ago_h=24 * ago_d)
    run = runs.enqueue_series_build(site.policy, at=AS_OF)
    built: list[str] = []

    def killed(name: str) -> None:
        if name == "series.after_commit":
            raise _Killed

    monkeypatch.setattr(runs, "fault_point", killed)
    lease = claim_run(at=AS_OF, run_id=run.pk, clock=lambda: AS_OF)
    assert lease is not None
    with pytest.raises(_Killed):
        work_lease(lease)
    state = series_state(site.policy)
    assert (state.through_on, state.stale_from_on, state.run) == (date(2026, 9, 30), None, run.pk)
    assert state.progress == pytest.approx(20 / 78)  # and eight days of hours behind the seventy
    monkeypatch.setattr(runs, "fault_point", built.append)
    Run.objects.filter(pk=run.pk).update(lease_until=AS_OF - DAY)
    work_run_now_at(run.pk, AS_OF)
    assert built.count("series.after_commit") == 2 + 8  # two months, and days of hours
    assert agrees_with_recomputes(site) == 40
    state = series_state(site.policy)
    assert (state.first_on, state.through_on, state.stale_from_on) == (TODAY - 70 * DAY, TODAY - DAY, None)


@pytest.mark.fault("F16")
def test_usage_arriving_during_a_build_rebuilds_its_day(built: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    built.job("bob", "physics", 1, ago_h=24 * 29)

    def late(name: str) -> None:
        if name == "series.after_commit" and not Source.objects.filter(slug="late"):
            source = make_source(NewSource(slug="late", name="late", namespace="c1"), at=AS_OF, actor=COMMAND)
            built.job("bob", "physics", 6, ago_h=24 * 28, source=source)

    monkeypatch.setattr(runs, "fault_point", late)
    build(built)
    assert stale(built) == TODAY - 28 * DAY
    build(built)
    assert agrees_with_recomputes(built) == 30


def test_a_build_blocks_no_request(built: Site) -> None:
    """Patient: claimed when nothing else is due, and between two months whatever is due comes first."""
    series = runs.enqueue_series_build(built.policy, at=AS_OF - DAY)
    first = queue_recompute(built.policy, at=AS_OF)
    lease = claim_run(at=AS_OF, clock=lambda: AS_OF)
    assert lease is not None
    assert lease.run_id == first.pk
    work_lease(lease)
    built.job("bob", "physics", 1, ago_h=24 * 25)
    lease = claim_run(at=AS_OF, clock=lambda: AS_OF)
    assert lease is not None
    assert lease.run_id == series.pk
    between = queue_recompute(built.policy, at=AS_OF)
    work_lease(lease)
    ended = dict(Run.objects.filter(pk__in=(series.pk, between.pk)).values_list("pk", "state"))
    assert ended == {series.pk: "succeeded", between.pk: "succeeded"}


def test_jobs_are_demand_on_every_day_they_wait(built: Site) -> None:
    _waits("late", 3.5, started=1.25, cpus=4, requested_s=7200)
    _waits("open", 2.5, cpus=2, requested_s=1800)
    assert stale(built) == TODAY - 3 * DAY
    build(built)
    series = read(built, "/physics", "/physics/bob", "/biology")
    assert series.knows_waiting[:, -3:].all()  # from when the source was known to report submit times
    assert not series.knows_waiting[:, :-3].any()
    assert series.waited_core_s[0, -5:].tolist() == [0, 0, 28800, 32400, 32400]
    assert series.waited_core_s[1].tolist() == series.waited_core_s[0].tolist()
    assert not series.waited_core_s[2].any()


def _waits(job: str, submitted_ago_d: float, *, started: float | None = None, **given: Any) -> None:
    """As of AS_OF 12:00: half a day ago is midnight."""
    source = Source.objects.get(slug="grid-c1")
    start_at = None if started is None else AS_OF - started * DAY
    row = RecordRow(
        job=job,
        user="bob",
        group="physics",
        state="pending" if start_at is None else "finished",
        submit_at=AS_OF - submitted_ago_d * DAY,
        start_at=start_at,
        end_at=None if start_at is None else start_at + timedelta(hours=1),
        **given,
    )
    ingest_batch(source=source, rows=[row], at=AS_OF)


def test_a_source_without_submit_times_has_no_waiting_jobs(built: Site) -> None:
    series = read(built, "/physics")
    assert not series.knows_waiting.any()
    assert not series.waited_core_s.any()
    assert np.count_nonzero(series.used) == 15


@pytest.mark.deep
def test_since_when_a_source_reports_submit_times_is_the_same_whenever_days_are_built(built: Site) -> None:
    def known() -> list[bool]:
        days: list[bool] = read(built, "/physics").knows_waiting[0].tolist()
        return days

    _waits("late", 3.5, started=1.25)
    build(built)
    first = known()
    assert first == [False] * 27 + [True] * 3
    _rebuilt_from_nothing(built)
    assert known() == first
    _waits("older", 6.5, started=5.25)
    assert stale(built) == TODAY - 6 * DAY
    build(built)
    second = known()
    assert second == [False] * 24 + [True] * 6
    _rebuilt_from_nothing(built)
    assert known() == second


@pytest.mark.deep
def test_a_source_counts_for_submit_times_from_its_first_job_on(built: Site) -> None:
    _waits("late", 9.5, started=9.25)
    build(built)
    other = make_source(NewSource(slug="other", name="other", namespace="c1"), at=AS_OF, actor=COMMAND)
    assert stale(built) is None
    built.job("bob", "physics", 1, ago_h=24 * 2, source=other)
    build(built)
    stored = read(built, "/physics").knows_waiting[0].tolist()
    assert stored == [False] * 21 + [True] * 7 + [False] * 2
    _rebuilt_from_nothing(built)
    assert read(built, "/physics").knows_waiting[0].tolist() == stored


def test_demand_of_deleted_records_is_retained(built: Site) -> None:
    _waits("late", 3.5, started=1.25, cpus=4, requested_s=7200)
    build(built)
    before = read(built, "/physics")
    Record.objects.filter(job="late").delete()
    Source.objects.filter(pk=built.source.pk).update(sealed_before_at=AS_OF)
    built.job("alice", "physics", 1, ago_h=24 * 5.1)
    build(built)
    after = read(built, "/physics")
    assert after.waited_core_s.tolist() == before.waited_core_s.tolist()
    assert after.knows_waiting.tolist() == before.knows_waiting.tolist()


def _withdrawn(site: Site) -> None:
    row = RecordRow(job="open", user="bob", group="physics", state="withdrawn", submit_at=AS_OF - 4.5 * DAY)
    ingest_batch(source=site.source, rows=[row], at=AS_OF)


def _no_longer_listed(site: Site) -> None:
    ingest_listing(source=site.source, batch=[], at=AS_OF + timedelta(hours=1))


def _undone(site: Site) -> None:
    ids = Record.objects.filter(job="open").values_list("pk", flat=True)
    with transaction.atomic():
        lock_source(site.source.pk)
        undo_records(site.source.pk, np.array(ids, np.int64))


def _ended_too_late(site: Site) -> None:
    Source.objects.filter(pk=site.source.pk).update(sealed_before_at=AS_OF - 6 * DAY)
    end_at = AS_OF - 7 * DAY
    row = RecordRow(
        job="open",
        user="bob",
        group="physics",
        state="finished",
        submit_at=AS_OF - 4.5 * DAY,
        start_at=end_at,
        end_at=end_at,
        cpus=1,
    )
    ingest_batch(source=Source.objects.get(pk=site.source.pk), rows=[row], at=AS_OF)


@pytest.mark.parametrize("end", first(1, [_withdrawn, _no_longer_listed, _undone, _ended_too_late]))
def test_a_job_that_waited_and_never_ran_is_no_demand_of_past_days_any_more(
    built: Site, end: Callable[[Site], None]
) -> None:
    _waits("open", 4.5, cpus=2, requested_s=1800)
    build(built)
    assert read(built, "/physics").waited_core_s[0, -4:].all()
    end(built)
    assert stale(built) == TODAY - 4 * DAY
    build(built)
    stored = read(built, "/physics")
    assert not stored.waited_core_s.any()
    _rebuilt_from_nothing(built)
    assert read(built, "/physics").waited_core_s.tolist() == stored.waited_core_s.tolist()


@pytest.mark.parametrize("damage", ["cut", "changed", "missing"])
def test_a_build_makes_days_and_hours_again_whose_tiles_are_damaged(built: Site, damage: str) -> None:
    """Else each later build would fail as this one."""
    policy, hour = built.policy, timedelta(hours=1)
    build(built, AS_OF)
    n_slots = Series.objects.get(policy=policy).n_slots
    if damage == "cut":
        for on, tiles in ((TODAY.replace(day=1), MONTH_TILES), (TODAY, DAY_TILES)):
            cut = read_month(policy, on, n_days=1, n_slots=n_slots, tiles=tiles)
            write_month(policy, on, cut, tiles=tiles)
    elif damage == "missing":
        SeriesTile.objects.filter(policy=policy, month_on=TODAY.replace(day=1)).delete()
        SeriesHourTile.objects.filter(policy=policy, day_on=TODAY).delete()
    else:
        SeriesTile.objects.filter(policy=policy, month_on=TODAY.replace(day=1)).update(digest="0" * 64)
        SeriesHourTile.objects.filter(policy=policy, day_on=TODAY).update(digest="0" * 64)
    later = AS_OF + DAY - 2 * hour
    work_run_now_at(runs.enqueue_series_build(policy, at=later).pk, later)
    assert agrees_with_recomputes(built) > 0
    hours = load_hours(policy, [uid(built, "/physics")])
    assert len(hours.days.on) == 7 * 24
    assert hours.exists[0][hours.days.on.index(AS_OF - hour)]
