"""A policy with two VOs, and a site that has a name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from django.conf import LazySettings

from apps.accounts.actor import COMMAND
from apps.federation.fetching import ask_for
from apps.federation.models import Mount, Subscription
from apps.federation.mounting import make_mount
from apps.federation.subscribing import subscribe
from apps.policies import services
from apps.policies.at_once import publish_operations
from apps.policies.models import Policy
from apps.runs.services import work_run_now
from tests.federation.other_side import KEY, OtherFeed, OtherSide, serving

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
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


@pytest.fixture
def policy(db: None, settings: LazySettings) -> Policy:
    settings.FAIRSHARE_ISSUER = "vo-a.example"
    services.make_policy(slug="grid", name="Grid", at=AT, actor=COMMAND)
    services.publish_document(policy_slug="grid", document=VO, reason="The start.", at=AT, actor=COMMAND)
    return Policy.objects.get(slug="grid")


@pytest.fixture
def vo(policy: Policy, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[OtherSide]:
    """The authority of a VO, whose policy is mounted here and in force; we are site.example."""
    settings.FAIRSHARE_ISSUER, settings.FAIRSHARE_SITE = "site.example", "site-a"
    with serving(OtherSide(at=AT)) as side:
        settings.FAIRSHARE_OUTBOUND_ALLOW = [f"127.0.0.1:{side.port}"]
        side.publish()
        operation = {"op": "add", "parent": "/", "name": "vo-a-here", "kind": "vo", "shares": 30}
        publish_operations(policy_slug="grid", operations=[operation], reason="A place.", at=AT, actor=COMMAND)
        made = make_mount(
            policy_slug="grid", entry="/vo-a-here", url=side.url, issuer="vo-a.example", publication="vo-a",
            fingerprint=KEY.public.fingerprint, reason="We granted VO-A 30 shares.", at=AT, actor=COMMAND,
        )  # fmt: skip
        monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
        assert work_run_now(ask_for(made, at=AT).pk).result["outcome"] == "landed"
        yield side


@pytest.fixture
def mounted(vo: OtherSide) -> Mount:
    return Mount.objects.get()


@pytest.fixture
def feed(vo: OtherSide, settings: LazySettings) -> Iterator[OtherFeed]:
    """Another site that has mounted the same VO, and tells its usage there; it has 100 cores."""
    with serving(OtherFeed(at=AT)) as side:
        settings.FAIRSHARE_OUTBOUND_ALLOW = [*settings.FAIRSHARE_OUTBOUND_ALLOW, f"127.0.0.1:{side.port}"]
        yield side


@pytest.fixture
def subscription(feed: OtherFeed) -> Subscription:
    return subscribe(
        policy_slug="grid", entry="/vo-a-here", url=feed.url, issuer=feed.name, feed="vo-a",
        fingerprint=KEY.public.fingerprint, capacity_cores=100, reason="One grid.", at=AT, actor=COMMAND,
    )  # fmt: skip
