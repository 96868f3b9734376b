"""Which usage documents continue the followed lineage, by the marks of their numbers; and what is read from 0 again."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.core.signing import canonical, sign_document
from apps.federation import control
from apps.federation.documents.wire_usage import State
from apps.federation.models import Subscription
from apps.federation.usage_feeds.subscriptions import preview_feed
from tests.federation.fetches import counted, everything, look_at
from tests.federation.other_side import KEY, P1, P2, OtherFeed
from tests.federation.worlds import publish_two_hours
from tests.instants import AT

HOUR = timedelta(hours=1)
H9, H10, H11 = (AT - n * HOUR for n in (3, 2, 1))
OTHER = "0123456789abcdef" * 2
Tell = Callable[[OtherFeed], object]

pytestmark = pytest.mark.django_db


@pytest.fixture
def taken(vo_usage_accepted: object, subscription: Subscription, feed: OtherFeed) -> Subscription:
    """Numbers 1 and 2 were ingested."""
    assert len(list(publish_two_hours(feed))) == 2
    assert (subscription.seen_number, subscription.seen_mark) == (2, feed.state(2).mark)
    return subscription


@pytest.fixture
def halfway(taken: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch) -> Subscription:
    """Number 3 was ingested when the feed had reached 9."""
    feed.tell({H9: {P1: 30.0}}, newest=feed.state(9), more=True)
    assert look_at(taken, monkeypatch, AT).outcome == "applied"
    return taken


def other_line(feed: OtherFeed, **more: Any) -> None:
    feed.line = "second"
    feed.tell({H11: {P1: 7_200.0}}, **more)


def refused(row: Subscription, feed: OtherFeed, tell: Tell, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The code and the state afterwards; nothing else changes."""
    before = everything(row), row.seen_number, row.seen_mark
    tell(feed)
    found = look_at(row, monkeypatch, AT)
    assert found.outcome == "refused", found.message
    assert (everything(row), row.seen_number, row.seen_mark) == before
    return found.code, row.state


@pytest.mark.parametrize(
    ("tell", "code"),
    [
        (lambda feed: other_line(feed), "forked"),
        (lambda feed: other_line(feed, number=9, since=2), "forked"),
        (lambda feed: other_line(feed, number=2, since=2), "forked"),
        (lambda feed: other_line(feed, number=2, since=1), "forked"),
        (lambda feed: other_line(feed, number=2, since=0), "forked"),
        (lambda feed: feed.tell({}, seen=State(2, OTHER)), "forked"),
        (lambda feed: feed.tell({}, number=4, since=1), "other_question"),
    ],
)
def test_a_document_of_another_history_is_rejected(
    taken: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch, tell: Tell, code: str
) -> None:
    assert refused(taken, feed, tell, monkeypatch) == (code, "blocked" if code == "forked" else "active")


@pytest.mark.parametrize(
    ("tell", "code"),
    [
        (lambda feed: feed.tell({}, number=4, seen=feed.state(9), newest=State(9, OTHER), more=True), "bad_document"),
        (lambda feed: other_line(feed, number=9, since=3, seen=State(3, OTHER)), "forked"),
        (lambda feed: other_line(feed, number=10, since=3, seen=State(9, OTHER)), "forked"),
        (lambda feed: feed.tell({}, number=5, since=3), "older_version"),
        (lambda feed: feed.tell({}, number=10, since=3), "other_question"),
    ],
)
def test_a_reader_midway_uses_the_newest_known_number(
    halfway: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch, tell: Tell, code: str
) -> None:
    feed.line = "first"
    assert refused(halfway, feed, tell, monkeypatch) == (code, "blocked" if code == "forked" else "active")
    assert feed.asked[-1][":path"] == "/feeds/vo-a?since=3&seen=9"
    if halfway.state == "active":
        feed.tell({H9: {P2: 30}}, number=10, since=3, seen=feed.state(9))
        assert look_at(halfway, monkeypatch, AT).outcome == "applied"
        look_at(halfway, monkeypatch, AT)
        assert feed.asked[-1][":path"] == "/feeds/vo-a?since=10"


def test_an_older_request_of_the_same_history_can_be_repeated(
    taken: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H11: {P1: 120.0}}, number=2, since=1)
    assert look_at(taken, monkeypatch, AT).outcome == "same"
    feed.tell({H11: {P1: 180.0}}, number=3, since=1, seen=feed.state(2))
    assert look_at(taken, monkeypatch, AT).outcome == "applied"
    assert counted(taken) == {(P1, H10): 60, (P1, H11): 180}


def test_a_full_document_replaces_all_earlier_usage(
    taken: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H9: {P1: 30.0}}, number=3, since=0)
    assert look_at(taken, monkeypatch, AT).outcome == "applied"
    assert counted(taken) == {(P1, H9): 30}


def test_a_fork_is_detected_while_frozen(taken: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    Subscription.objects.update(state="frozen")
    taken.refresh_from_db()
    feed.tell({H9: {P1: 30.0}})
    assert look_at(taken, monkeypatch, AT).outcome == "frozen"
    assert (taken.number, taken.seen_number) == (2, 2)
    assert refused(taken, feed, lambda feed: other_line(feed, number=3), monkeypatch) == ("forked", "blocked")


def test_a_newly_trusted_key_starts_a_resync(
    taken: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    Subscription.objects.update(fingerprint="0" * 64)
    control.trust_key(
        kind="subscription",
        remote_id=taken.pk,
        fingerprint=KEY.public.fingerprint,
        reason="By telephone.",
        at=AT,
        actor=COMMAND,
    )
    other_line(feed, number=2, since=0)
    assert look_at(taken, monkeypatch, AT).outcome == "applied"
    assert feed.asked[-1][":path"] == "/feeds/vo-a?since=0"
    assert (counted(taken), taken.seen_mark) == ({(P1, H11): 7_200}, feed.state(2).mark)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("newest.mark", 7),
        ("newest.mark", None),
        ("newest.mark", "f" * 31),
        ("newest.mark", "f" * 33),
        ("newest.mark", "F" * 32),
        ("newest.mark", "z" * 32),
        ("newest.mark", ["f" * 32]),
        ("newest.number", 2),
        ("newest.number", "3"),
        ("newest", None),
        ("newest", "f" * 32),
        ("seen.mark", ""),
        ("seen.mark", {}),
        ("seen.mark", "f" * 31 + " "),
        ("seen.number", 1),
        ("seen.number", 2.5),
        ("seen", None),
        ("seen", []),
    ],
)
def test_an_invalid_nonce_is_rejected_with_its_location(
    taken: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch, place: str, value: object
) -> None:
    """Signed by the right key all the same; and a good document is accepted again."""
    good = feed.tell({H9: {P1: 30.0}})
    document = json.loads(good.partition(b"\n")[0])
    outer, _, inner = place.partition(".")
    if inner:
        document[outer][inner] = value
    else:
        document[outer] = value
    feed.serves = sign_document(json.loads(canonical(document)), KEY)
    assert refused(taken, feed, lambda _: None, monkeypatch) == ("bad_document", "active")
    assert taken.error.startswith(place)
    feed.serves = good
    assert look_at(taken, monkeypatch, AT).outcome == "applied"


def test_a_preview_shows_the_feed_with_its_newest_number(feed: OtherFeed) -> None:
    feed.tell({H11: {P1: 60}}, newest=feed.state(9), more=True)
    head = preview_feed(url=feed.url, policy_slug="grid", entry="/vo-a-here", at=AT, actor=COMMAND).document.head
    assert (head.number, head.newest, head.seen) == (1, feed.state(9), None)
