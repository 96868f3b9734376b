"""State of another authority: the first that applies, equal for mounts and subscriptions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.federation.conditions import (
    NEEDS_ATTENTION,
    Condition,
    age_of,
    condition_of,
    is_held,
    mounts_with_pending_version,
    subscriptions_with_quarantine,
)
from apps.federation.models import HeldHour, Mount, Subscription
from apps.policies.models import ChangeSet, Policy
from tests.each_case import each_case
from tests.federation.conftest import feed, mounted, policy, subscription, vo
from tests.instants import AT

__all__ = ["feed", "mounted", "policy", "subscription", "vo"]
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
OLD = {"good_at": AT - 6 * HOUR}
GONE = {"expires_at": AT}


def remote(kind: type[Mount | Subscription], **fields: Any) -> Mount | Subscription:
    given = {"every_s": 300, "max_age_s": 21_600, "made_at": AT - 9 * HOUR, "good_at": AT - MINUTE, **fields}
    return kind(**given)


@each_case("kind", [Mount, Subscription])
@each_case(
    ("fields", "held", "wanted"),
    [
        ({}, False, "fresh"),
        ({"state": "blocked", **OLD, **GONE, "n_failed": 3}, True, "blocked"),
        ({"state": "paused", **OLD, **GONE}, True, "paused"),
        ({"state": "frozen"}, True, "frozen"),
        ({"state": "frozen", **OLD}, False, "stale"),
        ({"state": "frozen", **GONE}, False, "expired"),
        ({**OLD, **GONE}, True, "expired"),
        ({"expires_at": AT + MINUTE}, False, "fresh"),
        (OLD, True, "stale"),
        ({"good_at": AT - 6 * HOUR + MINUTE}, True, "held"),
        ({"n_failed": 1}, True, "held"),
        ({"n_failed": 1}, False, "late"),
        ({"good_at": AT - 15 * MINUTE}, False, "fresh"),
        ({"good_at": AT - 16 * MINUTE}, False, "late"),
        ({"good_at": None, "made_at": AT - HOUR}, False, "new"),
        ({"good_at": None, "made_at": AT - HOUR, "n_failed": 2}, False, "late"),
        ({"good_at": None, "made_at": AT - 7 * HOUR}, False, "stale"),
    ],
)
def test_the_first_matching_condition_is_reported(
    kind: type[Mount | Subscription], fields: dict[str, Any], held: bool, wanted: str
) -> None:
    assert condition_of(remote(kind, **fields), is_held=held, at=AT) == wanted


def test_conditions_that_do_not_resolve_automatically_need_attention() -> None:
    assert set(NEEDS_ATTENTION) == {"blocked", "expired", "stale", "held"}
    assert len(Condition) == 9


def test_a_slow_clock_never_gives_a_negative_age() -> None:
    assert age_of(remote(Mount, good_at=AT + HOUR), AT) == 0.0
    assert age_of(remote(Mount, good_at=None), AT) is None


@pytest.mark.parametrize(
    ("fields", "hours", "wanted"),
    [
        ({}, 0, False),
        ({}, 1, True),
        ({"running_held": True}, 0, True),
        ({"reported_capacity_cores": 100.0}, 0, False),
        ({"reported_capacity_cores": 100.5}, 0, True),
    ],
)
def test_usage_is_held_for_an_hour_running_jobs_or_a_larger_capacity(
    subscription: Subscription, fields: dict[str, Any], hours: int, wanted: bool
) -> None:
    Subscription.objects.update(**fields)
    for n in range(hours):
        HeldHour.objects.create(
            subscription=subscription, hour_at=AT - n * HOUR, number=1, cpu_s=9, most_cpu_s=1, found_at=AT
        )
    assert is_held(Subscription.objects.get()) is wanted
    assert is_held(subscriptions_with_quarantine(Subscription.objects.all()).get()) is wanted


@pytest.mark.parametrize(
    ("state", "wanted"),
    [("draft", True), ("proposed", True), ("approved", True), ("published", False), ("withdrawn", False)],
)
def test_a_mount_is_held_while_its_change_set_is_pending(
    mounted: Mount, policy: Policy, state: str, wanted: bool
) -> None:
    assert not is_held(mounted)
    mounted.held = ChangeSet.objects.create(
        policy=policy, base_number=1, state=state, author_name="x", created_at=AT, updated_at=AT
    )
    mounted.save()
    assert is_held(mounts_with_pending_version(Mount.objects.all()).get()) is wanted


def test_conditions_of_many_peers_take_one_query(
    subscription: Subscription, mounted: Mount, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(2):
        rows: list[Mount | Subscription] = [
            *mounts_with_pending_version(Mount.objects.all()),
            *subscriptions_with_quarantine(Subscription.objects.all()),
        ]
        assert [is_held(row) for row in rows] == [False, False]
