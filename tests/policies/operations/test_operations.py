"""Operations in memory: what each does, what each refuses, and that a refusal names its place."""

from __future__ import annotations

import math
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import DomainError, Invalid, NotFound, TooLarge
from apps.policies.files.document import read_document
from apps.policies.operations.apply import KINDS, apply_operations, tree_after
from apps.policies.operations.percent import own_shares_for_percent, shares_for_percent
from apps.policies.operations.tree_edits import AllowEverything
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.working_tree import WorkingTree, columns_of
from tests.each_case import each_case
from tests.examples import new_uid
from tests.policies.published import GRID

ROOT = UUID(int=1)


@pytest.fixture
def tree() -> TreeColumns:
    """The small policy, with uids of its own."""
    nodes = list(read_document(GRID).tree.nodes())
    return _with_uids(read_document(GRID).tree, len(nodes))


def _with_uids(read: TreeColumns, n: int) -> TreeColumns:
    uids = [new_uid() for _ in range(n)]
    nodes = []
    for i in range(n):
        node = read.node(i)
        parent = int(read.parent[i])
        nodes.append(
            Node(uids[i], uids[parent] if parent >= 0 else None, node.name, node.kind, node.shares, node.is_group)
        )
    return columns_of(nodes)


def paths(tree: TreeColumns) -> dict[str, float | None]:
    return {tree.path(i): (None if tree.inherit[i] else float(tree.shares[i])) for i in range(1, len(tree))}


def shares(tree: TreeColumns, path: str) -> float | None:
    return paths(tree)[path]


def set_shares(path: str, value: object) -> dict[str, Any]:
    return {"op": "set_shares", "entry": path, "shares": value}


def test_shares_become_a_number_or_inherit(tree: TreeColumns) -> None:
    assert shares(tree_after(tree, [set_shares("/physics", 20)]), "/physics") == 20
    assert shares(tree_after(tree, [set_shares("/physics", "parent")]), "/physics") is None
    assert shares(tree_after(tree, [set_shares("/physics", 0)]), "/physics") == 0


def test_operations_do_not_modify_the_input_tree(tree: TreeColumns) -> None:
    before = paths(tree)
    tree_after(tree, [set_shares("/physics", 20), {"op": "archive", "entry": "/biology"}])
    assert paths(tree) == before


@pytest.mark.paper("4.15")
def test_a_percentage_changes_only_the_shares_of_its_entry(tree: TreeColumns) -> None:
    after = tree_after(tree, [set_shares("/physics", {"percent": 35})])
    assert [shares(after, path) for path in ("/physics", "/biology", "/reserve")] == [37.69, 50, 20]
    locked = tree_after(tree, [{"op": "lock", "entry": "/biology"}, set_shares("/physics", {"percent": 35})])
    assert [shares(locked, path) for path in ("/physics", "/biology", "/reserve")] == [37.69, 50, 20]


def test_a_percentage_names_its_givers_only_if_chosen(tree: TreeColumns) -> None:
    kept = [
        apply_operations(tree, [set_shares("/physics", given)]).operations[0]["shares"]
        for given in ({"percent": 35}, {"percent": 35, "from": "siblings"})
    ]
    assert kept == [{"percent": 35}, {"percent": 35, "from": "siblings"}]


@pytest.mark.paper("4.15")
def test_a_percentage_from_all_siblings_scales_them_and_keeps_the_sum(tree: TreeColumns) -> None:
    after = tree_after(tree, [set_shares("/physics", {"percent": 65, "from": "siblings"})])
    assert [shares(after, path) for path in ("/physics", "/biology", "/reserve")] == [65, 25, 10]


def test_a_percentage_from_the_reserve_changes_no_other_sibling(tree: TreeColumns) -> None:
    after = tree_after(tree, [set_shares("/physics", {"percent": 45, "from": "reserve"})])
    assert [shares(after, path) for path in ("/physics", "/biology", "/reserve")] == [45, 50, 5]
    back = tree_after(after, [set_shares("/physics", {"percent": 30, "from": "reserve"})])
    assert [shares(back, path) for path in ("/physics", "/biology", "/reserve")] == [30, 50, 20]


