"""Uids of an ended mount have no owner: a document that claimed those of others keeps them only while it is
mounted.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from django.conf import LazySettings
from django.db import transaction

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import COMMAND
from apps.federation.models import Fetch, Mount, Subscription
from apps.federation.mounts.services import unmount
from apps.federation.mounts.uid_ownership import owned_elsewhere
from apps.federation.usage_feeds.quarantine import drop_out_of_scope_entries
from apps.mapping.attachments import attach_account
from apps.policies import services
from apps.policies.models import Policy
from apps.policies.publishing.direct import publish_mounted_tree, publish_operations
from apps.policies.publishing.revisions import lock_policy
from apps.policies.tree.columns import Node
from apps.policies.tree.stored import load_tree, load_tree_from_rows
from apps.policies.tree.working_tree import columns_of
from apps.priorities.recompute.pipeline import compute, load_inputs
from apps.runs.services import work_run_now
from apps.series.runs import enqueue_series_build
from apps.series.stored_series import load_series
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source
from tests.federation.fetches import counted, look_at
from tests.federation.other_side import ANNA, P1, P2, P3, ROOT, OtherFeed, OtherSide, projects, serving
from tests.federation.worlds import mount_side
from tests.instants import AT

DAY = timedelta(days=1)
B = {"issuer": "vo-b.example", "publication": "vo-b"}
THEIRS = [Node(P1, ROOT, "P-B1", "project", 1.0), Node(ANNA, P1, "anna", "user", 1.0, is_group=False)]
HAD = "has the uid of an entry that this site has or had outside of the mount"


@pytest.fixture
def other(vo: OtherSide, settings: LazySettings) -> Iterator[OtherSide]:
    """VO-B's authority; two of its uids are current below the mount of VO-A, which had them first."""
    with serving(OtherSide(at=AT)) as side:
        settings.FAIRSHARE_OUTBOUND_ALLOW = [*settings.FAIRSHARE_OUTBOUND_ALLOW, f"127.0.0.1:{side.port}"]
        side.publish(THEIRS, **B)
        yield side


def mount_at(
    entry: str, side: OtherSide, at: datetime, issuer: str = "vo-b.example", publication: str = "vo-b"
) -> Mount:
    return mount_side(side, entry, issuer=issuer, publication=publication, settings={"most_points": 100}, at=at)


def do(at: datetime, *operations: dict[str, Any]) -> None:
    publish_operations(policy_slug="grid", operations=list(operations), reason="Ours to say.", at=at, actor=COMMAND)


def archive(at: datetime, *paths: str) -> None:
    do(at, *({"op": "archive", "entry": path} for path in paths))


def leave(mount: Mount, at: datetime) -> None:
    unmount(mount_id=mount.pk, reason="They left.", at=at, actor=COMMAND)


def grid() -> Policy:
    return Policy.objects.get(slug="grid")


def path_of(uid: UUID, number: int | None = None) -> str | None:
    tree = load_tree(grid(), number)
    at = tree.index_of_uid(uid)
    return None if at is None else tree.path(at)


def uid_of(path: str) -> UUID:
    tree = load_tree(grid())
    at = tree.index_of_path(path)
    assert at is not None, path
    return tree.uuid(at)


def refusal(found: Fetch) -> str:
    assert (found.outcome, found.code) == ("refused", "foreign_uid"), found.message
    return found.message


def run_job(end_at: datetime, core_h: float) -> None:
    row = RecordRow(
        job=end_at.isoformat(),
        user="anna",
        group="a",
        state="finished",
        cpus=core_h,
        end_at=end_at,
        submit_at=end_at - timedelta(hours=1),
        start_at=end_at - timedelta(hours=1),
    )
    source = make_source(NewSource(slug="cluster", name="Cluster"), at=AT, actor=COMMAND)
    ingest_batch(source=source, rows=[row], at=end_at)


