from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from django.db.models import Count

from apps.accounts.actor import COMMAND, Actor, TokenBounds
from apps.accounts.models import Account, User
from apps.core.errors import Invalid, NotFound
from apps.usage.arrays import load_open_records, load_usage
from apps.usage.models import Bucket, Overlap, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.selectors import BucketQuery, get_source, list_buckets, list_sources, watermarks
from apps.usage.services import NewSource, make_source
from tests.instants import AT

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def hour(n: float) -> datetime:
    return MIDNIGHT + timedelta(hours=n)


def row(job: str, **given: Any) -> RecordRow:
    values = {"user": "alice", "start_at": hour(1), "end_at": hour(2), "cpus": 1.0, "site": "north", **given}
    return RecordRow(job=job, **values)


@pytest.fixture
def filled(source: Source) -> Source:
    rows = [
        row("1", start_at=hour(22.5), end_at=hour(25.5)),
        row("2", user="bob", queue="long", site="south"),
        row("3", user="bob", site="south", mem_mb=1024),
        row("4", state="running", end_at=None, requested_s=7200, mem_mb=2048),
        row("5", state="pending", start_at=None, end_at=None, submit_at=hour(0)),
        row("6", state="withdrawn", end_at=None),
    ]
    ingest_batch(source=source, rows=rows, at=AT)
    return source


def test_buckets_load_as_arrays_within_the_window(filled: Source) -> None:
    usage = load_usage(sources=[filled.pk], from_at=None, to_at=AT)
    assert usage.cpu_s.sum() == 3 * 3600 + 2 * 3600
    assert usage.mem_gb_s.sum() == 3600
    assert sorted(usage.hour_epoch.tolist())[0] == int(hour(1).timestamp())
    later = load_usage(sources=[filled.pk], from_at=hour(23), to_at=hour(25))
    assert sorted(later.hour_epoch.tolist()) == [int(hour(23).timestamp()), int(hour(24).timestamp())]
    nothing = load_usage(sources=[], from_at=None, to_at=AT)
    assert len(nothing.cpu_s) == len(nothing.account_id) == 0


def test_open_records_load_as_rates(filled: Source) -> None:
    opened = load_open_records(sources=[filled.pk])
    assert sorted(opened.is_running.tolist()) == [False, True]
    running = int(np.flatnonzero(opened.is_running)[0])
    assert opened.start_epoch[running] == hour(1).timestamp()
    assert (opened.mem_gb[running], opened.requested_s[running]) == (2, 7200)
    assert np.isnan(opened.start_epoch[1 - running])
    assert np.isnan(opened.requested_s[1 - running])
    assert len(load_open_records(sources=[]).cpus) == 0


def test_watermarks_name_every_source(filled: Source) -> None:
    make_source(NewSource(slug="quiet", name="Quiet"), at=AT, actor=COMMAND)
    assert watermarks() == {"cluster": 1, "quiet": 0}


def test_a_source_has_its_counts(filled: Source) -> None:
    found = get_source(slug="cluster", actor=COMMAND)
    assert (found.n_records, found.n_accounts, found.n_rejected) == (6, 2, 0)
    assert found.last_record_end_at == hour(25.5)
    with pytest.raises(NotFound):
        get_source(slug="nowhere", actor=COMMAND)


def test_a_token_bound_to_a_source_sees_that_one() -> None:
    for slug in ("one", "two"):
        make_source(NewSource(slug=slug, name=slug), at=AT, actor=COMMAND)
    user = User.objects.create(username="c")
    bound = Actor(user=user, via="api", token=TokenBounds("x", frozenset({"usage:write"}), source_slug="two"))
    assert [found.slug for found in list_sources(actor=bound)] == ["two"]
    assert [found.slug for found in list_sources(actor=Actor(user=user, via="page"))] == ["one", "two"]
    with pytest.raises(NotFound):
        get_source(slug="one", actor=bound)


@pytest.mark.usefixtures("filled")
def test_hours_are_summed_over_queues_and_listed_in_order() -> None:
    rows = list_buckets(BucketQuery(source="cluster"), actor=COMMAND)
    assert [(one.at, one.site, one.cpu_s) for one in rows] == [
        (hour(1), "south", 7200),
        (hour(2), "south", 0),
        (hour(22), "north", 1800),
        (hour(23), "north", 3600),
        (hour(24), "north", 3600),
        (hour(25), "north", 1800),
    ]
    assert rows[0].account is not None
    assert rows[0].account.user == "bob"
    assert sum(one.jobs for one in rows) == 3


