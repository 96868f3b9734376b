"""What a site sends of its usage: a reader that follows the numbers has the sums, whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, User
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, TooLarge
from apps.federation.documents.site_keys import rotate_key
from apps.federation.models import FeedHour, FeedMark, FeedRunning, Mount, UsageFeed
from apps.federation.usage_feeds import feed_build, feed_documents
from apps.federation.usage_feeds.feed_build import build_feed
from apps.federation.usage_feeds.feed_documents import read_feed
from apps.federation.usage_feeds.feeds import drop_feed, list_feeds, make_feed
from apps.federation.usage_feeds.stored_rows import unpack_running
from apps.policies.models import Policy
from apps.policies.publishing.direct import publish_operations
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Import
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.overlaps import decide_overlap
from apps.usage.records.undo import undo_import
from apps.usage.services import NewSource, make_source
from apps.usage.sources.services import change_source, tag_of
from tests.federation.usage_feeds.feed_site import HOUR, PLACES, Reader, Teller, built_and_read, make_teller, opened
from tests.instants import AT
from tests.refusals import refused

DAY = timedelta(days=1)

pytestmark = pytest.mark.django_db


@pytest.fixture
def teller(feed_teller: Teller, settings: LazySettings) -> Teller:
    settings.FAIRSHARE_ISSUER = "site-a.example"
    return feed_teller


@pytest.fixture
def reader(teller: Teller) -> Reader:
    found = Reader(teller.feed)
    assert found.follow() == teller.expected() != {}
    return found


def publish(**operation: Any) -> None:
    publish_operations(policy_slug="grid", operations=[operation], reason="So.", at=AT, actor=COMMAND)


def test_the_first_feed_document_has_all_hours_of_the_subtree_by_uid(teller: Teller) -> None:
    found = built_and_read(teller.feed, since=0, at=AT)
    assert found is not None
    document = opened(found)
    head = document.head
    assert (head.issuer, head.feed, head.root) == ("site-a.example", "vo-a", teller.uid("/VO-A"))
    assert (head.number, head.since, head.more, head.site, head.capacity_cores) == (1, 0, False, "local", 100.0)
    assert (head.issued_at, head.expires_at, head.enforces) == (AT, AT + DAY, None)
    anna = document.entries.index(teller.uid("/VO-A/P-A1/anna"))
    cpu_s = document.amounts[document.row_entry == anna, 0]
    assert cpu_s.tolist() == [4 * 3600, 4 * 3600, 0]  # the last hour is that of its end, which counts the job
    assert document.amounts[document.row_entry == anna, 1].tolist() == [3600, 3600, 0]
    assert document.amounts[document.row_entry == anna, 5].tolist() == [0, 0, 1]
    assert teller.uid("/VO-B/P-B1/dora") not in document.entries


def test_usage_mapped_to_the_entry_itself_is_included(teller: Teller) -> None:
    teller.map(P_A1="/VO-A/P-A1", of_a="/VO-A")
    found = Reader(teller.feed).follow()
    assert found == teller.expected()
    assert any(teller.uid("/VO-A") in of for of in found.values())


def test_the_document_contains_no_account_group_or_job_names(teller: Teller) -> None:
    teller.job(
        "secretjob77",
        "secretuser",
        "P-A1",
        dn="/CN=Secret Person",
        project="secretproject",
        site="secretsite",
        queue="secretqueue",
        qos="secretqos",
    )
    teller.job("secretjob78", "anna", "P-A1", state="running", end_at=None, site="secretsite")
    found = built_and_read(teller.feed, since=0, at=AT)
    assert found is not None
    assert Reader(teller.feed).follow() == teller.expected()
    for name in ("secret", "Secret", "anna", "bert", "carl", "P-A1", "VO-A", "cluster", "CN="):
        assert name.encode() not in found.data.split(b"\n")[0], name


def late_record(teller: Teller) -> None:
    teller.job(20, "carl", "P-A2", ago_h=90, hours=3)


def correction(teller: Teller) -> None:
    teller.job(1, "anna", "P-A1", ago_h=3, hours=2, cpus=1.0, revision=1)


def withdrawn(teller: Teller) -> None:
    teller.job(3, "carl", "P-A2", ago_h=30, hours=5, state="withdrawn", revision=1)


def undone_import(teller: Teller) -> None:
    run = Run.objects.create(kind="usage_import", state="succeeded", subject="source:cluster", due_at=AT, created_at=AT)
    made = Import.objects.create(source=teller.source, run=run, file_name="f", n_bytes=0, created_at=AT)
    times: Any = {"submit_at": AT - 60 * HOUR, "start_at": AT - 51 * HOUR, "end_at": AT - 50 * HOUR}
    row = RecordRow(job="30", user="bert", group="P-A1", cpus=7.0, **times)
    run.counts = ingest_batch(source=teller.source, rows=[row], at=AT, run=run).as_dict()
    run.save(update_fields=["counts"])
    reader = Reader(teller.feed)
    assert reader.follow() == teller.expected()
    asked = undo_import(import_id=made.pk, reason="The wrong file.", at=AT, actor=COMMAND)
    assert asked.undone_run_id is not None
    assert work_run_now(asked.undone_run_id).state == "succeeded"
    assert reader.follow() == teller.expected()


def mapping_moved(teller: Teller) -> None:
    teller.map(**PLACES | {"P_A2": "/VO-B", "P_B1": "/VO-A/P-A2"})


def entry_moved_out(teller: Teller) -> None:
    publish(op="move", entry="/VO-A/P-A1", parent="/VO-B")


def entry_moved_in(teller: Teller) -> None:
    publish(op="move", entry="/VO-B/P-B1", parent="/VO-A")


def entry_archived(teller: Teller) -> None:
    publish(op="archive", entry="/VO-A/P-A1/bert")


def hours_held(teller: Teller) -> None:
    peer = make_source(NewSource(slug="other", name="Other", origin="elsewhere.example"), at=AT, actor=COMMAND)
    teller.job(40, "x", "y", source=peer, site="north", ago_h=3, hours=2)
    teller.job(41, "anna", "P-A1", site="north", ago_h=3, hours=3)
    assert Reader(teller.feed).follow() == teller.expected()
    decide_overlap(
        site="north", kept_slug="other", held_slug="cluster", counts=True, reason="Others.", at=AT, actor=COMMAND
    )


def source_became_anothers(teller: Teller) -> None:
    second = make_source(NewSource(slug="second", name="Second", namespace="c1"), at=AT, actor=COMMAND)
    teller.job(50, "carl", "P-A2", source=second)
    assert Reader(teller.feed).follow() == teller.expected()
    second.refresh_from_db()
    given = {"origin": "elsewhere.example"}
    change_source(slug="second", tag=tag_of(second), new_settings=given, at=AT, actor=COMMAND)


def everything(teller: Teller) -> None:
    for change in CHANGES[:-1]:
        change(teller)


CHANGES: list[Callable[[Teller], None]] = [
    late_record,
    correction,
    withdrawn,
    undone_import,
    mapping_moved,
    hours_held,
    source_became_anothers,
    entry_archived,
    entry_moved_in,
    entry_moved_out,
    everything,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_reader_of_all_documents_has_the_same_sums_as_the_feed(
    teller: Teller, reader: Reader, change: Callable[[Teller], None]
) -> None:
    number, before = reader.number, reader.follow()
    change(teller)
    expected = teller.expected()
    assert (expected == before) == (change in (undone_import, source_became_anothers))
    assert reader.follow() == expected
    if expected != before:
        assert reader.number > number
    assert Reader(teller.feed).follow() == expected  # a new reader has these sums
    assert built_and_read(teller.feed, since=reader.number, known_etag=reader.etag, at=AT) is None


def test_only_changed_hours_are_sent_again(teller: Teller, reader: Reader) -> None:
    late_record(teller)
    reader.follow()
    assert (reader.number, len(reader.documents)) == (2, 2)
    hour = int(AT.timestamp()) // 3600
    assert reader.documents[-1].hours.tolist() == [hour - 93, hour - 92, hour - 91, hour - 90]  # in which it ended


def test_an_hour_that_became_empty_is_sent_as_empty(teller: Teller, reader: Reader) -> None:
    withdrawn(teller)
    reader.fetched()
    document = reader.documents[-1]
    assert len(document.hours) == 6
    assert not len(document.row_hour)


def test_a_change_without_usage_effect_makes_no_new_number(teller: Teller, reader: Reader) -> None:
    publish(op="set_shares", entry="/VO-A/P-A1", shares=60)
    publish(op="set_shares", entry="/VO-B", shares=60)
    teller.job(60, "dora", "P-B1", ago_h=5)
    teller.job(61, "newcomer", "P-Z", ago_h=5)
    assert built_and_read(teller.feed, since=reader.number, known_etag=reader.etag, at=AT) is None
    assert UsageFeed.objects.get().number == reader.number == 1


def test_a_tree_change_without_usage_effect_resends_no_hours(
    teller: Teller, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even with an account that is new: its usage is newer than what was sent."""
    looked_from: list[int] = []
    changed = feed_build._changed

    def note(inputs: feed_build.FeedInputs, from_hour: int) -> Any:
        looked_from.append(from_hour)
        return changed(inputs, from_hour)

    monkeypatch.setattr(feed_build, "_changed", note)
    publish(op="set_shares", entry="/VO-A/P-A1", shares=60)
    reader.follow()
    assert looked_from == []
    publish(op="set_shares", entry="/VO-A/P-A1", shares=50)
    teller.job(70, "anna", "P-A1", ago_h=1.5, project="new")
    assert reader.follow() == teller.expected()
    assert looked_from == [int(AT.timestamp()) // 3600 - 3]


def test_hours_beyond_the_retention_are_not_sent(teller: Teller) -> None:
    make_feed(policy_slug="grid", entry="/VO-A", name="vo-a", capacity_cores=5, keeps_days=1, at=AT, actor=COMMAND)
    late_record(teller)
    reader = Reader(teller.feed)
    first = int(AT.timestamp()) // 3600 + 1 - 24
    expected = {hour: of for hour, of in teller.expected().items() if hour >= first}
    assert reader.follow() == expected
    assert len(expected) < len(teller.expected())
    make_feed(policy_slug="grid", entry="/VO-A", name="vo-a", capacity_cores=5, keeps_days=30, at=AT, actor=COMMAND)
    assert reader.follow() == teller.expected()


def test_a_future_hour_is_sent_once_it_has_begun(teller: Teller, reader: Reader) -> None:
    teller.job(80, "anna", "P-A1", ago_h=-0.05, hours=0.5)
    later = AT + 0.1 * HOUR
    assert reader.follow(at=AT - 0.1 * HOUR) == teller.expected(at=AT - 0.1 * HOUR)
    assert built_and_read(teller.feed, since=reader.number, known_etag=reader.etag, at=AT - 0.05 * HOUR) is None
    assert reader.follow(at=later) == teller.expected(at=later)
    assert int(AT.timestamp()) // 3600 in reader.sums


@pytest.fixture
def small_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_build, "MOST_FEED_ROWS", 3)


