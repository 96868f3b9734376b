"""Peers that stay within the format and mean no good: what they do ends at their mount, and is soon over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from apps.accounts.actor import COMMAND
from apps.core import outbound
from apps.core.signing import canonical, open_document
from apps.federation.control import reset_history
from apps.federation.documents.wire import PolicyLimits, read_policy
from apps.federation.models import HeldHour, Mount, Subscription
from apps.federation.publishing import SignedVersion, current_document, make_publication
from apps.federation.usage_feeds.quarantine import load_reported_usage
from apps.policies import services
from apps.policies.models import ChangeSet, Policy
from apps.policies.publishing.direct import publish_operations
from apps.policies.services import withdraw_change_set
from apps.policies.tree.columns import Node
from apps.policies.tree.stored import load_tree
from apps.usage.models import Bucket, Record
from tests.federation.fetches import look_at
from tests.federation.mounts.test_invalid_documents import signed
from tests.federation.other_side import ANNA, P1, ROOT, OtherFeed, OtherSide, projects
from tests.instants import AT

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("etag", ["a\0b", '"a\r\n b"', '"\u00e9"', "x" * 257])
def test_a_nonce_that_cannot_be_stored_is_ignored(
    vo: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch, etag: str
) -> None:
    vo.knows_etags = False
    vo.publish(projects(p1=51))
    fetch = outbound.fetch

    def answer(*given: Any, **more: Any) -> outbound.Answer:
        return replace(fetch(*given, **more), headers={"etag": etag})

    monkeypatch.setattr(outbound, "fetch", answer)
    assert look_at(mounted, monkeypatch, AT).outcome == "applied"
    assert mounted.etag == ""
    assert look_at(mounted, monkeypatch, AT).outcome == "same"
    assert "if-none-match" not in vo.asked[-1]


def test_nothing_lands_at_an_entry_that_is_no_longer_a_mount(
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


def test_a_withdrawn_version_is_not_proposed_again(
    vo: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    vo.publish(projects(p1=10, p2=70))
    first = look_at(mounted, monkeypatch, AT)
    assert first.outcome == "held"
    held = mounted.held
    assert held is not None
    withdraw_change_set(id=held.pk, version=held.version, reason="Too much.", at=AT, actor=COMMAND)
    n_before = ChangeSet.objects.count()
    for n in range(3):
        found = look_at(mounted, monkeypatch, AT + n * HOUR)
        assert (found.outcome, found.message != first.message) == ("held", True), "it says why it isn't proposed"
    assert ChangeSet.objects.count() == n_before
    vo.publish(projects(p1=10, p2=60))
    assert look_at(mounted, monkeypatch, AT).outcome == "held"
    assert mounted.held is not None
    assert (mounted.held.state, ChangeSet.objects.count()) == ("proposed", n_before + 1)


def test_after_a_reset_the_version_is_proposed_again(
    vo: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    vo.publish(projects(p1=10, p2=70))
    look_at(mounted, monkeypatch, AT)
    assert mounted.held is not None
    withdraw_change_set(id=mounted.held.pk, version=mounted.held.version, reason="No.", at=AT, actor=COMMAND)
    reset_history(kind="mount", remote_id=mounted.pk, reason="After all.", at=AT, actor=COMMAND)
    look_at(mounted, monkeypatch, AT)
    assert mounted.held is not None
    assert mounted.held.state == "proposed"


def test_held_hours_are_stored_in_one_batch(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    """A document may report a hundred thousand hours: no query for each of them."""
    feed.tell({AT - n * HOUR: {P1: 1e7} for n in range(1, 401)})
    with django_assert_max_num_queries(150):
        assert look_at(subscription, monkeypatch, AT).outcome == "held"
    feed.tell({AT - n * HOUR: {P1: 2e7} for n in range(1, 401)})
    with django_assert_max_num_queries(150):
        look_at(subscription, monkeypatch, AT + HOUR)
    found = HeldHour.objects.filter(subscription=subscription)
    assert set(found.values_list("cpu_s", "number", "found_at")) == {(2e7, 2, AT)}
    assert found.count() == 400


def other_policy(mounted: Mount | None = None) -> Policy:
    """Beside the one of the mount; it has a VO of its own, or the same document at another place."""
    services.make_policy(slug="beside", name="Beside", at=AT, actor=COMMAND)
    vo: dict[str, Any] = {"name": "X", "kind": "vo", "shares": 1, "children": [{"name": "ann", "kind": "user"}]}
    if mounted is not None:
        vo = {**vo, "mount": {"issuer": mounted.issuer, "publication": mounted.publication}}
    document = {"root": {"name": "beside", "children": [vo]}}
    services.publish_document(policy_slug="beside", document=document, reason="s", at=AT, actor=COMMAND)
    return Policy.objects.get(slug="beside")


def uid_at(policy: Policy, path: str) -> UUID:
    tree = load_tree(policy)
    return tree.uuid(tree.index_of_path(path) or 0)


def test_usage_of_an_entry_of_another_policy_is_refused(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = other_policy()
    feed.tell({AT - HOUR: {uid_at(policy, "/X/ann"): 3_600, P1: 60}})
    found = look_at(subscription, monkeypatch, AT)
    assert (found.outcome, found.code) == ("refused", "foreign_uid")
    assert str(uid_at(policy, "/X/ann")) in found.message
    assert not Bucket.objects.exists()


def test_usage_of_a_document_mounted_in_another_policy_waits_for_this_policy(
    subscription: Subscription, mounted: Mount, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = other_policy(mounted)
    feed.tell({AT - HOUR: {uid_at(policy, "/X/ann"): 3_600}})
    assert look_at(subscription, monkeypatch, AT).outcome == "applied"
    feed.tell({AT - HOUR: {uid_at(policy, "/X"): 3_600}})  # the mount itself is ours
    assert look_at(subscription, monkeypatch, AT).code == "foreign_uid"


def test_a_document_cannot_claim_an_entry_of_another_policy(
    vo: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = other_policy()
    vo.publish([*projects(), Node(uid_at(policy, "/X/ann"), P1, "ann", "user", 1.0, is_group=False)])
    found = look_at(mounted, monkeypatch, AT)
    assert (found.outcome, found.code) == ("refused", "foreign_uid")
    assert "/P-A1/ann" in found.message


def test_an_hour_with_an_inexact_sum_is_rejected(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each amount is within bounds: together they would make the proof of the buckets a matter of luck."""
    good = feed.tell({AT - 2 * HOUR: {P1: 1}, AT - HOUR: {UUID(int=0x10000 + n): 1 for n in range(20)}})
    document = json.loads(good.split(b"\n")[0])
    document["hours"][1]["gpu_s"] = [10**12] * 20
    feed.serves = signed(canonical(document))
    found = look_at(subscription, monkeypatch, AT)
    assert (found.outcome, found.code, "hours[1].gpu_s" in found.message) == ("refused", "bad_document", True)


