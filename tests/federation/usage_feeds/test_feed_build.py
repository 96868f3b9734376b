"""Feeds are built by runs: a build is there as a whole or not at all, and readers continue after it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.actor import COMMAND
from apps.accounts.clock_watch import note_clock
from apps.federation.document_builds import request_due_builds
from apps.federation.models import FeedHour, FeedMark, UsageFeed
from apps.federation.usage_feeds import feed_build
from apps.federation.usage_feeds.feed_build import FeedInputs, build_feed
from apps.federation.usage_feeds.feeds import make_feed
from apps.policies.publishing.direct import publish_operations
from apps.policies.tree import stored
from apps.policies.tree.columns import TreeColumns, unpack_tree
from apps.runs.models import Run
from tests.federation.builds import build_due
from tests.federation.usage_feeds.feed_site import HOUR, Reader, Teller
from tests.instants import AT


@pytest.fixture
def teller(feed_teller: Teller, settings: LazySettings) -> Teller:
    settings.FAIRSHARE_ISSUER = "site-a.example"
    return feed_teller


def stored_hours() -> list[tuple[object, ...]]:
    return list(FeedHour.objects.order_by("hour_at").values_list("hour_at", "digest", "number", "n_rows"))


def marks() -> list[tuple[object, ...]]:
    return list(FeedMark.objects.order_by("number").values_list("number", "mark"))


@pytest.mark.django_db
def test_the_schedule_builds_what_changed_and_nothing_else(teller: Teller) -> None:
    assert build_due() == [f"feed:{teller.feed.pk}"]
    assert build_due() == []
    teller.job(9, "anna", "P-A1", ago_h=4)
    assert build_due() == [f"feed:{teller.feed.pk}"]
    assert UsageFeed.objects.get().number == 2
    assert build_due(AT + timedelta(hours=11)) == []
    assert build_due(AT + timedelta(hours=12)) == [f"feed:{teller.feed.pk}"], "half of its lifetime is over"
    assert UsageFeed.objects.get().number == 2


@pytest.mark.django_db
def test_a_schedule_that_finds_nothing_new_loads_no_tree(teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs every ten seconds: the tree of an unchanged revision stays in memory, however many feeds there are."""
    build_due()
    loads: list[str] = []

    def load(blob: bytes, digest: str) -> TreeColumns:
        loads.append(digest)
        return unpack_tree(blob, digest)

    monkeypatch.setattr(stored, "unpack_tree", load)

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert request_due_builds(at=AT) == 0
        return len(queries)

    one = count()
    make_feed(policy_slug="grid", entry="/VO-B", name="vo-b", capacity_cores=5, at=AT, actor=COMMAND)
    build_due()
    two = count()
    assert loads == []
    assert one <= 15  # one of them for the namespaces of the sources that rules name
    assert two - one <= 12


@pytest.mark.django_db
def test_a_feed_of_a_removed_entry_is_not_built_again_and_again(teller: Teller) -> None:
    build_due()
    operation = {"op": "archive", "entry": "/VO-A"}
    publish_operations(policy_slug="grid", operations=[operation], reason="Over.", at=AT, actor=COMMAND)
    assert build_due() == []


@pytest.mark.django_db
def test_a_site_without_a_name_builds_nothing(teller: Teller, settings: LazySettings) -> None:
    settings.FAIRSHARE_ISSUER = ""
    assert build_due() == []


@pytest.mark.django_db
def test_a_failed_build_is_tried_again_after_some_minutes(teller: Teller) -> None:
    failed = {"subject": f"feed:{teller.feed.pk}", "state": Run.State.FAILED, "due_at": AT, "created_at": AT}
    Run.objects.create(kind="federation_publish", finished_at=AT - timedelta(minutes=4), **failed)
    assert build_due() == []
    assert build_due(AT + timedelta(minutes=1)) == [f"feed:{teller.feed.pk}"]