@pytest.mark.usefixtures("small_documents")
def test_many_rows_are_split_into_several_documents(teller: Teller) -> None:
    """With a change between two of the documents."""
    reader = Reader(teller.feed)
    assert reader.fetched()
    late_record(teller)
    teller.job(3, "carl", "P-A2", ago_h=30, hours=5, cpus=2.0, revision=1)
    assert reader.follow() == teller.expected()
    assert len(reader.documents) > 3
    assert all(len(document.row_hour) <= 3 for document in reader.documents)
    numbers = [document.head.number for document in reader.documents]
    assert numbers == sorted(set(numbers))
    assert [document.head.more for document in reader.documents][-1] is False
    assert Reader(teller.feed).follow() == teller.expected()


def test_documents_with_many_entries_have_fewer_rows(teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that they never name more entries than a document may; what can't be published at all says so."""
    monkeypatch.setattr(feed_build, "_MOST_NAMING_ROWS", 2)
    reader = Reader(teller.feed)
    assert reader.follow() == teller.expected()
    assert len(reader.documents) > 2
    assert all(len(document.entries) <= 2 for document in reader.documents)
    monkeypatch.setattr(feed_documents, "MOST_DOCUMENT_ENTRIES", 0)
    with refused(TooLarge, naming="vo-a"):
        built_and_read(teller.feed, since=0, at=AT)


def test_an_up_to_date_reader_costs_few_queries(teller: Teller, reader: Reader) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert read_feed(teller.feed, since=reader.number, known_etag=reader.etag, at=AT + HOUR / 2) is None
    asked = [query["sql"] for query in queries.captured_queries]
    assert len(asked) <= 8
    assert {sql.split()[0] for sql in asked} == {"SELECT", "SAVEPOINT", "RELEASE"}, "reading writes nothing"
    assert built_and_read(teller.feed, since=0, known_etag=reader.etag, at=AT) is None  # the very answer it had
    assert built_and_read(teller.feed, since=reader.number, known_etag="x-1", at=AT) is not None
    asked_again = built_and_read(teller.feed, since=reader.number, at=AT)
    assert asked_again is not None
    assert not len(opened(asked_again).hours)


def test_a_nonce_is_valid_for_one_number_only(teller: Teller, reader: Reader) -> None:
    """A reader that starts again after a later document isn't answered that it is up to date."""
    late_record(teller)
    reader.follow()
    again = built_and_read(teller.feed, since=0, known_etag=reader.etag, at=AT)
    assert again is not None
    assert len(opened(again).hours) == len(teller.expected())


def test_changed_metadata_makes_a_new_document_without_a_new_number(
    teller: Teller, reader: Reader, settings: LazySettings
) -> None:
    def heads() -> Any:
        assert reader.fetched() is False
        return reader.documents[-1].head

    make_feed(policy_slug="grid", entry="/VO-A", name="vo-a", capacity_cores=250, at=AT, actor=COMMAND)
    assert heads().capacity_cores == 250
    settings.FAIRSHARE_SITE = "South"
    assert heads().site == "South"
    mount = Mount.objects.create(
        policy=teller.policy,
        entry_uid=teller.feed.entry_uid,
        url="https://vo-a.example/x",
        issuer="vo-a.example",
        publication="vo-a",
        fingerprint="0" * 64,
        made_at=AT,
    )
    assert reader.fetched() is False
    n_documents = len(reader.documents)
    mount.applied_version = 41
    mount.save(update_fields=["applied_version"])
    enforced = heads().enforces
    assert (enforced.issuer, enforced.publication, enforced.version) == ("vo-a.example", "vo-a", 41)
    assert len(reader.documents) == n_documents + 1
    assert built_and_read(reader.feed, since=1, known_etag=reader.etag, at=AT + 11 * HOUR) is None
    found = built_and_read(reader.feed, since=1, known_etag=reader.etag, at=AT + 13 * HOUR)
    assert found is not None  # half of its time is over
    assert opened(found).head.expires_at == AT + 37 * HOUR
    rotate_key(reason="Lost.", at=AT, actor=COMMAND)
    assert built_and_read(reader.feed, since=1, known_etag=reader.etag, at=AT) is not None
    assert UsageFeed.objects.get().number == 1


def test_a_number_beyond_the_newest_is_rejected(teller: Teller, reader: Reader) -> None:
    with pytest.raises(Conflict) as refusal:
        built_and_read(teller.feed, since=2, at=AT)
    assert refusal.value.code == "since_ahead"
    for since in (-1, 1.0, True, "1"):
        with pytest.raises(Invalid):
            built_and_read(teller.feed, since=since, at=AT)
    with pytest.raises(Conflict) as refusal:
        built_and_read(teller.feed, since=1, seen=2, at=AT)
    assert refusal.value.code == "since_ahead"
    for since, seen in ((1, 0), (0, 1), (1, 1.0), (1, True), (1, "1")):
        with refused(Invalid, field="seen"):
            built_and_read(teller.feed, since=since, seen=seen, at=AT)


def test_each_number_has_one_nonce_even_within_one_change(
    teller: Teller, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_build, "MOST_FEED_ROWS", 1)
    everything(teller)
    other = Reader(teller.feed)
    assert other.follow() == reader.follow() == teller.expected()
    marks = {number: mark.hex for number, mark in FeedMark.objects.values_list("number", "mark")}
    assert sorted(marks) == list(range(1, UsageFeed.objects.get().number + 1))
    assert len(set(marks.values())) == len(marks) > 4
    found = {document.head.newest for one in (reader, other) for document in one.documents}
    assert all(marks[state.number] == state.mark for state in found)


def test_old_nonces_are_deleted_in_bounded_batches(
    teller: Teller, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2, 12):
        FeedMark.objects.create(feed=teller.feed, number=number, mark=UUID(int=number))
    UsageFeed.objects.update(number=11)
    monkeypatch.setattr(feed_build, "KEPT", 4)
    monkeypatch.setattr(feed_build, "_MOST_DROPPED", 5)
    for job, left in (("x", range(6, 13)), ("y", range(10, 14))):
        teller.job(job, "anna", "P-A1", ago_h=40)
        built_and_read(teller.feed, since=0, at=AT)
        assert list(FeedMark.objects.order_by("number").values_list("number", flat=True)) == list(left)


def test_a_recreated_feed_continues_its_numbers_in_a_new_history(teller: Teller, reader: Reader) -> None:
    drop_feed(name="vo-a", at=AT, actor=COMMAND)
    with pytest.raises(NotFound):
        built_and_read(teller.feed, since=0, at=AT)
    withdrawn(teller)
    reader.feed = make_feed(policy_slug="grid", entry="/VO-A", name="vo-a", capacity_cores=1, at=AT, actor=COMMAND)
    found = built_and_read(reader.feed, since=1, known_etag=reader.etag, at=AT)
    assert found is not None
    head = opened(found).head
    assert (head.number, len(opened(found).hours)) == (2, len(teller.expected()))
    assert head.seen is not None
    assert reader.seen is not None
    assert (head.seen.number, head.seen.mark != reader.seen.mark) == (1, True)


def test_running_jobs_are_sent_completely_each_time(teller: Teller, reader: Reader) -> None:
    open_job: dict[str, Any] = {"state": "running", "end_at": None}
    teller.job(90, "anna", "P-A1", start_at=AT - HOUR, cpus=8.0, requested_s=7200.0, **open_job)
    teller.job(91, "carl", "P-A2", start_at=AT - 2 * HOUR, cpus=2.0, gpus=1.0, **open_job)
    teller.job(92, "dora", "P-B1", cpus=3.0, **open_job)
    teller.job(93, "bert", "P-A1", state="pending", start_at=None, end_at=None, cpus=99.0)
    reader.follow()
    anna, carl = teller.uid("/VO-A/P-A1/anna"), teller.uid("/VO-A/P-A2/carl")
    assert sorted(reader.running, key=lambda job: job[1]) == [(carl, 2.0), (anna, 8.0)]
    running = reader.documents[-1].running
    assert running is not None
    by_cpus = {cpus: at for at, cpus in enumerate(running.cpus.tolist())}
    assert running.start_us[by_cpus[8.0]] == int((AT - HOUR).timestamp()) * 1_000_000
    assert running.requested_s[by_cpus[8.0]] == 7200
    assert running.requested_s[by_cpus[2.0]] != running.requested_s[by_cpus[2.0]]
    assert (running.mem_gb.tolist(), running.gpus[by_cpus[2.0]]) == ([1.0, 1.0], 1.0)
    assert reader.number == 2
    teller.job(90, "anna", "P-A1", state="finished", start_at=AT - HOUR, end_at=AT - HOUR / 2, cpus=8.0)
    assert reader.follow() == teller.expected()
    assert (reader.running, reader.number) == ([(carl, 2.0)], 3)


def test_a_running_job_is_sent_until_the_hour_in_which_it_may_not_run_on(teller: Teller, reader: Reader) -> None:
    """Its end may never come: nothing but the time ends it, so the feed is built again for that hour."""
    open_job: dict[str, Any] = {"state": "running", "end_at": None, "start_at": AT - HOUR}
    teller.job(90, "anna", "P-A1", cpus=8.0, requested_s=3 * 3600.0, **open_job)
    teller.job(91, "carl", "P-A2", cpus=2.0, requested_s=90 * 3600.0, **open_job)
    anna, carl = teller.uid("/VO-A/P-A1/anna"), teller.uid("/VO-A/P-A2/carl")
    sent = {}
    for hours in (0, 1, 2, 3, 88, 89):
        build_feed(teller.feed.pk, at=AT + hours * HOUR)
        stored = FeedRunning.objects.get(feed=teller.feed)
        sent[hours] = {UUID(bytes=uid.tobytes()) for uid in unpack_running(bytes(stored.rows), stored.n_rows).named}
    assert sent == {0: {anna, carl}, 1: {anna, carl}, 2: {carl}, 3: {carl}, 88: {carl}, 89: set()}
    number = UsageFeed.objects.get(pk=teller.feed.pk).number
    build_feed(teller.feed.pk, at=AT + 200 * HOUR)
    assert UsageFeed.objects.get(pk=teller.feed.pk).number == number, "nothing ends any more"


def test_a_feed_can_omit_running_jobs(teller: Teller, reader: Reader) -> None:
    teller.job(90, "anna", "P-A1", state="running", end_at=None)
    make_feed(
        policy_slug="grid", entry="/VO-A", name="vo-a", capacity_cores=1, sends_running=False, at=AT, actor=COMMAND
    )
    reader.fetched()
    assert reader.documents[-1].running is None
    number = reader.number
    teller.job(91, "bert", "P-A1", state="running", end_at=None)
    assert built_and_read(teller.feed, since=number, known_etag=reader.etag, at=AT) is None


def test_an_empty_feed_is_a_valid_document(policy: Policy) -> None:
    feed = make_feed(policy_slug="grid", entry="/VO-B", name="vo-b", capacity_cores=1, at=AT, actor=COMMAND)
    reader = Reader(feed)
    assert reader.follow() == {}
    document = reader.documents[0]
    assert (reader.number, document.entries, document.hours.tolist()) == (1, [], [])
    assert document.running is not None
    assert not len(document.running)


def test_a_feed_of_a_removed_entry_reports_it(teller: Teller, reader: Reader) -> None:
    publish(op="archive", entry="/VO-A")
    with pytest.raises(NotFound) as refusal:
        built_and_read(teller.feed, since=reader.number, known_etag=reader.etag, at=AT)
    assert refusal.value.code == "entry_gone"


def test_a_feed_of_the_root_contains_all_mapped_usage(db: None, settings: LazySettings) -> None:
    settings.FAIRSHARE_ISSUER = "site-a.example"
    made = make_teller(entry="/")
    made.map(**PLACES)
    made.job(1, "anna", "P-A1")
    made.job(4, "dora", "P-B1")
    found = Reader(made.feed).follow()
    assert found == made.expected()
    assert {uid for of in found.values() for uid in of} == {made.uid("/VO-A/P-A1/anna"), made.uid("/VO-B/P-B1/dora")}


def test_a_site_without_an_issuer_name_has_no_feed(teller: Teller, settings: LazySettings) -> None:
    settings.FAIRSHARE_ISSUER = ""
    with refused(Invalid, "no_issuer", field="FAIRSHARE_ISSUER"):
        built_and_read(teller.feed, since=0, at=AT)


def test_sums_larger_than_one_job_are_exact(teller: Teller) -> None:
    for job in range(7):
        teller.job(f"t{job}", "anna", "P-A1", ago_h=2 + job / 7, hours=1 / 3, cpus=1 / 3, mem_mb=100.0 / 3)
    assert Reader(teller.feed).follow() == teller.expected()


def test_administrators_create_change_and_delete_feeds_with_audit(teller: Teller) -> None:
    same = make_feed(policy_slug="grid", entry="/VO-A", name="vo-a", capacity_cores=7, at=AT, actor=COMMAND)
    assert (same.pk, same.capacity_cores) == (teller.feed.pk, 7)
    assert [feed.name for feed in list_feeds(actor=COMMAND)] == ["vo-a"]
    drop_feed(name="vo-a", at=AT, actor=COMMAND)
    assert not UsageFeed.objects.exists()
    assert not FeedHour.objects.exists()
    verbs = AuditEvent.objects.filter(subject="vo-a").order_by("id").values_list("verb", flat=True)
    assert list(verbs) == ["federation.feed_made", "federation.feed_changed", "federation.feed_dropped"]
    with pytest.raises(NotFound):
        drop_feed(name="vo-a", at=AT, actor=COMMAND)


def test_other_users_cannot_manage_feeds(teller: Teller) -> None:
    anna = Actor(user=User.objects.create_user(username="anna"), via="page")
    with pytest.raises(NotAllowed):
        make_feed(policy_slug="grid", entry="/VO-B", name="vo-b", capacity_cores=1, at=AT, actor=anna)
    with pytest.raises(NotAllowed):
        drop_feed(name="vo-a", at=AT, actor=anna)
    with pytest.raises(NotAllowed):
        list_feeds(actor=anna)
    assert UsageFeed.objects.count() == 1


@pytest.mark.parametrize(
    ("error", "changes"),
    [
        (Invalid, {"name": "../x"}),
        (Invalid, {"capacity_cores": 0}),
        (Invalid, {"capacity_cores": float("nan")}),
        (Invalid, {"capacity_cores": float("inf")}),
        (Invalid, {"keeps_days": 0}),
        (Invalid, {"keeps_days": 4000}),
        (Invalid, {"expires_after_s": 60}),
        (NotFound, {"entry": "/nowhere"}),
        (NotFound, {"policy_slug": "other"}),
        (Conflict, {"name": "vo-a"}),
    ],
)
def test_invalid_feed_settings_are_rejected(teller: Teller, error: type[Exception], changes: dict[str, Any]) -> None:
    values: dict[str, Any] = {"policy_slug": "grid", "entry": "/VO-B", "name": "vo-b", "capacity_cores": 1, **changes}
    with pytest.raises(error):
        make_feed(**values, at=AT, actor=COMMAND)
    assert UsageFeed.objects.count() == 1


def test_uids_are_sorted(teller: Teller, reader: Reader) -> None:
    entries: list[UUID] = list(reader.documents[0].entries)
    assert entries == sorted(entries, key=str)