def test_a_percentage_is_taken_only_from_the_chosen_siblings(tree: TreeColumns) -> None:
    after = tree_after(tree, [set_shares("/physics", {"percent": 40, "from": ["/biology"]})])
    assert [shares(after, path) for path in ("/physics", "/biology", "/reserve")] == [40, 40, 20]


def test_a_locked_sibling_does_not_give_shares_for_a_percentage(tree: TreeColumns) -> None:
    operations = [{"op": "lock", "entry": "/biology"}, set_shares("/physics", {"percent": 40, "from": "siblings"})]
    after = tree_after(tree, operations)
    assert [shares(after, path) for path in ("/physics", "/biology", "/reserve")] == [40, 50, 10]


@each_case(
    ("value", "remedy"),
    [
        ({"percent": 60, "from": "reserve"}, "at most 50 % is possible"),
        ({"percent": 101, "from": "siblings"}, "from 0 to 100"),
        ({"percent": 101}, "from 0 to 100"),
        ({"percent": 100}, "isn't possible while its siblings have shares"),
        ({"percent": 1e-300}, "1e-15"),
        ({"percent": math.nan, "from": "siblings"}, "from 0 to 100"),
        ({"percent": True}, "from 0 to 100"),
        ({"percent": 10, "from": "nowhere"}, 'must be "siblings"'),
        ({"percent": 10, "from": []}, 'must be "siblings"'),
        ({"percent": 10, "from": ["/physics/bob"]}, "siblings of the entry only"),
        ({"percent": 10, "from": ["/physics"]}, "siblings of the entry only"),
        ({"from": "siblings"}, "percent"),
        (-1, "from 0 to 1e+15"),
        (math.nan, "from 0 to 1e+15"),
        (math.inf, "from 0 to 1e+15"),
        (10**400, "from 0 to 1e+15"),
        (True, "not true or false"),
        ("20", "not text"),
        (None, "not null"),
        (None, "number"),
        ([20], "not a list"),
    ],
)
def test_invalid_shares_are_refused_with_a_remedy(tree: TreeColumns, value: object, remedy: str) -> None:
    with pytest.raises(Invalid) as refusal:
        tree_after(tree, [{"op": "lock", "entry": "/biology"}, set_shares("/physics", value)])
    assert refusal.value.message.startswith("operations[1].shares")
    assert refusal.value.fields[0].where.startswith("operations[1].shares")
    assert remedy in refusal.value.message


def test_a_percentage_beside_an_entry_that_inherits_is_refused(tree: TreeColumns) -> None:
    with pytest.raises(Invalid, match="percentages of the group are undefined"):
        tree_after(tree, [set_shares("/biology", "parent"), set_shares("/physics", {"percent": 10})])
    with pytest.raises(Invalid, match="give it a number first"):
        tree_after(tree, [set_shares("/physics", "parent"), set_shares("/physics", {"percent": 10})])
    for more in ({}, {"from": "siblings"}):
        with pytest.raises(Invalid, match="its group 'physics' inherits its shares"):
            tree_after(tree, [set_shares("/physics", "parent"), set_shares("/physics/alice", {"percent": 10, **more})])


def test_entries_are_added_renamed_moved_and_archived_in_one_change_set(tree: TreeColumns) -> None:
    after = tree_after(
        tree,
        [
            {"op": "add", "parent": "/", "name": "chemistry", "kind": "vo", "shares": 5},
            {"op": "move", "entry": "/biology/lab", "parent": "/chemistry"},
            {"op": "rename", "entry": "/chemistry/lab", "name": "wet lab"},
            {"op": "add", "parent": "/chemistry/wet lab", "name": "dora", "kind": "user"},
            {"op": "archive", "entry": "/physics"},
        ],
    )
    assert paths(after) == {
        "/biology": 50,
        "/chemistry": 5,
        "/reserve": 20,
        "/chemistry/wet lab": 1,
        "/chemistry/wet lab/dora": 1,
    }


def test_an_added_entry_keeps_its_uid_when_the_operations_are_applied_again(tree: TreeColumns) -> None:
    outcome = apply_operations(tree, [{"op": "add", "parent": "/physics", "name": "carl"}])
    again = apply_operations(tree, outcome.operations)
    assert again.tree.same_as(outcome.tree)
    assert outcome.operations[0]["parent"] == str(tree.uuid(tree.index_of_path("/physics") or 0))


