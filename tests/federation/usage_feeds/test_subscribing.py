"""Who subscribes to usage of which entry, under which key, and what is left when it ends."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, User
from apps.core.errors import Conflict, DomainError, Invalid, NotAllowed, NotFound
from apps.core.signing import BadDocument
from apps.federation.models import Mount, Subscription
from apps.federation.mounts.services import preview, unmount
from apps.federation.publishing import make_publication
from apps.federation.usage_feeds.subscriptions import (
    get_subscription,
    list_subscriptions,
    preview_feed,
    subscribe,
    unsubscribe,
)
from apps.pages.audit import text as audit_text
from apps.policies.models import Policy
from apps.policies.publishing.direct import publish_operations
from apps.policies.tree.stored import load_tree
from apps.usage.models import Bucket, Record, SealedHour, Source
from tests.federation.fetches import look_at
from tests.federation.other_side import KEY, P1, OtherFeed, OtherSide
from tests.federation.worlds import mount_side
from tests.grants import make_grant
from tests.instants import AT
from tests.refusals import refused

H11 = AT - timedelta(hours=1)
TOKEN = "fsw_abc123-secret"


def subscribed(side: OtherFeed, /, **given: Any) -> Subscription:
    terms = {
        "policy_slug": "grid",
        "entry": "/vo-a-here",
        "url": side.url,
        "issuer": side.name,
        "feed": "vo-a",
        "fingerprint": KEY.public.fingerprint,
        "capacity_cores": 100,
        "reason": "One grid.",
        "at": AT,
        "actor": COMMAND,
    }
    return subscribe(**{**terms, **given})


def somebody(policy: Policy, *verbs: str) -> Actor:
    person = User.objects.create_user(username="anna")
    if verbs:
        root = load_tree(policy).uuid(0)
        make_grant(person, root, policy=policy, verbs=verbs)
    return Actor(user=person, via="page")


def test_a_subscription_has_its_own_readable_source(feed: OtherFeed) -> None:
    made = subscribed(feed, settings={"every_s": 60, "stale_action": "local"}, fingerprint=" ".join(KEY.public.groups))
    source = made.source
    assert (source.slug, source.kind, source.origin) == ("site-b-example-vo-a", "peer", "site-b.example")
    assert (made.every_s, made.stale_action, made.due_at, made.state) == (60, "local", AT, "active")
    assert made.fingerprint == KEY.public.fingerprint
    event = AuditEvent.objects.get(verb="federation.subscribed")
    assert (event.reason, event.details["source"]) == ("One grid.", source.slug)
    assert audit_text.sentence_of(event, what="X") == "subscribed to usage of X"


def test_slugs_of_sources_stay_unique_and_short(feed: OtherFeed, mounted: Mount) -> None:
    first = subscribed(feed)
    Subscription.objects.all().delete()
    assert subscribed(feed).source.slug == f"{first.source.slug}-2"
    long = subscribed(feed, issuer="a" * 128)
    assert len(long.source.slug) <= 64
    assert long.source.origin == "a" * 128


def test_a_subscription_token_is_sent_encrypted_and_never_disclosed(
    feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = subscribed(feed, token=f" {TOKEN}\n")
    feed.tell({H11: {P1: 60}})
    look_at(made, monkeypatch, AT)
    assert feed.asked[-1]["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in made.sealed_token
    collected = [AuditEvent.objects.values_list("details", "reason"), made.fetches.values_list("message", "code")]
    assert TOKEN not in json.dumps([list(rows) for rows in collected])
    preview_feed(url=feed.url, policy_slug="grid", entry="/vo-a-here", token=TOKEN, at=AT, actor=COMMAND)
    assert feed.asked[-1]["authorization"] == f"Bearer {TOKEN}"
    with refused(Invalid, field="token"):
        subscribed(feed, issuer="site-c.example", token="two\r\nlines")


def test_a_mount_token_is_sent_encrypted_and_never_disclosed(
    vo: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    unmount(mount_id=mounted.pk, reason="Again.", at=AT, actor=COMMAND)
    preview(url=vo.url, policy_slug="grid", token=TOKEN, at=AT, actor=COMMAND)
    assert vo.asked[-1]["authorization"] == f"Bearer {TOKEN}"
    made = mount_side(vo, token=TOKEN)
    vo.asked.clear()
    look_at(made, monkeypatch, AT)
    assert [asked["authorization"] for asked in vo.asked] == [f"Bearer {TOKEN}"]
    assert TOKEN not in made.sealed_token + json.dumps(list(AuditEvent.objects.values_list("details", "reason")))


def test_a_preview_shows_usage_and_key_and_stores_nothing(feed: OtherFeed, mounted: Mount) -> None:
    feed.tell({H11: {P1: 60}})
    found = preview_feed(url=feed.url, policy_slug="grid", entry="/vo-a-here", at=AT, actor=COMMAND)
    head = found.document.head
    assert (found.key, head.issuer, head.feed, head.site, head.capacity_cores) == (
        KEY.public,
        "site-b.example",
        "vo-a",
        "site-b",
        100,
    )
    feed.serves = b"<html>"
    with pytest.raises(BadDocument):
        preview_feed(url=feed.url, policy_slug="grid", entry="/vo-a-here", at=AT, actor=COMMAND)
    assert not Subscription.objects.exists()
    assert not Source.objects.exists()


@pytest.mark.parametrize(
    ("given", "error", "code", "field"),
    [
        ({"entry": "/VO-B"}, Invalid, "not_shared", "entry"),
        ({"entry": "/nowhere"}, NotFound, "", ""),
        ({"issuer": "site.example"}, Invalid, "mount_loop", ""),
        ({"issuer": "Not A Name"}, Invalid, "", "issuer"),
        ({"feed": "<b>"}, Invalid, "", "feed"),
        ({"capacity_cores": 0}, Invalid, "", "capacity_cores"),
        ({"capacity_cores": float("nan")}, Invalid, "", "capacity_cores"),
        ({"capacity_cores": True}, Invalid, "", "capacity_cores"),
        ({"fingerprint": "abc"}, Invalid, "", "fingerprint"),
        ({"settings": {"most_points": 5}}, Invalid, "", "most_points"),
        ({"settings": {"every_s": 1}}, Invalid, "", "every_s"),
        ({"url": "file:///etc/passwd"}, DomainError, "address_refused", ""),
    ],
)
def test_an_invalid_subscription_is_rejected_and_stores_nothing(
    feed: OtherFeed, given: dict[str, Any], error: type[DomainError], code: str, field: str
) -> None:
    with refused(error, code, field=field):
        subscribed(feed, **given)
    assert not Subscription.objects.exists()
    assert not Source.objects.exists()


def test_a_site_has_one_subscription_per_entry(feed: OtherFeed) -> None:
    subscribed(feed)
    with refused(Conflict, "subscribed"):
        subscribed(feed, feed="vo-a-again")


def test_holders_of_the_mount_right_above_subscribe_and_others_see_nothing(
    policy: Policy, feed: OtherFeed, subscription: Subscription
) -> None:
    anna = somebody(policy)
    assert list_subscriptions(actor=anna, at=AT) == []
    with pytest.raises(NotFound):
        get_subscription(subscription_id=subscription.pk, actor=anna, at=AT)
    with pytest.raises(NotFound):
        preview_feed(url=feed.url, policy_slug="grid", entry="/vo-a-here", at=AT, actor=anna)
    with pytest.raises(NotFound):
        subscribed(feed, actor=anna)
    with pytest.raises(NotFound):
        unsubscribe(subscription_id=subscription.pk, reason="x", at=AT, actor=anna)
    root = load_tree(policy).uuid(0)
    make_grant(anna.user, root, policy=policy, verbs=["mount"])
    assert [row.pk for row in list_subscriptions(actor=anna, at=AT)] == [subscription.pk]
    assert subscribed(feed, actor=anna, issuer="site-c.example").made_by == anna.user


def test_only_administrators_subscribe_to_usage_of_own_publications(policy: Policy, feed: OtherFeed) -> None:
    make_publication(policy_slug="grid", entry="/VO-A", name="our-vo", at=AT, actor=COMMAND)
    anna = somebody(policy, "mount")
    with refused(NotAllowed):
        subscribed(feed, entry="/VO-A", actor=anna)
    assert subscribed(feed, entry="/VO-A").entry_uid == load_tree(policy).uuid(
        load_tree(policy).index_of_path("/VO-A") or 0
    )


def test_the_same_entries_are_subscribed_from_a_site_once(policy: Policy, feed: OtherFeed) -> None:
    make_publication(policy_slug="grid", entry="/VO-A", name="our-vo", at=AT, actor=COMMAND)
    assert subscribed(feed, entry="/VO-A/P-A1", feed="p-a1").source.name == "site-b.example, p-a1"
    for entry, name in (("/VO-A/P-A1", "p-a1"), ("/VO-A", "vo-a"), ("/VO-A/P-A1", "again"), ("/VO-A/P-A2", "p-a1")):
        with refused(Conflict, "subscribed"):
            subscribed(feed, entry=entry, feed=name)
    assert subscribed(feed, entry="/VO-A/P-A2", feed="p-a2").source.slug == "site-b-example-p-a2"
    assert subscribed(feed, entry="/VO-A", issuer="site-c.example").source.slug == "site-c-example-vo-a"


def test_unsubscribing_removes_all_reported_usage(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H11: {P1: 60}}, [(P1, H11, 2)])
    look_at(subscription, monkeypatch, AT)
    assert Bucket.objects.exists()
    unsubscribe(subscription_id=subscription.pk, reason="They left.", at=AT, actor=COMMAND)
    for table in (Subscription, Source, Bucket, Record, SealedHour):
        assert not table._default_manager.exists()
    assert AuditEvent.objects.get(verb="federation.unsubscribed").reason == "They left."
    again = subscribed(feed)
    look_at(again, monkeypatch, AT)
    assert Bucket.objects.count() == 1


def test_reported_usage_outlives_its_entry(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch, settings: LazySettings
) -> None:
    feed.tell({H11: {P1: 60}})
    look_at(subscription, monkeypatch, AT)
    publish_operations(
        policy_slug="grid", operations=[{"op": "archive", "entry": "/vo-a-here"}], reason="Over.", at=AT, actor=COMMAND
    )
    assert get_subscription(subscription_id=subscription.pk, actor=COMMAND, at=AT).pk == subscription.pk
    unsubscribe(subscription_id=subscription.pk, reason="Over.", at=AT, actor=COMMAND)
    assert not Bucket.objects.exists()
