"""Peers that stay within the format and mean no good: what they do ends at their mount, and is soon over."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from apps import outbound
from apps.accounts.actor import COMMAND
from apps.federation.control import begin_anew
from apps.federation.models import HeldHour, Mount, Subscription
from apps.policies.at_once import publish_operations
from apps.policies.models import ChangeSet, Policy
from apps.policies.services import withdraw_change_set
from apps.policies.trees import load_tree
from tests.federation.conftest import AT
from tests.federation.looks import look_at
from tests.federation.other_side import P1, OtherFeed, OtherSide, projects

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("etag", ["a\0b", '"a\r\n b"', '"\u00e9"', "x" * 257])
def test_a_mark_that_cannot_be_kept_is_none(
    vo: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch, etag: str
) -> None:
    vo.knows_etags = False
    vo.publish(projects(p1=51))
    fetch = outbound.fetch

    def answer(*given: Any, **more: Any) -> outbound.Answer:
        return replace(fetch(*given, **more), headers={"etag": etag})

    monkeypatch.setattr(outbound, "fetch", answer)
    assert look_at(mounted, monkeypatch, AT).outcome == "landed"
    assert mounted.etag == ""
    assert look_at(mounted, monkeypatch, AT).outcome == "same"
    assert "if-none-match" not in vo.asked[-1]


def test_nothing_lands_at_an_entry_that_is_marked_as_a_mount_no_longer(
    vo: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations: list[dict[str, Any]] = [
        {"op": "mount", "entry": "/vo-a-here", "mount": None},
        {"op": "set_shares", "entry": "/vo-a-here/P-A1", "shares": 7},
    ]
    publish_operations(policy_slug="grid", operations=operations, reason="Ours.", at=AT, actor=COMMAND)
    vo.publish(projects(p1=51))
    found = look_at(mounted, monkeypatch, AT)
    assert (found.outcome, found.code) == ("refused", "mount_gone")
    tree = load_tree(Policy.objects.get(slug="grid"))
    assert tree.shares[tree.index_of_path("/vo-a-here/P-A1") or 0] == 7


def test_a_version_that_somebody_withdrew_is_not_proposed_again(
    vo: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    vo.publish(projects(p1=10, p2=70))
    assert look_at(mounted, monkeypatch, AT).outcome == "held"
    held = mounted.held
    assert held is not None
    withdraw_change_set(id=held.pk, version=held.version, reason="Too much.", at=AT, actor=COMMAND)
    n_before = ChangeSet.objects.count()
    for n in range(3):
        found = look_at(mounted, monkeypatch, AT + n * HOUR)
        assert (found.outcome, "withdrawn here" in found.message) == ("held", True)
    assert ChangeSet.objects.count() == n_before
    vo.publish(projects(p1=10, p2=60))
    assert look_at(mounted, monkeypatch, AT).outcome == "held"
    assert mounted.held is not None
    assert (mounted.held.state, ChangeSet.objects.count()) == ("proposed", n_before + 1)


def test_begun_anew_it_is_proposed_again(vo: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    vo.publish(projects(p1=10, p2=70))
    look_at(mounted, monkeypatch, AT)
    assert mounted.held is not None
    withdraw_change_set(id=mounted.held.pk, version=mounted.held.version, reason="No.", at=AT, actor=COMMAND)
    begin_anew(kind="mount", remote_id=mounted.pk, reason="After all.", at=AT, actor=COMMAND)
    look_at(mounted, monkeypatch, AT)
    assert mounted.held is not None
    assert mounted.held.state == "proposed"


def test_hours_that_are_held_are_kept_all_at_once(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    """A document may tell a hundred thousand hours: no question of the database is asked for each of them."""
    feed.tell({AT - n * HOUR: {P1: 1e7} for n in range(1, 401)})
    with django_assert_max_num_queries(150):
        assert look_at(subscription, monkeypatch, AT).outcome == "held"
    feed.tell({AT - n * HOUR: {P1: 2e7} for n in range(1, 401)})
    with django_assert_max_num_queries(150):
        look_at(subscription, monkeypatch, AT + HOUR)
    told = HeldHour.objects.filter(subscription=subscription)
    assert set(told.values_list("cpu_s", "number", "found_at")) == {(2e7, 2, AT)}
    assert told.count() == 400