def test_a_user_that_gets_a_child_becomes_a_group(tree: TreeColumns) -> None:
    after = tree_after(tree, [{"op": "add", "parent": "/physics/bob", "name": "robot", "kind": "user"}])
    assert after.is_group[after.index_of_path("/physics/bob") or 0]


def test_a_moved_entry_may_take_a_new_name_and_shares(tree: TreeColumns) -> None:
    move = {"op": "move", "entry": "/physics/bob", "parent": "/biology/lab", "name": "rob", "shares": "parent"}
    assert shares(tree_after(tree, [move]), "/biology/lab/rob") is None


@pytest.mark.paper("4.26")
def test_scope_is_inherited_and_can_be_narrowed(tree: TreeColumns) -> None:
    after = tree_after(tree, [{"op": "set_scope", "entry": "/physics", "scope": "global", "sources": ["a", "b", "a"]}])
    code, scopes = after.effective_scopes()
    physics, bob, biology = (after.index_of_path(path) or 0 for path in ("/physics", "/physics/bob", "/biology"))
    assert scopes[code[physics]] == scopes[code[bob]] == ("global", ("a", "b"))
    assert scopes[code[biology]] == ("local", ())


def test_settings_are_changed_part_by_part(tree: TreeColumns) -> None:
    outcome = apply_operations(tree, [{"op": "set_policy", "settings": {"window": {"length_s": None}}}])
    assert outcome.settings.window["length_s"] is None
    assert outcome.settings.window["half_life_s"] == 604_800
    assert outcome.changes == {}