@pytest.mark.usefixtures("filled")
def test_days_and_sites_are_sums_of_the_same_buckets() -> None:
    rows = list_buckets(BucketQuery(step="day", by="site"), actor=COMMAND)
    assert [(one.at, one.site, one.cpu_s, one.account) for one in rows] == [
        (hour(0), "north", 5400, None),
        (hour(0), "south", 7200, None),
        (hour(24), "north", 5400, None),
    ]


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("by", ["account", "site"])
@pytest.mark.parametrize("step", ["hour", "day"])
def test_pages_add_up_to_the_whole_list(by: str, step: str) -> None:
    whole = list_buckets(BucketQuery(by=by, step=step), actor=COMMAND)
    pages, after = [], None
    while page := list_buckets(BucketQuery(by=by, step=step, after=after, limit=1), actor=COMMAND):
        pages += page
        after = page[-1].place
    assert pages == whole


@pytest.mark.usefixtures("filled")
def test_buckets_are_filtered_by_name_site_and_time() -> None:
    assert {one.site for one in list_buckets(BucketQuery(site="south"), actor=COMMAND)} == {"south"}
    assert sum(one.cpu_s for one in list_buckets(BucketQuery(account="alice"), actor=COMMAND)) == 3 * 3600
    assert len(list_buckets(BucketQuery(from_at=hour(23), to_at=hour(25)), actor=COMMAND)) == 2
    assert list_buckets(BucketQuery(account="nobody"), actor=COMMAND) == []
    with pytest.raises(NotFound):
        list_buckets(BucketQuery(source="nowhere"), actor=COMMAND)


@pytest.mark.usefixtures("filled")
def test_a_person_sees_the_usage_of_their_own_accounts_only() -> None:
    alice = User.objects.create(username="alice")
    actor = Actor(user=alice, via="page")
    assert list_buckets(BucketQuery(), actor=actor) == []
    Account.objects.filter(user_name="alice").update(person=alice)
    assert sum(one.cpu_s for one in list_buckets(BucketQuery(), actor=actor)) == 3 * 3600
    assert list_buckets(BucketQuery(account="bob"), actor=actor) == []
    collector = Actor(user=alice, via="api", token=TokenBounds("x", frozenset({"usage:write"}), source_slug="cluster"))
    assert sum(one.cpu_s for one in list_buckets(BucketQuery(source="cluster"), actor=collector)) == 5 * 3600


@pytest.mark.parametrize(
    "after", [[], ["x", 1, 1, "s"], [1, 1, 1, "s"], ["2026-01-01", 1, 1, "s"], ["2026-01-01T00:00:00Z", 2**70, 1, "s"]]
)
def test_an_invalid_cursor_is_rejected(after: list[Any]) -> None:
    with pytest.raises(Invalid) as caught:
        list_buckets(BucketQuery(after=after), actor=COMMAND)
    assert caught.value.code == "bad_cursor"


def test_a_load_separates_sites_and_omits_unrequested_columns(filled: Source) -> None:
    whole = load_usage(sources=[filled.pk], from_at=None, to_at=AT)
    some = load_usage(sources=[filled.pk], from_at=None, to_at=AT, sites=["elsewhere", "south"], resources=["gpu_s"])
    of_site = dict(Bucket.objects.values_list("site").annotate(n=Count("*")))
    codes = some.site_code.tolist() if some.site_code is not None else []
    assert codes.count(2) == of_site["south"]
    assert codes.count(0) == sum(n for site, n in of_site.items() if site != "south")
    assert whole.site_code is None
    assert some.resources == ("gpu_s",)
    assert not some.cpu_s.any()
    assert sorted(some.gpu_s.tolist()) == sorted(whole.gpu_s.tolist())
    assert sorted(some.hour_epoch.tolist()) == sorted(whole.hour_epoch.tolist())


def test_held_hours_are_excluded_until_they_are_approved(filled: Source) -> None:
    site, first_at = Bucket.objects.order_by("hour_at").values_list("site", "hour_at")[0]
    whole = load_usage(sources=[filled.pk], from_at=None, to_at=AT)
    row = Overlap.objects.create(
        site=site, kept=filled, held=filled, from_at=first_at, to_at=first_at + timedelta(hours=1), found_at=AT
    )
    held = Bucket.objects.filter(site=site, hour_at=first_at).count()
    assert held
    for state, n_out in (("held", held), ("dropped", held), ("counted", 0)):
        Overlap.objects.filter(pk=row.pk).update(state=state)
        found = load_usage(sources=[filled.pk], from_at=None, to_at=AT)
        assert len(found.account_id) == len(whole.account_id) - n_out
