"""A policy with two VOs, and a site that has a name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.conf import LazySettings

from apps.federation.models import Mount, Subscription
from apps.policies.models import Policy
from tests.federation.other_side import OtherFeed, OtherSide, serving
from tests.federation.worlds import VO, as_site
from tests.instants import AT
from tests.lock_order import _one_order_of_locks  # noqa: F401 - fixture
from tests.lock_order import watch_of_changes as lock_watch  # noqa: F401 - fixture

__all__ = ["AT", "VO", "feed", "mounted", "policy", "side", "subscription", "vo"]


@pytest.fixture
def policy(vo_policy: object, settings: LazySettings) -> Policy:
    settings.FAIRSHARE_ISSUER = "vo-a.example"
    return Policy.objects.get(slug="grid")


@pytest.fixture
def side(settings: LazySettings) -> Iterator[OtherSide]:
    """The authority of a VO, with its first version published; nothing is mounted here."""
    with serving(OtherSide(at=AT)) as found:
        settings.FAIRSHARE_OUTBOUND_ALLOW = [f"127.0.0.1:{found.port}"]
        found.publish()
        yield found


@pytest.fixture
def vo(
    policy: Policy, vo_mounted: OtherSide, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OtherSide]:
    """The authority of a VO, whose policy is mounted and active here; we are site.example."""
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    with serving(vo_mounted) as side:
        for name, value in as_site(side).items():
            setattr(settings, name, value)
        Mount.objects.update(url=side.url)
        yield side


@pytest.fixture
def mounted(vo: OtherSide) -> Mount:
    return Mount.objects.get()


@pytest.fixture
def feed(vo: OtherSide, settings: LazySettings) -> Iterator[OtherFeed]:
    """Another site that has mounted this VO, and reports its usage there; it has 100 cores."""
    with serving(OtherFeed(at=AT)) as side:
        settings.FAIRSHARE_OUTBOUND_ALLOW = [*settings.FAIRSHARE_OUTBOUND_ALLOW, f"127.0.0.1:{side.port}"]
        yield side


@pytest.fixture
def subscription(vo_subscribed: object, feed: OtherFeed) -> Subscription:
    Subscription.objects.update(url=feed.url)
    return Subscription.objects.select_related("policy", "source").get()
