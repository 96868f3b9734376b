"""A document laid over a tree changes the entries below its mount, and nothing else."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.invisible import shown
from apps.core.signing import BadDocument
from apps.federation.documents.wire import Head, PolicyDocument, PolicyLimits, read_policy, write_policy
from apps.federation.mounts.application import AppliedDocument, apply_document
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import MAX_DEPTH
from apps.policies.tree.working_tree import columns_of
from tests.call_counts import count_calls
from tests.examples import examples
from tests.instants import AT
from tests.refusals import refused

HEAD = Head("vo-a.example", "vo-a", 1, None, AT, AT + timedelta(days=7))
SITE, MOUNT, OTHER, OLD = (UUID(int=n) for n in range(1, 5))
VO, P1, P2, ANNA = (UUID(int=n) for n in range(11, 15))


def site() -> TreeColumns:
    return columns_of(
        [
            Node(SITE, None, "site"),
            Node(MOUNT, SITE, "vo-a-here", "vo", 30.0, locked=True),
            Node(OTHER, SITE, "local", "group", 70.0),
            Node(UUID(int=5), OTHER, "kim", "user", 1.0, is_group=False),
        ]
    )


def document_of(*nodes: Node, scope: str = "") -> PolicyDocument:
    tree = columns_of([Node(VO, None, "VO-A", scope=scope), *nodes])
    return read_policy(write_policy(HEAD, tree, 0), PolicyLimits())


PROJECTS = (
    Node(P1, VO, "P-A1", "project", 50.0),
    Node(P2, VO, "P-A2", "project", 30.0),
    Node(ANNA, P1, "anna", "user", 1.0, is_group=False),
)


def laid(head: TreeColumns, document: PolicyDocument, elsewhere: Collection[UUID] = ()) -> AppliedDocument:
    return apply_document(head, MOUNT, document, owned_elsewhere=lambda uids: [uid for uid in uids if uid in elsewhere])


def test_document_entries_land_below_the_local_mount_entry() -> None:
    applied = laid(site(), document_of(*PROJECTS, scope="global"))
    tree = applied.tree
    assert [tree.path(i) for i in range(len(tree))] == [
        "/",
        "/local",
        "/vo-a-here",
        "/local/kim",
        "/vo-a-here/P-A1",
        "/vo-a-here/P-A2",
        "/vo-a-here/P-A1/anna",
    ]
    mount = tree.node(tree.index_of_path("/vo-a-here") or 0)
    assert (mount.uid, mount.shares, mount.locked, mount.scope) == (MOUNT, 30.0, True, "global")
    assert tree.uuid(tree.index_of_path("/vo-a-here/P-A1/anna") or 0) == ANNA
    assert (applied.n_added, applied.n_gone, applied.n_changed) == (3, 0, 1)


def test_applying_the_same_document_again_changes_nothing() -> None:
    once = laid(site(), document_of(*PROJECTS)).tree
    again = laid(once, document_of(*PROJECTS))
    assert again.is_empty
    assert again.tree.same_as(once)
    assert again.furthest_points == 0


def test_the_next_version_moves_renames_and_removes_by_uid() -> None:
    once = laid(site(), document_of(*PROJECTS)).tree
    following = (Node(P2, VO, "P-A2 renamed", "project", 45.0), Node(ANNA, P2, "anna", "user", 1.0, is_group=False))
    applied = laid(once, document_of(*following))
    assert (applied.n_added, applied.n_gone, applied.n_changed) == (0, 1, 2)
    assert applied.tree.index_of_path("/vo-a-here/P-A2 renamed/anna") is not None
    assert applied.tree.index_of_uid(P1) is None
    assert applied.furthest_points == pytest.approx(100 * (1 - 30 / 80))


@pytest.mark.parametrize(("uid", "owner"), [(OTHER, "/local"), (SITE, "/"), (MOUNT, "the mount itself")])
def test_a_document_cannot_change_entries_of_other_authorities(uid: UUID, owner: str) -> None:
    with pytest.raises(BadDocument, match=f"has the uid of {owner},") as refusal:
        laid(site(), document_of(Node(uid, VO, "mine now")))
    assert refusal.value.code == "foreign_uid"
    assert refusal.value.fields[0].where == "/mine now"


def test_a_document_cannot_claim_former_entries_of_this_policy() -> None:
    document = document_of(Node(OLD, VO, "back again"))
    assert laid(site(), document).n_added == 1
    with pytest.raises(BadDocument):
        laid(site(), document, elsewhere=[OLD])


@pytest.mark.parametrize("name", ["an\u200bna", "anna\ufeff", ".", ".."])
def test_a_new_name_with_invisible_characters_is_rejected_with_its_path(name: str) -> None:
    odd = Node(ANNA, P1, name, "user", 1.0, is_group=False)
    with pytest.raises(BadDocument) as refusal:
        laid(site(), document_of(*PROJECTS[:2], odd))
    assert (refusal.value.code, [field.where for field in refusal.value.fields]) == ("bad_name", [f"/P-A1/{name}"])
    assert shown(f"/P-A1/{name}") in refusal.value.message
    old = columns_of(
        [
            *(site().node(i) for i in range(4)),
            Node(P1, MOUNT, "P-A1", "project", 50.0),
            Node(P2, MOUNT, "P-A2", "project", 30.0),
            replace(odd, shares=9.0),
        ]
    )
    assert laid(old, document_of(*PROJECTS[:2], odd)).n_changed == 1


def test_a_missing_or_too_deep_mount_entry_is_an_error() -> None:
    with refused(BadDocument, "mount_gone"):
        apply_document(site(), UUID(int=99), document_of(), owned_elsewhere=lambda uids: ())
    chain: list[Node] = []
    above = VO
    for n in range(1000, 1032):
        chain.append(Node(UUID(int=n), above, "x"))
        above = UUID(int=n)
    deep: list[Node] = [Node(SITE, None, "site")]
    at = SITE
    for n in range(2000, 2040):
        deep.append(Node(UUID(int=n), at, "y"))
        at = UUID(int=n)
    deep.append(Node(MOUNT, at, "mount"))
    with refused(BadDocument, naming=str(MAX_DEPTH)):
        laid(columns_of(deep), document_of(*chain))


@examples(50)
@given(data=st.data())
def test_nothing_outside_the_mount_changes(data: st.DataObject) -> None:
    """Random documents one after another, over one tree: names, uids and places of all others stay."""
    head = site()
    outside = [node for node in head.nodes() if node.uid != MOUNT]
    for _ in range(data.draw(st.integers(1, 3))):
        head = laid(head, document_of(*_some(data), scope=data.draw(st.sampled_from(["", "local", "global"])))).tree
        now: dict[UUID, Any] = {node.uid: node for node in head.nodes()}
        assert [now[node.uid] for node in outside] == outside
        below = head.subtree_mask(head.index_of_uid(MOUNT) or 0)
        assert len(head) - int(below.sum()) == len(outside)


def _some(data: st.DataObject) -> list[Node]:
    uids = data.draw(st.lists(st.integers(100, 130), unique=True, max_size=12))
    nodes: list[Node] = []
    for n in uids:
        above = data.draw(st.sampled_from([VO, *(node.uid for node in nodes)]))
        nodes.append(Node(UUID(int=n), above, f"e{n}", shares=data.draw(st.sampled_from([None, 0.0, 1.0, 2.5]))))
    return nodes


def test_uids_with_a_common_prefix_are_found_as_quickly_as_others() -> None:
    """The sender of a document chooses them: fifty thousand with the same first half must not cost their square."""
    root, half = UUID(int=1), 7 << 64
    nodes = [Node(UUID(int=half | k), root, f"u{k}", "user", is_group=False) for k in range(50_000)]
    tree = columns_of([Node(root, None, "vo"), *nodes])
    asked = nodes[::10]
    places, calls = count_calls(lambda: [tree.index_of_uid(node.uid) for node in asked])
    assert [tree.name[at] for at in places if at is not None] == [node.name for node in asked]
    assert calls < 200 * len(asked), "no search through all that begin alike"
    assert tree.index_of_uid(UUID(int=half | 60_000)) is None
    assert tree.index_of_uid(UUID(int=(half - 1) | 1)) is None
