"""A file merged into the current tree: which entry is which, and what stays."""

from __future__ import annotations

from fractions import Fraction
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from hypothesis import given

from apps.core.errors import Invalid
from apps.policies.files.document import read_document
from apps.policies.formats.registry import get_format
from apps.policies.formats.whole_shares import competitors, whole_shares
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.difference import CHANGES, compare
from apps.policies.tree.document_merge import indexes_of, merge_document, next_revision
from apps.policies.tree.working_tree import columns_of
from tests.policies.formats.round_trip import read
from tests.policies.share_trees import trees

ROOT, A, B, C = (UUID(int=number) for number in range(1, 5))
HEAD = columns_of(
    [
        Node(ROOT, None, "grid"),
        Node(A, ROOT, "a", shares=2.0),
        Node(B, A, "b", "user", 3.0, is_group=False),
        Node(C, ROOT, "c", "reserve", 1.0, is_group=False),
    ]
)


def laid_over(*children: dict[str, Any], keep_missing: bool = False, was_here: Any = lambda uids: set()) -> TreeColumns:
    declared = read_document({"root": {"name": "grid", "children": list(children)}})
    return merge_document(declared, HEAD, keep_missing=keep_missing, was_here=was_here)


def paths(tree: TreeColumns) -> dict[str, Any]:
    return {tree.path(i): tree.uuid(i) for i in range(1, len(tree))}


def test_an_entry_without_a_uid_is_matched_by_path() -> None:
    tree = laid_over({"name": "a", "children": [{"name": "b", "kind": "user"}, {"name": "d"}]})
    found = paths(tree)
    assert (found["/a"], found["/a/b"]) == (A, B)
    assert found["/a/d"] not in (A, B, C)
    assert tree.uuid(0) == ROOT


def test_a_uid_of_another_policy_does_not_replace_an_entry() -> None:
    other = str(uuid4())
    assert paths(laid_over({"name": "a", "uid": other, "children": []}))["/a"] == A
    assert str(paths(laid_over({"name": "new", "uid": other}))["/new"]) == other


def test_a_former_uid_is_matched_before_the_path() -> None:
    old = uuid4()
    found = laid_over({"name": "a", "uid": str(old), "children": []}, was_here=lambda uids: set(uids))
    assert paths(found)["/a"] == old


def test_the_uid_of_the_root_matches_only_the_root() -> None:
    with pytest.raises(Invalid, match="has the uid of the policy's root"):
        laid_over({"name": "a", "uid": str(ROOT)})


def test_missing_entries_are_archived_or_kept_as_chosen() -> None:
    assert list(paths(laid_over({"name": "c", "kind": "reserve"}))) == ["/c"]
    kept = laid_over({"name": "c", "kind": "reserve"}, {"name": "d"}, keep_missing=True)
    assert list(paths(kept)) == ["/a", "/c", "/d", "/a/b"]
    assert paths(kept)["/a/b"] == B


def test_kept_entries_move_with_their_parent() -> None:
    kept = laid_over({"name": "x", "children": [{"name": "y", "uid": str(A), "children": []}]}, keep_missing=True)
    assert paths(kept)["/x/y/b"] == B