def test_claimed_foreign_uids_are_released_on_unmount(
    other: OtherSide, vo: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = mount_at("/VO-B", other, AT)
    Mount.objects.update(most_points=100)
    assert "/vo-a-here/P-A1" in refusal(look_at(mount, monkeypatch, AT))
    vo.publish(projects()[1:3])
    assert look_at(mounted, monkeypatch, AT).outcome == "applied"
    assert path_of(P1) is None
    assert HAD in refusal(look_at(mount, monkeypatch, AT))  # dropped, and still its own
    leave(mounted, AT)
    assert look_at(mount, monkeypatch, AT).outcome == "applied"
    assert path_of(ANNA) == "/VO-B/P-B1/anna"


def test_archived_remains_of_a_mount_can_be_claimed_with_their_history(
    other: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_job(AT + timedelta(hours=3), 2.0)
    account = AccountKey("cluster", "anna", "a")
    attach_account(policy_slug="grid", entry_uid=ANNA, account=account, reason="Her.", at=AT, actor=COMMAND)
    mount = mount_at("/VO-B", other, AT)
    leave(mounted, AT + DAY)
    assert "/vo-a-here/P-A1," in refusal(look_at(mount, monkeypatch, AT + DAY))  # ours by now, and in the tree
    archive(AT + 2 * DAY, "/vo-a-here")
    before = {number: path_of(ANNA, number) for number in range(1, grid().head_number + 1)}
    as_of = AT + 2 * DAY
    assert compute(load_inputs(grid(), as_of=as_of)).entry_of_account.tolist() == [-1]
    assert look_at(mount, monkeypatch, AT + 3 * DAY).outcome == "applied"
    assert {number: path_of(ANNA, number) for number in before} == before
    assert (set(before.values()), path_of(ANNA)) == ({None, "/vo-a-here/P-A1/anna"}, "/VO-B/P-B1/anna")
    for number in range(1, grid().head_number + 1):
        assert load_tree(grid(), number).same_as(load_tree_from_rows(grid(), number)), number
    inputs = load_inputs(grid(), as_of=AT + 3 * DAY)
    computed = compute(inputs)
    anna = inputs.tree.index_of_uid(ANNA)
    assert computed.entry_of_account.tolist() == [anna]
    assert 0 < computed.usage_of_account[0] < 7_200  # two days old
    uids = [ANNA, uid_of("/VO-B"), uid_of("/")]
    rows = [inputs.tree.index_of_uid(uid) or 0 for uid in uids]
    assert computed.result.usage[rows].tolist() == computed.usage_of_account.tolist() * 3
    assert np.isfinite(computed.result.usage).all()
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + 5 * DAY).isoformat())
    assert work_run_now(enqueue_series_build(grid(), at=AT + 5 * DAY).pk).state == "succeeded"
    series = load_series(grid(), uids, from_on=AT.date(), to_on=(AT + 4 * DAY).date())
    assert (series.used.sum(axis=1)[0], series.days.root_used.sum()) == (7_200, 7_200)
    n_of_head = 0
    for day, end_s in enumerate(series.days.ends_s.tolist()):
        if series.days.revision[day] == grid().head_number:
            again = compute(load_inputs(grid(), as_of=datetime.fromtimestamp(end_s, UTC))).result.usage
            assert series.decayed[:, day].tolist() == pytest.approx(again[rows].tolist(), rel=1e-12)
            n_of_head += 1
    assert n_of_head > 0


