"""Accounts of Slurm as entries of the tree."""

from __future__ import annotations

from collections.abc import Mapping

from apps.mapping.rules.entry_names import entry_name, text_of
from apps.policies.tree.columns import TreeColumns

# An account's name is unique in its cluster.
ROOT_ACCOUNT = "root"  # Slurm's name of the top of every cluster's tree


def entry_of_account(tree: TreeColumns, top: int, account: str) -> int | None:
    """Return the only entry with this name below `top`; None if there is none or several.

    Slurm's accounts have no letter case; where entries differ by it, the exact name decides.
    """
    entries = _named(tree, top, account)
    if entries:
        return entries[0] if len(entries) == 1 else None
    return top if account.lower() == ROOT_ACCOUNT else None


def account_of_entry(tree: TreeColumns, top: int, entry: int) -> str | None:
    """Return the name of the Slurm account that leads to this entry; None if none does."""
    account = ROOT_ACCOUNT if entry == top else text_of(tree.name[entry])
    return account if entry_of_account(tree, top, account) == entry else None


def ambiguous_accounts(tree: TreeColumns, top: int) -> Mapping[str, tuple[int, ...]]:
    """Return names that several entries below `top` have, with these entries."""
    entries_by_name = {
        name: _below(tree, top, places) for name, places in tree.groups_by_name.items() if len(places) > 1
    }
    return {text_of(name): places for name, places in entries_by_name.items() if len(places) > 1}


def _named(tree: TreeColumns, top: int, account: str) -> tuple[int, ...]:
    """Entries elsewhere may have the name too: they say nothing about those below `top`."""
    if not account:
        return ()
    name = entry_name(account)
    groups = tree.groups_by_name
    alike = (groups.get(account, ()), groups.get(name, ()), tree.groups_by_lower_name.get(name.lower(), ()))
    return next((below for places in alike if (below := _below(tree, top, places))), ())


def _below(tree: TreeColumns, top: int, places: tuple[int, ...]) -> tuple[int, ...]:
    return places if top == 0 else tuple(place for place in places if place != top and is_below(tree, place, top))


def is_below(tree: TreeColumns, entry: int, top: int) -> bool:
    """Return whether `entry` is `top` or below it."""
    while entry > top:  # parents have lower indices
        entry = int(tree.parent[entry])
    return entry == top
