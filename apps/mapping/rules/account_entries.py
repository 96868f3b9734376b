"""The entries that stand for Slurm's accounts: each account has one name in a cluster, wherever it lies in the tree."""

from __future__ import annotations

from collections.abc import Mapping

from apps.mapping.rules.rule import entry_name, text_of
from apps.policies.tree.columns import TreeColumns

ROOT_ACCOUNT = "root"  # Slurm's name of the top of every cluster's tree


def entry_of_account(tree: TreeColumns, top: int, account: str) -> int | None:
    """The one entry of this name below `top`; None where there is none, or several: no account is guessed."""
    found = _named(tree, top, account)
    if found:
        return found[0] if len(found) == 1 else None
    return top if account == ROOT_ACCOUNT else None


def account_of_entry(tree: TreeColumns, top: int, entry: int) -> str | None:
    """The name of the account that leads to this entry; None where none does."""
    account = ROOT_ACCOUNT if entry == top else text_of(tree.name[entry])
    return account if entry_of_account(tree, top, account) == entry else None


def ambiguous_accounts(tree: TreeColumns, top: int) -> Mapping[str, tuple[int, ...]]:
    """Names that several entries below `top` have, and these entries."""
    found = {name: _below(tree, top, places) for name, places in tree.groups_by_name.items() if len(places) > 1}
    return {text_of(name): places for name, places in found.items() if len(places) > 1}


def _named(tree: TreeColumns, top: int, account: str) -> tuple[int, ...]:
    if not account:
        return ()
    places = tree.groups_by_name.get(account) or tree.groups_by_name.get(entry_name(account), ())
    return _below(tree, top, places)


def _below(tree: TreeColumns, top: int, places: tuple[int, ...]) -> tuple[int, ...]:
    return places if top == 0 else tuple(place for place in places if place != top and is_below(tree, place, top))


def is_below(tree: TreeColumns, entry: int, top: int) -> bool:
    """The entry itself, or one below it."""
    while entry > top:  # parents come first
        entry = int(tree.parent[entry])
    return entry == top