def test_a_publication_can_be_mounted_elsewhere_and_back(
    vo: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = ("P-A1", "P-A2", "P-A3")
    leave(mounted, AT)
    archive(AT, *(f"/vo-a-here/{name}" for name in below))
    there = mount_at("/VO-B", vo, AT, "vo-a.example", "vo-a")
    assert look_at(there, monkeypatch, AT).outcome == "applied"
    assert path_of(ANNA) == "/VO-B/P-A1/anna"
    leave(there, AT)
    archive(AT, *(f"/VO-B/{name}" for name in below))
    back = mount_at("/vo-a-here", vo, AT, "vo-a.example", "vo-a")
    assert look_at(back, monkeypatch, AT).outcome == "applied"
    assert path_of(ANNA) == "/vo-a-here/P-A1/anna"


def test_usage_reported_at_the_former_mount_no_longer_counts(
    other: OtherSide, mounted: Mount, subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender decides about the ended mount, and about no other."""
    feed.tell({AT - timedelta(hours=1): {ANNA: 3_600, P2: 60}})
    assert look_at(subscription, monkeypatch, AT).outcome == "applied"
    mount = mount_at("/VO-B", other, AT)
    leave(mounted, AT)
    archive(AT, "/vo-a-here/P-A1")
    assert look_at(mount, monkeypatch, AT).outcome == "applied"
    assert drop_out_of_scope_entries(AT) == 1
    assert counted(subscription) == {(P2, AT - timedelta(hours=1)): 60}
    inputs = load_inputs(grid(), as_of=AT)
    computed = compute(inputs)
    used = dict(zip(computed.entry_of_account.tolist(), computed.usage_of_account.tolist(), strict=True))
    assert used == {inputs.tree.index_of_uid(P2): 60, inputs.tree.index_of_uid(ANNA): 0}


@pytest.mark.parametrize("goes", ["archived before", "dropped by its document"])
def test_locally_created_uids_are_never_accepted_from_a_mount(policy: Policy, goes: str) -> None:
    """P-A1 of /VO-A was ours before anything was mounted there."""
    vo, project, elsewhere = uid_of("/VO-A"), uid_of("/VO-A/P-A1"), uid_of("/VO-B")
    mark = {"op": "mount", "entry": "/VO-A", "mount": {"issuer": "x.example", "publication": "x"}}
    if goes == "archived before":
        archive(AT, "/VO-A/P-A1")
    do(AT, mark)
    if goes == "dropped by its document":
        applies(Node(P3, vo, "new"), without=project)
    assert owned_elsewhere(grid(), elsewhere, [project]) == {project}
    applies(Node(project, vo, "claimed"))  # at its own place it may come again
    do(AT, {**mark, "mount": None})
    archive(AT, "/VO-A")
    assert owned_elsewhere(grid(), elsewhere, [project, P3]) == {project}


def applies(*nodes: Node, without: UUID | None = None) -> None:
    """As a mount's document does."""
    tree = load_tree(grid())
    gone = None if without is None else tree.subtree_mask(tree.index_of_uid(without) or 0)
    kept = [node for i, node in enumerate(tree.nodes()) if gone is None or not gone[i]]
    following = columns_of([*kept, *nodes], policy_slug="grid", number=tree.number)
    with transaction.atomic():
        publish_mounted_tree(policy=lock_policy(grid().pk), tree=following, reason="A document.", at=AT)


def test_entries_added_with_the_mount_or_restored_manually_are_local(policy: Policy) -> None:
    marked = {"name": "new", "mount": {"issuer": "x.example", "publication": "x"}, "children": [{"name": "p"}]}
    root = {"name": "grid", "children": [marked]}
    services.publish_document(policy_slug="grid", document={"root": root}, reason="A file.", at=AT, actor=COMMAND)
    by_file, new = uid_of("/new/p"), uid_of("/new")
    applies(Node(P1, new, "one"), Node(P2, new, "two"))
    do(AT, {"op": "mount", "entry": "/new", "mount": None})
    archive(AT, "/new/one")
    do(AT, {"op": "restore", "entry": str(P1)})
    archive(AT, "/new")
    assert owned_elsewhere(grid(), UUID(int=9), [by_file, P1, P2]) == {by_file, P1}


def test_a_restored_entry_omits_children_now_owned_by_another_mount(policy: Policy) -> None:
    vo, goal = uid_of("/VO-A"), uid_of("/VO-B")
    mount = {"issuer": "x.example", "publication": "x"}
    do(AT, {"op": "mount", "entry": "/VO-A", "mount": mount})
    applies(Node(P1, vo, "one"), Node(ANNA, P1, "anna", "user", 1.0, is_group=False), Node(P2, vo, "two"))
    do(AT, {"op": "mount", "entry": "/VO-A", "mount": None})
    archive(AT, "/VO-A")
    do(AT, {"op": "mount", "entry": "/VO-B", "mount": mount})
    applies(Node(P1, goal, "one"))
    do(AT, {"op": "restore", "entry": str(vo)})
    assert (path_of(P1), path_of(P2), path_of(ANNA)) == ("/VO-B/one", "/VO-A/two", None)


def test_many_former_mount_entries_are_queried_at_once(policy: Policy, django_assert_max_num_queries: Any) -> None:
    """Chains of ten, three hundred of them: two questions a level, whatever is below it."""
    vo, mount = uid_of("/VO-A"), {"issuer": "x.example", "publication": "x"}
    do(AT, {"op": "mount", "entry": "/VO-A", "mount": mount})
    uids = [UUID(int=0x10000 + n) for n in range(3_000)]
    above = [vo if n % 10 == 0 else uids[n - 1] for n in range(3_000)]
    applies(*(Node(uid, at, f"n{n}") for n, (uid, at) in enumerate(zip(uids, above, strict=True))))
    archive(AT, "/VO-A")
    with django_assert_max_num_queries(25):
        assert owned_elsewhere(grid(), uid_of("/VO-B"), uids) == set()