@each_case(
    ("operation", "where", "remedy"),
    [
        ({"op": "explode"}, "operations[0].op", "known are set_shares, add"),
        ({"op": ["add"]}, "operations[0].op", "unknown operation"),
        ({}, "operations[0].op", "unknown operation None"),
        ({"op": "lock", "entry": "/physics", "colour": 1}, "operations[0].colour", "takes entry, locked"),
        (set_shares("/", 1), "operations[0].entry", "isn't possible for the root"),
        (set_shares("physics", 1), "operations[0].entry", "must be an entry's uid, or its path"),
        ({"op": "add", "parent": "/reserve", "name": "x"}, "operations[0].parent", "reserve"),
        ({"op": "add", "parent": "/", "name": "physics"}, "operations[0].name", "/ has a child 'physics' already"),
        ({"op": "add", "parent": "/", "name": "a/b"}, "operations[0].name", "separates the parts"),
        ({"op": "add", "parent": "/", "name": "a\u202eb"}, "operations[0].name", "U+202E"),
        ({"op": "add", "parent": "/", "name": "x" * 129}, "operations[0].name", "of 128 characters"),
        ({"op": "add", "parent": "/", "name": ""}, "operations[0].name", "empty"),
        ({"op": "add", "parent": "/", "name": " x"}, "operations[0].name", "space"),
        ({"op": "add", "parent": "/", "name": 7}, "operations[0].name", "in quotes"),
        (
            {"op": "add", "parent": "/", "name": "r", "kind": "reserve", "shares": "parent"},
            "operations[0].shares",
            "nee",
        ),
        ({"op": "rename", "entry": "/physics", "name": "biology"}, "operations[0].name", "different names"),
        ({"op": "move", "entry": "/physics", "parent": "/physics/bob"}, "operations[0].parent", "below itself"),
        ({"op": "move", "entry": "/physics", "parent": "/physics"}, "operations[0].parent", "below itself"),
        ({"op": "archive", "entry": "/"}, "operations[0].entry", "root"),
        ({"op": "restore", "entry": str(uuid4())}, "operations[0].entry", "no archived entry"),
        ({"op": "set_scope", "entry": "/physics", "scope": "mars"}, "operations[0].scope", '"local", "global"'),
        ({"op": "set_scope", "entry": "/physics", "scope": "", "sources": ["a"]}, "operations[0].sources", "together"),
        ({"op": "lock", "entry": "/physics", "locked": 1}, "operations[0].locked", "true or false"),
        ({"op": "set_policy", "settings": {}}, "operations[0].settings", "must be an object"),
        (
            {"op": "set_policy", "settings": {"algorithm": {"operator": "magic"}}},
            "operations[0].settings.algorithm.operator",
            "allowed are absolute",
        ),
        ("archive", "operations[0]", "must be an object"),
    ],
)
def test_invalid_operations_are_refused_with_location_and_remedy(
    tree: TreeColumns, operation: Any, where: str, remedy: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        tree_after(tree, [operation])
    assert refusal.value.fields[0].where == where
    assert remedy in refusal.value.message


def test_an_unknown_entry_is_not_found(tree: TreeColumns) -> None:
    for entry in ("/chemistry", str(uuid4()), "/physics/bob/x"):
        with pytest.raises(NotFound, match=r"operations\[0\].entry: there is no entry"):
            tree_after(tree, [set_shares(entry, 1)])


def test_a_change_set_has_a_bounded_number_of_operations(tree: TreeColumns) -> None:
    wrong: list[Any] = [[], {}, "lock", None]
    for nothing in wrong:
        with pytest.raises(Invalid):
            tree_after(tree, nothing)
    with pytest.raises(TooLarge):
        tree_after(tree, [set_shares("/physics", 1)] * 10_001)


def test_the_tree_has_at_most_64_levels(tree: TreeColumns) -> None:
    operations: list[dict[str, Any]] = []
    path = ""
    for level in range(1, 66):
        operations.append({"op": "add", "parent": path or "/", "name": f"l{level}"})
        path += f"/l{level}"
    assert len(tree_after(tree, operations[:64])) == len(tree) + 64
    with pytest.raises(Invalid, match=r"operations\[64\].parent: at most 64 levels"):
        tree_after(tree, operations)
    with pytest.raises(Invalid, match="at most 64 levels"):
        tree_after(tree, [*operations[:63], {"op": "move", "entry": "/physics", "parent": path.rsplit("/", 2)[0]}])


@pytest.mark.paper("4.16")
def test_a_kind_is_changed_and_an_entry_becomes_a_group_or_a_leaf(tree: TreeColumns) -> None:
    change = {"op": "set_kind", "entry": "/biology/lab", "kind": "user", "is_group": False}
    lab = tree_after(tree, [change]).node(tree.index_of_path("/biology/lab") or 0)
    assert (lab.kind, lab.is_group) == ("user", False)
    again = tree_after(tree, [change, {"op": "set_kind", "entry": "/biology/lab", "kind": "team"}])
    assert not again.node(again.index_of_path("/biology/lab") or 0).is_group
    assert tree_after(tree, [{"op": "set_kind", "entry": "/", "kind": "site"}]).kind[0] == "site"


@pytest.mark.parametrize(
    ("operation", "found"),
    [
        ({"entry": "/physics", "is_group": False}, "has 2 children"),
        ({"entry": "/physics", "kind": "reserve"}, "has 2 children"),
        ({"entry": "/", "kind": "reserve"}, "children"),
        ({"entry": "/reserve", "is_group": True}, "false for a reserve"),
        ({"entry": "/physics", "kind": ""}, "must not be empty"),
    ],
)
def test_an_impossible_kind_is_refused(tree: TreeColumns, operation: dict[str, Any], found: str) -> None:
    with pytest.raises(Invalid, match=found):
        tree_after(tree, [{"op": "set_kind", **operation}])


def test_every_operation_of_the_registry_is_tested_here() -> None:
    assert set(KINDS) == {
        "set_shares",
        "add",
        "rename",
        "move",
        "archive",
        "restore",
        "set_scope",
        "lock",
        "set_policy",
        "set_dates",
        "set_members",
        "adjust_usage",
        "set_kind",
        "mount",  # in test_mounts
        "allocate",  # in test_allocation_edits
    }


class _SeesLess(AllowEverything):
    def may_see(self, tree: WorkingTree, node: Node, index: int) -> None:
        if node.name == "physics":
            raise NotFound("hidden")


def test_a_checked_operation_is_refused_as_any_other_where_its_entry_is_no_longer_seen(tree: TreeColumns) -> None:
    operations = [set_shares("/physics", 20), set_shares("/biology", 20)]
    refusals = []
    for n_checked in (0, 1):
        with pytest.raises(NotFound) as refused:
            apply_operations(tree, operations, guard=_SeesLess(), n_checked=n_checked)
        refusals.append((refused.value.message, refused.value.fields, refused.value.code))
    assert refusals[0] == refusals[1]


group = st.lists(st.floats(0, 1e6).map(lambda x: float(f"{x:.6g}")), min_size=2, max_size=8)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(0, 999))
def test_a_percentage_uses_two_decimals_if_sufficient(others: list[int], tenths: int) -> None:
    nodes = [Node(new_uid(), ROOT, f"n{i}", shares=float(number)) for i, number in enumerate([7, *others])]
    found = own_shares_for_percent(nodes[0], nodes[1:], tenths / 10)
    reached = 100 * found / (found + sum(others))
    assert f"{reached:.1f}" == f"{tenths / 10:.1f}"
    short = round(found, 2)
    assert found == short or abs(100 * short / (short + sum(others)) - tenths / 10) > 0.0499


