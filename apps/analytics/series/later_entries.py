"""Entries for usage of accounts whose own entry came with a later revision.

A mount is made after the first revisions, so on earlier days the accounts of its members have no entry. Their usage
counts at the nearest entry above that was there: what the mount's own entry used is right from the first day on. Below
the root alone it counts nowhere, as usage of an unmapped account does. An account that has an entry in the tree of the
day, by any rule, stays there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.accounts.models import Account
from apps.accounts.names.account_ids import AccountKey
from apps.accounts.names.account_index import Roll
from apps.mapping.rules.placement import match_accounts, place_accounts
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rulebook
from apps.policies.models import Policy
from apps.policies.tree.document_merge import indexes_of
from apps.policies.tree.stored import TreeColumns, load_tree

I4 = npt.NDArray[np.int32]
MOST_NAMED = 2_000  # unplaced accounts that a build writes down


@dataclass(frozen=True, eq=False)
class LaterTree:
    """The tree of the head with the entry of each account, −1 for none."""

    tree: TreeColumns
    entry: I4


def later_tree(policy: Policy, keys: Sequence[AccountKey]) -> LaterTree:
    tree = load_tree(policy)
    book = load_rulebook(policy, tree)
    entry, _joins = place_accounts(tree, book.rules, book.known, keys)
    return LaterTree(tree, entry)


def with_later_entries(entry: I4, tree: TreeColumns, later: LaterTree) -> I4:
    """(accounts,) entries in a day's tree: those without one at the nearest entry above their later one."""
    lost = (entry == UNMAPPED) & (later.entry != UNMAPPED)
    if later.tree is tree or not lost.any():
        return entry
    nearest = indexes_of(later.tree.uid, tree)
    for level in later.tree.subtree(0)[1:]:
        here = slice(level.start, level.stop)
        nearest[here] = np.where(nearest[here] < 0, nearest[later.tree.parent[here]], nearest[here])
    found = nearest[np.maximum(later.entry, 0)]
    filled: I4 = np.where(lost & (found > 0), found, entry).astype(np.int32)
    return filled


def unplaced_accounts(policy: Policy, roll: Roll) -> list[int] | None:
    """Ids of the accounts unmapped in the head; None where there are too many to store."""
    ids = roll.ids[later_tree(policy, roll.keys).entry == UNMAPPED].tolist()
    return ids if len(ids) <= MOST_NAMED else None


def has_new_places(policy: Policy, then: Mapping[str, Any]) -> bool:
    """Whether the head has an entry for an account that had none when a series was built, from its inputs of then.

    Of too many accounts nothing is written down: any new entry may be for one of them.
    """
    head, ids = load_tree(policy), then.get("unplaced")
    if ids is None:
        return bool((indexes_of(head.uid, load_tree(policy, then["head"])) < 0).any())
    if not ids:
        return False
    book = load_rulebook(policy, head)
    keys = [AccountKey(*row) for row in Account.objects.filter(pk__in=ids).values_list(*AccountKey._fields)]
    return any(match.entry > 0 for match in match_accounts(head, book.rules, book.known, keys))
