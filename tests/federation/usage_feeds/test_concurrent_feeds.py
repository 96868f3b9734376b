"""Many read a feed while its usage changes: a number never has two contents, and no reader misses anything."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection

from apps.accounts.actor import COMMAND
from apps.federation.models import UsageFeed
from apps.federation.usage_feeds import feed_content, feeds
from apps.federation.usage_feeds.feed_content import View
from apps.policies.publishing.direct import publish_operations
from tests.federation.usage_feeds.feed_site import Reader, Teller, make_teller
from tests.instants import AT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
PLACES = {"P_A1": "/VO-A/P-A1", "P_A2": "/VO-A/P-A2", "P_B1": "/VO-B/P-B1"}


@pytest.fixture
def teller(transactional_db: None, settings: LazySettings) -> Teller:
    settings.FAIRSHARE_ISSUER = "site-a.example"
    made = make_teller()
    made.map(**PLACES)
    made.job(1, "anna", "P-A1", ago_h=3, hours=2, cpus=4.0)
    return made


def apart(work: Callable[[], Any]) -> Callable[[], Any]:
    """In a thread, whose connection to the database is its own and is closed."""

    def run() -> Any:
        try:
            return work()
        finally:
            connection.close()

    return run


def write(teller: Teller, name: str) -> None:
    for n in range(8):
        teller.job(
            f"{name}{n % 5}",
            "anna" if n % 2 else "carl",
            "P-A1" if n % 2 else "P-A2",
            ago_h=2 + n % 5,
            submit_at=AT.replace(hour=0),
            cpus=float(n),
            revision=n,
            hours=1 + n % 3,
        )


def move(teller: Teller) -> None:
    """A project leaves the subtree and comes back."""
    for n in range(4):
        here, there = ("/VO-A", "/VO-B") if n % 2 == 0 else ("/VO-B", "/VO-A")
        operation = {"op": "move", "entry": f"{here}/P-A2", "parent": there}
        publish_operations(policy_slug="grid", operations=[operation], reason="So.", at=AT, actor=COMMAND)


def finished(readers: list[Reader]) -> dict[tuple[int, int], set[bytes]]:
    """First lines of the documents that ended a look, by number before and after. Of a part, later states take hours
    away again."""
    collected: dict[tuple[int, int], set[bytes]] = {}
    for reader in readers:
        for document, data in zip(reader.documents, reader.data, strict=True):
            if not document.head.more:
                collected.setdefault((document.head.since, document.head.number), set()).add(data.split(b"\n")[0])
    return collected


def test_concurrent_readers_and_writers_agree(teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_content, "MOST_ROWS", 4)  # several documents a state
    is_over, patient = threading.Event(), Reader(teller.feed)

    def read() -> Reader:
        reader = Reader(teller.feed)
        while not is_over.is_set():
            reader.fetched()
        reader.follow()
        return reader

    def read_from_the_beginning() -> Reader:
        """Never continues from a number."""
        reader = Reader(teller.feed)
        while not is_over.is_set():
            reader.number, reader.etag = 0, ""
            reader.fetched()
        return reader

    patient.follow()  # before, between and after: three states, whether the others have a turn or not
    with ThreadPoolExecutor(7) as pool:
        readers: list[Future[Reader]] = [pool.submit(apart(read)) for _ in range(3)]
        readers.append(pool.submit(apart(read_from_the_beginning)))
        works = [apart(lambda: write(teller, "w")), apart(lambda: write(teller, "x")), apart(lambda: move(teller))]
        writers = [pool.submit(work) for work in works]
        try:
            for writer in writers:
                writer.result()
            patient.follow()
            pool.submit(apart(lambda: write(teller, "y"))).result()
            patient.follow()
        finally:
            is_over.set()
        found = [*(reader.result() for reader in readers), patient]
    expected = teller.expected()
    result = finished(found)
    assert {key: len(contents) for key, contents in result.items() if len(contents) > 1} == {}
    assert len(result) > 2
    for reader in found[:3]:
        assert {hour: of for hour, of in reader.sums.items() if of} == expected
    assert Reader(teller.feed).follow() == expected


def test_a_concurrent_reader_waits_and_gets_the_same_document(teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one has begun from a state in which the feed wasn't there yet, and begins again."""
    has_written, may_end = threading.Event(), threading.Event()
    update_feed = feed_content.update_feed
    calls: list[int] = []

    def slowly(view: View, *, since: int) -> None:
        calls.append(view.row.number)
        update_feed(view, since=since)
        if len(calls) == 1:
            has_written.set()
            assert may_end.wait(60)

    monkeypatch.setattr(feeds, "update_feed", slowly)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(apart(lambda: feeds.issue_usage(teller.feed, since=0, at=AT)))
        assert has_written.wait(60)
        second = pool.submit(apart(lambda: feeds.issue_usage(teller.feed, since=0, at=AT)))
        try:
            while not _waits_for_a_row() and not second.done():
                threading.Event().wait(0.01)
        finally:
            may_end.set()
        one, other = first.result(), second.result()
    assert one is not None
    assert one == other
    assert calls == [0]  # the second one found it done
    assert UsageFeed.objects.get().number == 1


def _waits_for_a_row() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            " AND query LIKE 'SELECT %%federation_usagefeed%%'",  # the end of a long query isn't kept
            [],
        )
        return bool(cursor.fetchone()[0])
