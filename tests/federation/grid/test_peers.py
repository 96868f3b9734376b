"""The table of peers: how long each took to answer, and how many need attention, computed on every page."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.federation.grid.peers import Direction, count_alarming, list_peers
from apps.federation.models import Fetch, HeldHour, Mount, Reading, Subscription, UsageFeed
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.usage.services import NewSource, make_source
from tests.federation.conftest import feed, mounted, policy, subscription, vo
from tests.grants import make_grant
from tests.instants import AT

__all__ = ["feed", "mounted", "policy", "subscription", "vo"]
HOUR = timedelta(hours=1)


def looked(of: Mount | Subscription, took_s: float, at: datetime = AT, outcome: str = "same") -> None:
    which: dict[str, Mount | Subscription] = {"mount": of} if isinstance(of, Mount) else {"subscription": of}
    Fetch.objects.create(**which, at=at, outcome=outcome, duration_s=took_s)


def took(actor: Actor = COMMAND) -> dict[str, float | None]:
    return {f"{peer.direction}:{peer.id}": peer.duration_s for peer in list_peers(at=AT, actor=actor)}


def another(policy: Policy, n: int) -> Subscription:
    """Of the same VO, by another site."""
    name = f"site-{n}"
    source = make_source(
        NewSource(slug=name, name=name, namespace="c1", origin=f"{name}.example", site=name), at=AT, actor=COMMAND
    )
    uid = Mount.objects.get().entry_uid
    return Subscription.objects.create(
        policy=policy,
        entry_uid=uid,
        url=f"https://{name}.example/f",
        issuer=f"{name}.example",
        feed="vo-a",
        fingerprint="0" * 64,
        source=source,
        capacity_cores=10.0,
        good_at=AT,
        made_at=AT,
    )


def test_the_newest_fetch_has_its_duration(subscription: Subscription, mounted: Mount, policy: Policy) -> None:
    found = UsageFeed.objects.create(
        policy=policy, entry_uid=mounted.entry_uid, name="ours", capacity_cores=1.0, made_at=AT
    )
    reading = Reading.objects.create(feed=found, reader="them", version=1, at=AT)
    keys = [f"mount:{mounted.pk}", f"usage:{subscription.pk}", f"reads:{reading.pk}"]
    looked(mounted, 0.25)
    looked(mounted, 0.084, AT - HOUR)  # noted later: the order of the timeline is that of its rows
    assert [took()[key] for key in keys] == [0.084, None, None]
    looked(subscription, 60.0, outcome="unreachable")
    assert [took()[key] for key in keys] == [0.084, 60.0, None]


def test_the_number_of_queries_is_independent_of_peers_and_fetches(
    subscription: Subscription, mounted: Mount, policy: Policy
) -> None:
    list_peers(at=AT, actor=COMMAND)  # what a process loads once and keeps
    with CaptureQueriesContext(connection) as few:
        assert len(list_peers(at=AT, actor=COMMAND)) == 2
    for n in range(3):
        row = another(policy, n)
        HeldHour.objects.create(subscription=row, hour_at=AT, number=1, cpu_s=9, most_cpu_s=1, found_at=AT)
        for seconds in (3.0, 2.0, float(n)):
            looked(row, seconds)
    with CaptureQueriesContext(connection) as many:
        found = [peer for peer in list_peers(at=AT, actor=COMMAND) if peer.direction is Direction.USAGE]
    assert [peer.duration_s for peer in found[:3]] == [0.0, 1.0, 2.0]
    assert [str(peer.condition) for peer in found] == ["held", "held", "held", "new"]
    assert len(many) == len(few)


def test_a_site_without_mounts_counts_with_one_query(policy: Policy, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        assert count_alarming(at=AT, actor=COMMAND) == 0


def test_items_that_need_attention_are_counted_with_three_queries(
    subscription: Subscription, mounted: Mount, policy: Policy, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(3):
        assert count_alarming(at=AT, actor=COMMAND) == 0
    for n in range(5):
        another(policy, n)
    Mount.objects.update(state="blocked")
    Subscription.objects.filter(issuer="site-1.example").update(running_held=True)
    Subscription.objects.filter(issuer="site-2.example").update(good_at=AT - 99 * HOUR)
    Subscription.objects.filter(issuer="site-3.example").update(expires_at=AT)
    Subscription.objects.filter(issuer="site-4.example").update(n_failed=2)
    with django_assert_num_queries(3):
        assert count_alarming(at=AT, actor=COMMAND) == 4, "who is late isn't an alarm yet"


@pytest.mark.parametrize(("path", "n"), [("/", 1), ("/VO-B", 0)])
def test_only_items_that_the_actor_decides_are_counted(mounted: Mount, policy: Policy, path: str, n: int) -> None:
    user = User.objects.create_user("mo")
    tree = load_tree(policy)
    make_grant(user, tree.uuid(tree.index_of_path(path) or 0), "admin", policy=policy, reason="x")
    actor = Actor(user=user, via="page")
    assert count_alarming(at=AT, actor=actor) == 0
    Mount.objects.update(state="blocked")
    assert count_alarming(at=AT, actor=actor) == n
    assert count_alarming(at=AT, actor=Actor(user=User.objects.create_user("nobody"), via="page")) == 0