@pytest.mark.django_db
def test_a_feed_of_much_usage_is_built_by_a_run(teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nobody waits for it; a feed that is changed meanwhile is served as it was built."""
    monkeypatch.setattr(feed_build, "_MOST_BUCKETS_WAITED_FOR", 3)
    made = make_feed(policy_slug="grid", entry="/VO-A", name="vo-a", capacity_cores=5, at=AT, actor=COMMAND)
    assert made.built_at is None
    assert build_due() == [f"feed:{made.pk}"]
    assert Reader(made, is_first_built=False).follow() == teller.expected()


@pytest.mark.django_db
def test_a_build_that_ends_midway_leaves_everything_as_it_was(teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(teller.feed)
    reader.follow()
    before, known = stored_hours(), marks()
    teller.job(9, "anna", "P-A1", ago_h=4)

    def killed(inputs: FeedInputs) -> str:
        assert stored_hours() != before, "the hours are written by then"
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(feed_build, "_store_running", killed)
        with pytest.raises(KeyboardInterrupt):
            build_feed(teller.feed.pk, at=AT)
    assert (stored_hours(), marks(), UsageFeed.objects.get().number) == (before, known, 1)
    assert reader.follow() == teller.expected()
    assert reader.number == 2


@pytest.mark.django_db
@pytest.mark.parametrize("ahead", [timedelta(days=401), timedelta(days=399, hours=4)])
def test_a_feed_built_while_the_clock_was_ahead_gets_its_hours_back(teller: Teller, ahead: timedelta) -> None:
    """Nobody noted the clock before: the wrong one is believed, and what it deleted is stored again."""
    build_due()
    follower = Reader(teller.feed)
    follower.follow()
    before = FeedHour.objects.count()
    teller.job(9, "anna", "P-A1", ago_h=0.5)
    build_feed(teller.feed.pk, at=AT + ahead)
    assert FeedHour.objects.count() < before
    at = AT + HOUR
    assert build_due(at) == [f"feed:{teller.feed.pk}"]
    assert build_due(at) == []
    assert Reader(UsageFeed.objects.get()).follow(at=at) == teller.expected(at=at)
    assert follower.follow(at=at) == teller.expected(at=at)


@pytest.mark.django_db
def test_a_jump_that_is_not_confirmed_deletes_no_hour_of_a_feed(teller: Teller) -> None:
    note_clock(AT, database_at=AT)
    build_due()
    before = {hour_at for hour_at, *_ in stored_hours()}
    teller.job(9, "anna", "P-A1", ago_h=0.5)
    build_feed(teller.feed.pk, at=AT + timedelta(days=401))
    assert {hour_at for hour_at, *_ in stored_hours()} >= before
    assert Reader(teller.feed).follow() == teller.expected()


@pytest.mark.django_db
def test_a_feed_without_a_stored_range_gets_lost_hours_back(teller: Teller) -> None:
    """Of a release that didn't store it: a clock that was ahead may have deleted some."""
    build_due()
    reader = Reader(teller.feed)
    reader.follow()
    feed = UsageFeed.objects.get()
    FeedHour.objects.filter(feed=feed, hour_at__lt=AT - 20 * HOUR).delete()
    feed.basis = {name: value for name, value in feed.basis.items() if name not in {"first", "through"}}
    feed.save()
    build_due()
    assert Reader(UsageFeed.objects.get()).follow() == teller.expected()
    assert reader.follow() == teller.expected()


@pytest.mark.django_db
def test_hours_ahead_of_the_clock_are_sent_when_they_come(teller: Teller) -> None:
    """A clock that was ahead accepted and sent usage of hours that are still to come."""
    later = AT + timedelta(days=3)
    reader = Reader(teller.feed)
    reader.follow()
    teller.job(9, "anna", "P-A1", ago_h=-48)
    assert max(reader.follow(at=later)) == max(teller.expected(at=later))
    assert reader.follow() == teller.expected()
    assert reader.follow(at=later) == teller.expected(at=later)