def test_a_running_job_counts_for_at_most_31_days(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cores are within the site's capacity: else one job would outweigh all other usage."""
    good = feed.tell({}, [(P1, AT - HOUR, 100.0), (P1, AT - HOUR, 0.5), (P1, AT - HOUR, 0.25)])
    document = json.loads(good.split(b"\n")[0])
    document["running"]["requested_s"] = [10**12, 3_600, None]
    feed.serves = signed(canonical(document))
    assert look_at(subscription, monkeypatch, AT).outcome == "applied"
    asked = set(Record.objects.filter(source=subscription.source).values_list("cpus", "requested_s"))
    assert asked == {(100.0, 31 * 86_400.0), (0.5, 3_600.0), (0.25, None)}


def test_a_document_with_too_many_authorities_does_not_affect_others(mounted: Mount) -> None:
    """What we publish names those that our mounts name: with too many, every peer would reject ours."""
    made = make_publication(policy_slug="grid", entry="/", name="all", at=AT, actor=COMMAND)
    Mount.objects.update(issuers=[f"p{n}.example" for n in range(511)])
    assert len(read_policy(opened(current_document(made, at=AT)), PolicyLimits()).head.issuers) == 512
    Mount.objects.update(issuers=[f"p{n}.example" for n in range(512)])
    assert read_policy(opened(current_document(made, at=AT)), PolicyLimits()).head.issuers == ("vo-a.example",)


def opened(issued: SignedVersion) -> Mapping[str, Any]:
    return open_document(issued.data, trusted=None).document


def test_the_newest_held_hours_are_shown_and_all_are_counted(subscription: Subscription) -> None:
    result = {"subscription": subscription, "number": 1, "most_cpu_s": 1.0, "found_at": AT}
    HeldHour.objects.bulk_create(
        HeldHour(hour_at=AT - n * HOUR, cpu_s=3_600.0 * (1_000 if n == 90 else 1), **result) for n in range(1, 101)
    )
    found = load_reported_usage(subscription)
    assert (found.n_held, found.needed_cores) == (100, 1_000.0)
    assert [hour.hour_at for hour in found.hours] == [AT - n * HOUR for n in range(1, 49)]


@pytest.mark.parametrize("left", [[], projects()[3:], [Node(UUID(int=0x900), ROOT, "else", "project", 1.0)]])
def test_a_document_without_entries_or_members_is_held(
    vo: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch, left: list[Node]
) -> None:
    """It moves no target of the remaining entries."""
    before = load_tree(Policy.objects.get(slug="grid")).digest
    vo.publish([replace(node, parent_uid=ROOT) if node.uid == ANNA else node for node in left])
    assert look_at(mounted, monkeypatch, AT).outcome == "held"
    assert load_tree(Policy.objects.get(slug="grid")).digest == before


def test_a_project_that_loses_all_members_is_held(
    vo: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    vo.publish(projects()[:3])  # anna has P-A1 for herself: 50 of 100 shares of the VO's 30 of 130
    found = look_at(mounted, monkeypatch, AT)
    assert (found.outcome, "11.5" in found.message) == ("held", True)


@pytest.mark.parametrize("site", ["site-a", "Site-A", "\uff53ite-a"])
def test_an_issuer_name_similar_to_ours_is_rejected(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch, site: str
) -> None:
    feed.tell({AT - HOUR: {P1: 60}}, site=site)
    assert look_at(subscription, monkeypatch, AT).code == "other_site"