@pytest.mark.parametrize(
    ("children", "message"),
    [
        (
            [{"name": "c", "uid": str(A), "children": []}],
            "/c would stay, but the file has another entry with this parent and name",
        ),
        ([{"name": "a", "kind": "reserve"}], "/a/b would stay"),
    ],
)
def test_kept_entries_with_a_name_conflict_are_reported(children: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        laid_over(*children, keep_missing=True)


def test_kept_entries_cannot_exceed_the_depth_limit() -> None:
    entry: dict[str, Any] = {"name": "a", "uid": str(A), "children": []}
    for level in range(63):
        entry = {"name": f"l{level}", "children": [entry]}
    with pytest.raises(Invalid, match="more than 64 levels"):
        laid_over(entry, keep_missing=True)


def test_a_file_with_all_entries_is_merged_alike_whatever_happens_to_missing_ones() -> None:
    children: list[dict[str, Any]] = [{"name": "a", "shares": 4, "children": [{"name": "b"}]}, {"name": "c"}]
    assert laid_over(*children, keep_missing=True).same_as(laid_over(*children))


@pytest.mark.parametrize("rows", ["/c,1\n/c/d,1\n", "/c,inherit\n"])
def test_a_file_without_kinds_makes_no_group_of_a_reserve(rows: str) -> None:
    declared = read("csv", f"path,shares\n{rows}")
    with pytest.raises(Invalid) as refused:
        merge_document(declared, HEAD, fitted=get_format("csv").fit(HEAD))
    assert [field.where for field in refused.value.fields] == ["/c"]


@given(trees(), trees())
def test_written_rows_turn_one_tree_into_the_other(head: TreeColumns, tree: TreeColumns) -> None:
    following = next_revision(head, tree, PolicySettings())
    rows = {node.uid: node for node in head.nodes()}
    for uid in following.closed:
        del rows[uid]
    opened = list(following.opened)
    assert len(opened) == following.n_opened
    assert not {node.uid for node in opened} & set(rows)
    rows |= {node.uid: node for node in opened}
    assert rows == {node.uid: node for node in tree.nodes()}


@given(trees())
def test_uids_are_found_at_their_position(tree: TreeColumns) -> None:
    places = indexes_of(tree.uid[::-1], tree)
    assert places.tolist() == list(range(len(tree)))[::-1]
    assert indexes_of(np.zeros((1, 16), dtype=np.uint8), tree).tolist() == [-1]


@given(trees())
def test_integer_shares_keep_the_order_and_if_possible_the_proportions(tree: TreeColumns) -> None:
    most = 2**31 - 2
    whole, above = whole_shares(tree, most), competitors(tree)
    assert np.array_equal(whole[1:], np.rint(whole[1:]))
    assert (whole[1:] <= most).all()
    assert np.array_equal(whole[1:] > 0, tree.shares[1:] > 0)
    for group in set(above[1:].tolist()):
        members = [i for i in range(1, len(tree)) if above[i] == group]
        exact = [Fraction(repr(float(tree.shares[i]))) for i in members]
        for i, mine in zip(members, exact, strict=True):
            for j, other in zip(members, exact, strict=True):
                assert (mine <= other) <= (whole[i] <= whole[j])
        if all(share.denominator in (1, 2, 10) for share in exact) and max(exact) * 10 <= most:
            total, given_total = sum(whole[i] for i in members), sum(exact)
            for i, share in zip(members, exact, strict=True):
                assert Fraction(int(whole[i])) * given_total == share * int(total)


def test_targets_and_counts_have_the_same_entries() -> None:
    reserve = {"name": "c", "kind": "reserve", "shares": 2}
    after = laid_over({"name": "a", "shares": 6, "children": []}, reserve, {"name": "d"})
    found = compare(HEAD, after)
    assert {what: n for what, n in found.counts() if n} == {"added": 1, "archived": 1, "shares changed": 2}
    assert [(each.path, each.changes, each.before, each.after) for each in found.entries] == [
        ("/a/b", ("archived",), 1.0, None),
        ("/c", ("shares changed",), 1 / 3, 2 / 9),
        ("/d", ("added",), None, 1 / 9),
        ("/a", ("shares changed",), 2 / 3, 2 / 3),
    ]
    assert compare(HEAD, HEAD).is_empty


@given(trees(), trees())
def test_each_label_counts_its_lines(before: TreeColumns, after: TreeColumns) -> None:
    found = compare(before, after, most=len(before) + len(after))
    assert found.n_entries == len(found.entries)
    assert all(each.changes for each in found.entries)
    assert dict(found.counts()) == {word: sum(word in each.changes for each in found.entries) for word in CHANGES}


@pytest.mark.parametrize("n_moved", [0, 1, 3, 400])
def test_entries_of_another_tree_are_found_wherever_they_are(n_moved: int) -> None:
    random = np.random.default_rng(n_moved)
    uids = [UUID(int=number) for number in random.permutation(1_000).tolist()]
    tree = columns_of(Node(uid, uids[0] if at else None, f"e{at}") for at, uid in enumerate(uids))
    wanted = tree.uid.copy()
    moved = random.permutation(1_000)[:n_moved]
    wanted[moved] = wanted[np.roll(moved, 1)]
    if n_moved:
        wanted[moved[0]] = 255  # of no entry
    wanted = np.concatenate([wanted, tree.uid[:2]])
    for length in (0, 1, 999, 1_002):
        places = [tree.index_of_uid(UUID(bytes=uid.tobytes())) for uid in wanted[:length]]
        assert indexes_of(wanted[:length], tree).tolist() == [-1 if at is None else at for at in places]
