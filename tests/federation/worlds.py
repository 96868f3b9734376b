"""Databases that most federation tests start from, for tests/worlds.py: a policy, a mount in it, a usage subscription.

The servers of the other side have another port in each test: the fixtures write it into the rows of a world.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.test import override_settings

from apps.accounts.actor import COMMAND
from apps.federation.fetch_schedule import request_fetch
from apps.federation.models import Mount, Subscription
from apps.federation.mounts.services import make_mount
from apps.federation.publishing import make_publication
from apps.federation.usage_feeds.subscriptions import subscribe
from apps.policies import services
from apps.policies.publishing.direct import publish_operations
from apps.runs.services import work_run_now
from tests.federation.other_side import KEY, P1, P2, OtherFeed, OtherSide, projects, serving
from tests.instants import AT

HOUR = timedelta(hours=1)
VO = {
    "root": {
        "name": "grid",
        "children": [
            {
                "name": "VO-A",
                "kind": "vo",
                "shares": 30,
                "scope": "global",
                "children": [
                    {"name": "P-A1", "kind": "project", "shares": 50, "children": [{"name": "anna", "kind": "user"}]},
                    {"name": "P-A2", "kind": "project", "shares": 30, "children": []},
                    {"name": "rest", "kind": "reserve", "shares": 20},
                ],
            },
            {"name": "VO-B", "kind": "vo", "shares": 70, "children": []},
        ],
    }
}


def make_policy_of_vos() -> None:
    with override_settings(FAIRSHARE_ISSUER="vo-a.example"):
        services.make_policy(slug="grid", name="Grid", at=AT, actor=COMMAND)
        services.publish_document(policy_slug="grid", document=VO, reason="The start.", at=AT, actor=COMMAND)


def add_entry(name: str, shares: float = 30) -> None:
    """An entry for a VO."""
    operation = {"op": "add", "parent": "/", "name": name, "kind": "vo", "shares": shares}
    publish_operations(policy_slug="grid", operations=[operation], reason="A place.", at=AT, actor=COMMAND)


def mount_side(side: OtherSide, entry: str = "/vo-a-here", **terms: Any) -> Mount:
    """terms: those of `make_mount` that differ from the mount of VO-A, trusted by its key."""
    given = {
        "policy_slug": "grid",
        "issuer": "vo-a.example",
        "publication": "vo-a",
        "fingerprint": KEY.public.fingerprint,
        "reason": "We granted it.",
        "at": AT,
        "actor": COMMAND,
    }
    return make_mount(**{**given, "entry": entry, "url": side.url, **terms})


def make_mounted() -> OtherSide:
    """The policy of a VO is mounted at /vo-a-here, and its first version is active."""
    make_policy_of_vos()
    with serving(OtherSide(at=AT)) as side, override_settings(**as_site(side)):
        side.publish()
        add_entry("vo-a-here")
        made = mount_side(side)
        assert work_run_now(request_fetch(made, at=AT).pk).result["outcome"] == "applied"
    return side


def make_second_version() -> OtherSide:
    """Version 2 is active, version 1 outdated. The site also publishes, so a document could close a loop."""
    with serving(make_mounted()) as side, override_settings(**as_site(side)):
        Mount.objects.update(url=side.url, most_points=100)
        make_publication(policy_slug="grid", entry="/VO-B", name="vo-b", at=AT, actor=COMMAND)
        side.publish(projects(p1=51))
        assert work_run_now(request_fetch(Mount.objects.get(), at=AT).pk).result["outcome"] == "applied"
    return side


def make_subscribed() -> OtherSide:
    """With a subscription to the usage that another site reports for that VO."""
    side, feed = make_mounted(), OtherFeed(at=AT)
    feed.port = side.port  # fetches nothing yet
    with override_settings(**as_site(feed)):
        subscribe(
            policy_slug="grid",
            entry="/vo-a-here",
            url=feed.url,
            issuer=feed.name,
            feed="vo-a",
            fingerprint=KEY.public.fingerprint,
            capacity_cores=100,
            reason="One grid.",
            at=AT,
            actor=COMMAND,
        )
    return side


def make_usage_accepted() -> OtherSide:
    """With the documents of `publish_two_hours` accepted."""
    side = make_subscribed()
    with serving(OtherFeed(at=AT)) as feed, override_settings(**as_site(feed)):
        row = Subscription.objects.get()
        Subscription.objects.update(url=feed.url)
        for _document in publish_two_hours(feed):
            assert work_run_now(request_fetch(row, at=AT).pk).result["outcome"] == "applied"
            row.refresh_from_db()
    return side


def publish_two_hours(feed: OtherFeed) -> Iterator[bytes]:
    """Usage documents 1 and 2; each call publishes the same bytes."""
    for hours in ({AT - 2 * HOUR: {P1: 60.0}}, {AT - HOUR: {P1: 120.0}}):
        yield feed.tell(hours)


def make_usage_held() -> OtherSide:
    """With the document of `publish_excess` fetched: its excess hour is held."""
    side = make_subscribed()
    with serving(OtherFeed(at=AT)) as feed, override_settings(**as_site(feed)):
        Subscription.objects.update(url=feed.url)
        publish_excess(feed)
        assert work_run_now(request_fetch(Subscription.objects.get(), at=AT).pk).result["outcome"] == "held"
    return side


def publish_excess(feed: OtherFeed) -> None:
    """An hour that counts, one that is more than 100 cores can run, and a job on 8 cores."""
    hours = {AT - HOUR: {P1: 36_000.0}, AT - 2 * HOUR: {P1: 720_000.0}}
    feed.tell(hours, [(P2, AT - HOUR, 8)], capacity_cores=250.0)


def as_site(*others: OtherSide) -> dict[str, object]:
    """Settings by which we are site.example, and may ask these others."""
    allowed = [f"127.0.0.1:{other.port}" for other in others]
    return {"FAIRSHARE_ISSUER": "site.example", "FAIRSHARE_SITE": "site-a", "FAIRSHARE_OUTBOUND_ALLOW": allowed}
