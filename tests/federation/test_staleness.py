"""Stale peers: kept, frozen, or local usage only, and back to normal automatically."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from apps.accounts.actor import COMMAND
from apps.accounts.clock_watch import note_clock
from apps.accounts.models import AuditEvent
from apps.federation import control
from apps.federation.fetch_schedule import request_due_fetches
from apps.federation.models import Mount, Subscription
from apps.federation.mounts.services import unmount
from apps.federation.staleness import act_on_stale, is_stale
from apps.federation.usage_feeds.subscriptions import subscribe, unsubscribe
from apps.priorities.local_only import load_fallbacks
from apps.runs.models import Run
from tests.federation.fetches import counted, look_at
from tests.federation.other_side import KEY, P1, OtherFeed, OtherSide
from tests.instants import AT

H11 = AT - timedelta(hours=1)
TOO_LATE = AT + timedelta(days=1)
IN_TIME = TOO_LATE - timedelta(seconds=1)


def n_events(verb: str) -> int:
    return AuditEvent.objects.filter(verb=verb).count()


@pytest.fixture
def received(subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch) -> Subscription:
    feed.tell({H11: {P1: 60}})
    look_at(subscription, monkeypatch, AT)
    return subscription


def set_action(action: str) -> None:
    for table in (Mount, Subscription):
        table._default_manager.update(stale_action=action)


def test_age_counts_from_the_last_successful_fetch_or_the_creation(subscription: Subscription) -> None:
    assert not is_stale(subscription, IN_TIME)
    assert is_stale(subscription, TOO_LATE)
    subscription.good_at = AT + timedelta(hours=1)
    assert not is_stale(subscription, TOO_LATE)


def test_the_action_keep_changes_nothing(received: Subscription) -> None:
    assert act_on_stale(TOO_LATE) == 0
    received.refresh_from_db()
    assert received.state == "active"
    assert load_fallbacks(received.policy) == ()
    assert counted(received) == {(P1, H11): 60}


def test_a_frozen_mount_stays_frozen_until_unfrozen(
    received: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_action("freeze")
    assert act_on_stale(IN_TIME) == 0
    assert act_on_stale(TOO_LATE) == 2
    assert act_on_stale(TOO_LATE) == 0
    assert n_events("federation.frozen") == 2
    feed.at = TOO_LATE
    feed.tell({H11: {P1: 120}})
    assert look_at(received, monkeypatch, TOO_LATE).outcome == "frozen"
    assert counted(received) == {(P1, H11): 60}
    control.unfreeze(kind="subscription", remote_id=received.pk, reason="Seen.", at=TOO_LATE, actor=COMMAND)
    assert look_at(received, monkeypatch, TOO_LATE).outcome == "applied"
    assert counted(received) == {(P1, H11): 120}


def test_a_jump_of_the_clock_freezes_nothing(received: Subscription) -> None:
    set_action("freeze")
    note_clock(AT, database_at=AT)
    assert act_on_stale(AT + timedelta(days=400)) == 0
    received.refresh_from_db()
    assert received.state == "active"


def test_a_peer_fetched_while_the_clock_was_ahead_is_fetched_and_ages_as_before(
    received: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = AT + timedelta(days=400)
    feed.at = ahead
    feed.tell({H11: {P1: 90}})
    assert look_at(received, monkeypatch, ahead).outcome == "applied"
    feed.tell({H11: {P1: 91}})
    request_due_fetches(at=IN_TIME)
    assert Run.objects.filter(subject=f"usage:{received.pk}", state=Run.State.QUEUED).exists()
    assert look_at(received, monkeypatch, IN_TIME).outcome == "refused", "its document is of the future"
    assert not is_stale(received, IN_TIME)
    assert is_stale(received, IN_TIME + timedelta(seconds=received.max_age_s))


@pytest.mark.fault("F23")
@pytest.mark.paper("4.61")
def test_a_subtree_uses_local_usage_only_until_the_peer_is_reachable(
    received: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    Subscription.objects.update(stale_action="local")
    assert request_due_fetches(at=IN_TIME) == 2
    assert load_fallbacks(received.policy) == ()
    assert act_on_stale(TOO_LATE) == 1
    assert act_on_stale(TOO_LATE) == 0
    assert load_fallbacks(received.policy) == (received.entry_uid,)
    event = AuditEvent.objects.get(verb="fallback.begun")
    assert event.reason == "site-b.example, vo-a: Not confirmed since 2026-11-20 12:00 UTC."
    assert counted(received) == {(P1, H11): 60}
    assert Run.objects.filter(kind="recompute", state="queued").exists()
    assert look_at(received, monkeypatch, TOO_LATE).outcome == "refused"
    assert load_fallbacks(received.policy) == (received.entry_uid,)
    feed.at = TOO_LATE
    feed.tell({H11: {P1: 120}})
    look_at(received, monkeypatch, TOO_LATE)
    assert load_fallbacks(received.policy) == ()
    assert n_events("fallback.ended") == 1


def test_an_unreachable_mount_uses_local_usage_only(
    mounted: Mount, vo: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    Mount.objects.update(stale_action="local")
    act_on_stale(TOO_LATE)
    assert load_fallbacks(mounted.policy) == (mounted.entry_uid,)
    look_at(mounted, monkeypatch, TOO_LATE)
    assert load_fallbacks(mounted.policy) == ()


def other_site(feed: OtherFeed, at: datetime) -> Subscription:
    return subscribe(
        policy_slug="grid",
        entry="/vo-a-here",
        url=feed.url,
        issuer="site-c.example",
        feed="vo-a",
        fingerprint=KEY.public.fingerprint,
        capacity_cores=100,
        settings={"stale_action": "local"},
        reason="C too.",
        at=at,
        actor=COMMAND,
    )


def test_a_returning_peer_does_not_end_the_fallback_of_another(
    received: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = other_site(feed, AT)
    Subscription.objects.update(stale_action="local")
    assert act_on_stale(TOO_LATE) == 1
    feed.at = TOO_LATE
    feed.tell({H11: {P1: 120}})
    look_at(received, monkeypatch, TOO_LATE)
    assert load_fallbacks(received.policy) == (received.entry_uid,)
    unsubscribe(subscription_id=other.pk, reason="C left.", at=TOO_LATE, actor=COMMAND)
    assert load_fallbacks(received.policy) == ()


def test_unmounting_or_another_action_ends_the_fallback(received: Subscription, mounted: Mount) -> None:
    set_action("local")
    act_on_stale(TOO_LATE)
    given = {"reason": "Keep.", "at": TOO_LATE, "actor": COMMAND}
    control.change_settings(kind="subscription", remote_id=received.pk, settings={"stale_action": "keep"}, **given)  # type: ignore[arg-type]
    assert load_fallbacks(received.policy) == (received.entry_uid,)
    unmount(mount_id=mounted.pk, reason="They left.", at=TOO_LATE, actor=COMMAND)
    assert load_fallbacks(received.policy) == ()


def test_peers_paused_or_blocked_too_long_use_local_usage_only(received: Subscription) -> None:
    Subscription.objects.update(stale_action="local", state="blocked")
    assert act_on_stale(TOO_LATE) == 1
    assert load_fallbacks(received.policy) == (received.entry_uid,)