@pytest.mark.parametrize(("total", "percent", "shares"), [(1072.14, 10.28, 122.84), (0.003, 40, 0.002), (2, 40, 1.333)])
def test_shares_of_a_percentage_have_as_few_digits_as_possible(total: float, percent: float, shares: float) -> None:
    nodes = [Node(new_uid(), ROOT, name, shares=number) for name, number in (("a", 5.0), ("b", total))]
    assert own_shares_for_percent(nodes[0], nodes[1:], percent) == shares


@given(group, st.floats(0, 100))
def test_a_percentage_is_reached_and_keeps_the_sum_of_the_group(numbers: list[float], percent: float) -> None:
    nodes = [Node(new_uid(), ROOT, f"n{i}", shares=number) for i, number in enumerate(numbers)]
    before = math.fsum(numbers)
    try:
        changed = shares_for_percent(nodes[0], nodes[1:], nodes[1:], percent)
    except ValueError:
        assert before == 0 or math.fsum(numbers[1:]) <= 1e-9 * before
        return
    after = [changed.get(node.uid, node.shares or 0.0) for node in nodes]
    assert all(0 <= number < math.inf for number in after)
    assert math.fsum(after) == pytest.approx(before, rel=1e-9)
    assert after[0] == pytest.approx(percent / 100 * before, rel=1e-9, abs=1e-300)
    for (old, new), (old2, new2) in zip(
        zip(numbers[1:], after[1:], strict=True), zip(numbers[2:], after[2:], strict=False), strict=False
    ):
        assert new * old2 == pytest.approx(new2 * old, rel=1e-6, abs=1e-6 * before * before)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda x: (
            st.lists(x, max_size=3)
            | st.dictionaries(
                st.sampled_from(["op", "entry", "shares", "percent", "from", "parent", "name"]), x, max_size=5
            )
        ),
    )
)
def test_any_input_is_applied_or_refused_with_a_domain_error(sent: Any) -> None:
    tree = _with_uids(read_document(GRID).tree, 7)
    for operation in (sent, *({"op": kind, **(sent if isinstance(sent, dict) else {"entry": sent})} for kind in KINDS)):
        refused = _refusal(tree, operation)
        assert refused is None or refused.fields[0].where.startswith("operations[0]")


def _refusal(tree: TreeColumns, operation: Any) -> DomainError | None:
    try:
        apply_operations(tree, [operation])
    except DomainError as error:
        return error
    return None


def test_uids_with_equal_prefixes_are_found(tree: TreeColumns) -> None:
    same_half = [UUID(int=(7 << 64) + low) for low in (3, 1, 2)]
    nodes = [Node(ROOT, None, "root"), *(Node(uid, ROOT, f"n{uid.int & 7}") for uid in same_half)]
    found = columns_of(nodes)
    assert [found.name[found.index_of_uid(uid) or 0] for uid in same_half] == ["n3", "n1", "n2"]
    assert found.index_of_uid(UUID(int=(7 << 64) + 9)) is None
    assert found.index_of_uid(UUID(int=2**128 - 1)) is None
