"""The shares that a policy wants of a scheduler, beside a listing of those that the scheduler has.

One association is known by account and user (Slurm), or by its path in the share tree (Grid Engine), user "".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from apps.policies.formats import gridengine
from apps.policies.formats.sacctmgr_against import Compared, fit_to, wanted_of
from apps.policies.formats.sacctmgr_dump import Dump, Line
from apps.policies.formats.slurm_tree import slurm_shares
from apps.policies.tree.columns import TreeColumns


class ListedAssociation(NamedTuple):
    """shares: a whole number, or "parent". partition: "" of all."""

    group: str
    user: str
    partition: str
    parent: str
    shares: str


class WantedShares(NamedTuple):
    """fitted: the tree with names and whole shares as the scheduler can have them. shares: with the row of the tree."""

    fitted: TreeColumns
    shares: dict[tuple[str, str], tuple[str, int]]
    notes: tuple[str, ...]


def shares_for_slurm(tree: TreeColumns, cluster: str, listed: Iterable[ListedAssociation]) -> WantedShares:
    """notes: what shares can't bring about, as in a comparison with a dump."""
    dump = Dump(cluster, list(_lines(listed)))
    compared = Compared(dump, tree, fit_to(tree, dump))
    wanted = {(one.key.account, one.key.user): (one.shares, one.row) for one in wanted_of(compared.fitted).values()}
    return WantedShares(compared.fitted, wanted, compared.notes)


def shares_for_gridengine(tree: TreeColumns, listed: Iterable[ListedAssociation]) -> WantedShares:
    fitted = gridengine.fit_to(tree, {row.group: row.shares for row in listed})
    wanted = {(path, ""): (shares, row) for path, shares, row in gridengine.nodes_of(fitted)}
    return WantedShares(fitted, wanted, ())


def _lines(listed: Iterable[ListedAssociation]) -> Iterator[Line]:
    for row in listed:
        word, name = ("User", row.user) if row.user else ("Account", row.group)
        above = row.group if row.user else row.parent
        yield Line("", word, name, above, row.partition, slurm_shares(row.shares))
