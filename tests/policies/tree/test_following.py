"""Following Slurm: its accounts and users are taken, published shares stay."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import Invalid
from apps.policies.formats.registry import get_format
from apps.policies.operations.apply import apply_operations
from apps.policies.publishing.direct import tree_of_document
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.difference import compare, operations_between
from apps.policies.tree.following import Followed, follow_document
from apps.policies.tree.names import new_uid
from apps.policies.tree.working_tree import columns_of
from tests.policies.formats.round_trip import read
from tests.policies.slurm_sites import SlurmSite, changes, sites

SACCTMGR = get_format("sacctmgr")
SITE = SlurmSite(
    {"chem": ("root", 50), "geo": ("root", 40), "seis": ("geo", 3), "deep": ("seis", 2)},
    {("chem", "ann", ""): 1, ("deep", "dan", ""): 5, ("deep", "eve", ""): 5, ("seis", "ann", "gpu"): 2},
)


def imported(site: SlurmSite) -> TreeColumns:
    return tree_of_document(read("sacctmgr", site.dump()), SACCTMGR)


def followed(site: SlurmSite, head: TreeColumns, *, keep_missing: bool = False) -> Followed:
    declared = read("sacctmgr", site.dump())
    return follow_document(declared, head, fitted=SACCTMGR.fit(head), keep_missing=keep_missing)


def places(tree: TreeColumns) -> set[tuple[str, bool]]:
    """Path, and whether it is a group, of each entry that Slurm may have."""
    rows = (i for i in range(1, len(tree)) if not tree.is_reserve[i])
    return {(tree.path(i), bool(tree.is_group[i])) for i in rows}


def identities(site: SlurmSite, tree: TreeColumns) -> dict[tuple[str, str], Node]:
    """The entry of each association by account and user, whatever path it has."""
    nodes = {tree.path(i): tree.node(i) for i in range(len(tree))}
    accounts = {(name, ""): nodes[site.path(name)] for name in site.accounts}
    return accounts | {(key[0], f"{key[1]}:{key[2]}"): nodes[site.user_path(key)] for key in site.users}


def by_path(tree: TreeColumns) -> dict[str, float | None]:
    return {tree.path(i): tree.node(i).shares for i in range(1, len(tree))}


@st.composite
def histories(draw: st.DrawFn) -> tuple[SlurmSite, SlurmSite, TreeColumns]:
    """A site, the same after changes there, and its policy after changes here."""
    site = draw(sites())
    nodes = list(imported(site).nodes())
    shares = st.none() | st.sampled_from([0.0, 1e-15, 0.5, 1 / 3, 90.0, 1e15]) | st.integers(0, 1000).map(float)
    published = [nodes[0], *(replace(node, shares=draw(shares)) for node in nodes[1:])]
    if draw(st.booleans()):
        above = draw(st.sampled_from([node for node in nodes if node.is_group]))
        published.append(
            Node(
                new_uid(), above.uid, "spare", "reserve", draw(st.sampled_from([0.0, 1e-15, 0.25, 9.0])), is_group=False
            )
        )
    return site, draw(changes(site)), columns_of(published, policy_slug="fjord", number=3)


@given(histories())
def test_after_following_the_tree_is_slurms_and_published_shares_are_unchanged(
    history: tuple[SlurmSite, SlurmSite, TreeColumns],
) -> None:
    before, after, head = history
    tree = followed(after, head).tree
    assert places(tree) == after.places()
    here, there = identities(before, head), identities(after, tree)
    for key in here.keys() & there.keys():
        assert (there[key].uid, there[key].shares) == (here[key].uid, here[key].shares), key
    known = {head.uuid(i): head.node(i).shares for i in range(len(head))}
    assert all(known.get(node.uid, node.shares) == node.shares for node in tree.nodes())
    operations = operations_between(head, tree)
    outcome = apply_operations(head, operations).tree if operations else head
    assert compare(outcome, tree).is_empty
    assert operations_between(tree, followed(after, tree).tree) == []


def taken_places(head: TreeColumns, site: SlurmSite) -> bool:
    """Whether an entry that Slurm lacks has the path of an account or user of another kind there."""
    there = dict(site.places())
    return any(there.get(path, is_group) != is_group for path, is_group in places(head))


@given(histories())
def test_with_missing_entries_kept_no_account_stands_twice(
    history: tuple[SlurmSite, SlurmSite, TreeColumns],
) -> None:
    _before, after, head = history
    tree = None
    with suppress(Invalid):
        tree = followed(after, head, keep_missing=True).tree
    if tree is None:  # a user whom Slurm removed, and who hasn't moved, has the place of a new account
        assert taken_places(head, after)
        return
    assert places(tree) >= after.places()
    assert {head.uuid(i) for i in range(len(head))} <= {tree.uuid(i) for i in range(len(tree))}
    groups = [tree.name[i] for i in range(1, len(tree)) if tree.is_group[i]]
    assert len(groups) == len(set(groups))
    assert operations_between(tree, followed(after, tree, keep_missing=True).tree) == []


def test_a_moved_account_takes_its_users_and_published_shares_along() -> None:
    head = columns_of([replace(node, shares=90.0) if node.name == "deep" else node for node in imported(SITE).nodes()])
    moved = replace(SITE, accounts={**SITE.accounts, "deep": ("chem", 7)})
    changed = by_path(followed(moved, head).tree)
    assert (changed["/chem/deep"], changed["/chem/deep/dan"]) == (90.0, 5.0)
    assert "/geo/seis/deep" not in changed


def test_an_account_of_another_name_with_the_same_users_below_the_same_parent_is_renamed() -> None:
    head = imported(SITE)
    accounts = {"abyss" if name == "deep" else name: each for name, each in SITE.accounts.items()}
    users = {("abyss" if key[0] == "deep" else key[0], *key[1:]): 9 for key in SITE.users}
    tree = followed(SlurmSite(accounts, users), head).tree
    assert [operation["op"] for operation in operations_between(head, tree)] == ["rename"]
    assert by_path(tree)["/geo/seis/abyss/dan"] == 5.0


def test_an_account_of_another_name_with_other_users_is_new() -> None:
    accounts = {"abyss" if name == "deep" else name: each for name, each in SITE.accounts.items()}
    users = {key: 1 for key in SITE.users if key[0] != "deep"} | {("abyss", "dan", ""): 1}
    head = imported(SITE)
    counts = dict(compare(head, followed(SlurmSite(accounts, users), head).tree).counts())
    assert (counts["added"], counts["archived"], counts["moved"]) == (1, 2, 1), "dan alone is recognised"


def test_a_user_of_two_accounts_who_leaves_both_is_not_guessed() -> None:
    users = {("chem", "ann", ""): 1, ("geo", "ann", ""): 1}
    head = imported(replace(SITE, users=users))
    tree = followed(replace(SITE, users={("seis", "ann", ""): 4}), head).tree
    assert compare(head, tree).counts()[:3] == [("added", 1), ("archived", 2), ("moved", 0)]


def test_the_association_of_a_partition_beside_the_users_plain_one_is_an_entry_of_its_own() -> None:
    both = replace(SITE, users={**SITE.users, ("seis", "ann", ""): 8})
    tree = followed(both, imported(SITE)).tree
    assert (by_path(tree)["/geo/seis/ann"], by_path(tree)["/geo/seis/ann:gpu"]) == (8.0, 2.0)


def test_a_new_entry_has_slurms_shares_in_the_scale_of_its_group() -> None:
    """0.5 and 0.25 are 50 and 25 in Slurm, which takes whole numbers: its 6 are 0.06 here."""
    nodes = list(imported(replace(SITE, users={})).nodes())
    published = {"chem": 0.5, "geo": 0.25}
    head = columns_of([replace(node, shares=published.get(node.name, node.shares)) for node in nodes])
    accounts = {**SITE.accounts, "lab": ("root", 6)}
    assert SACCTMGR.fit(head).shares.tolist()[1:3] == [50, 25]
    assert by_path(followed(SlurmSite(accounts, {}), head).tree)["/lab"] == 0.06
