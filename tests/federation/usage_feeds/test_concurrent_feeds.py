"""Many read a feed while its usage changes: a number never has two contents, and no reader misses anything."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import OperationalError, connection

from apps.accounts.actor import COMMAND
from apps.core.postgresql import may_repeat
from apps.federation.documents.wire_usage import State
from apps.federation.usage_feeds import feed_build
from apps.federation.usage_feeds.feed_build import FeedInputs, build_feed
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


def finished(readers: list[Reader]) -> dict[tuple[int, int, State | None], set[bytes]]:
    """First lines of the documents that ended a look, by number before and after, and the newest state that the reader
    knew: at the same number it is later for one that had a part. Of a part, later states take hours away again."""
    collected: dict[tuple[int, int, State | None], set[bytes]] = {}
    for reader in readers:
        for document, data in zip(reader.documents, reader.data, strict=True):
            if not document.head.more:
                head = document.head
                collected.setdefault((head.since, head.number, head.seen), set()).add(data.split(b"\n")[0])
    return collected


def test_concurrent_readers_and_writers_agree(teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_build, "MOST_FEED_ROWS", 4)  # several documents a state
    is_over, patient = threading.Event(), Reader(teller.feed)

    def build() -> None:
        """As two workers whose leases overlap."""
        while not is_over.is_set():
            with contextlib.suppress(OperationalError):
                build_feed(teller.feed.pk, at=AT)

    def read() -> Reader:
        reader = Reader(teller.feed, is_first_built=False)
        while not is_over.is_set():
            reader.fetched()
        reader.follow()
        return reader

    def read_from_the_beginning() -> Reader:
        """Never continues from a number."""
        reader = Reader(teller.feed, is_first_built=False)
        while not is_over.is_set():
            reader.number, reader.etag = 0, ""
            reader.fetched()
        return reader

    def follow_patiently() -> None:
        patient.is_first_built = False
        while patient.follow() != teller.expected():
            threading.Event().wait(0.01)

    patient.follow()  # before, between and after: three states, whether the others have a turn or not
    with ThreadPoolExecutor(9) as pool:
        builders = [pool.submit(apart(build)) for _ in range(2)]
        readers: list[Future[Reader]] = [pool.submit(apart(read)) for _ in range(3)]
        readers.append(pool.submit(apart(read_from_the_beginning)))
        works = [apart(lambda: write(teller, "w")), apart(lambda: write(teller, "x")), apart(lambda: move(teller))]
        writers = [pool.submit(work) for work in works]
        try:
            for writer in writers:
                writer.result()
            follow_patiently()
            pool.submit(apart(lambda: write(teller, "y"))).result()
            follow_patiently()
        finally:
            is_over.set()
        for builder in builders:
            builder.result()
        found = [*(reader.result() for reader in readers), patient]
    build_feed(teller.feed.pk, at=AT)
    expected = teller.expected()
    result = finished(found)
    assert {key: len(contents) for key, contents in result.items() if len(contents) > 1} == {}
    assert len(result) > 2
    for reader in found[:3]:
        reader.follow()
        assert {hour: of for hour, of in reader.sums.items() if of} == expected
    assert Reader(teller.feed).follow() == expected


def test_a_reader_meanwhile_gets_the_state_before_the_build(teller: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a second build fails where the first one was faster; when it is tried again, it finds everything done."""
    reader = Reader(teller.feed)
    before = reader.follow()
    reader.is_first_built = False
    teller.job(2, "carl", "P-A2", ago_h=3)
    has_written, may_end = threading.Event(), threading.Event()
    store_running = feed_build._store_running

    def slowly(inputs: FeedInputs) -> tuple[str, int | None]:
        has_written.set()
        assert may_end.wait(60)
        return store_running(inputs)

    monkeypatch.setattr(feed_build, "_store_running", slowly)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(apart(lambda: build_feed(teller.feed.pk, at=AT)))
        assert has_written.wait(60)
        second = pool.submit(apart(lambda: build_feed(teller.feed.pk, at=AT)))
        try:
            assert (reader.follow(), reader.number) == (before, 1)
            while not _waits_for_a_row() and not second.done():
                threading.Event().wait(0.01)
        finally:
            may_end.set()
        assert first.result().number == 2
        with pytest.raises(OperationalError) as refusal:
            second.result()
    assert may_repeat(refusal.value)
    assert build_feed(teller.feed.pk, at=AT).number == 2
    assert reader.follow() == teller.expected()


def _waits_for_a_row() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            " AND query LIKE 'SELECT %%federation_usagefeed%%'",  # the end of a long query isn't kept
            [],
        )
        return bool(cursor.fetchone()[0])
