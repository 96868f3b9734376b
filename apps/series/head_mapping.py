"""The account mapping of the head, for accounts that the mapping of an older revision leaves without an entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.accounts.account_index import AccountIndex
from apps.accounts.account_keys import AccountKey
from apps.accounts.models import Account
from apps.mapping.rules.placement import place_accounts
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rule_set
from apps.policies.models import Policy
from apps.policies.tree.document_merge import indexes_of
from apps.policies.tree.stored import TreeColumns, load_tree

I4 = npt.NDArray[np.int32]
MOST_UNMAPPED = 2_000  # unmapped account ids that a build stores


@dataclass(frozen=True, eq=False)
class HeadMapping:
    """The tree of the head revision and the entry of each account in it, −1 for none."""

    tree: TreeColumns
    entry: I4


def head_mapping(policy: Policy, keys: Sequence[AccountKey]) -> HeadMapping:
    tree = load_tree(policy)
    rule_set = load_rule_set(policy, tree)
    entry = place_accounts(tree, rule_set.rules, rule_set.known, keys).of_usage
    return HeadMapping(tree, entry)


def fill_from_head(entry: I4, tree: TreeColumns, head: HeadMapping) -> I4:
    """Return entries (accounts,) in a day's tree. An unmapped account gets the nearest existing ancestor of its head
    entry.
    """
    lost = (entry == UNMAPPED) & (head.entry != UNMAPPED)
    if head.tree is tree or not lost.any():
        return entry
    nearest = indexes_of(head.tree.uid, tree)
    for level in head.tree.subtree(0)[1:]:
        here = slice(level.start, level.stop)
        nearest[here] = np.where(nearest[here] < 0, nearest[head.tree.parent[here]], nearest[here])
    ancestor = nearest[np.maximum(head.entry, 0)]
    filled: I4 = np.where(lost & (ancestor > 0), ancestor, entry).astype(np.int32)
    return filled


def unmapped_account_ids(policy: Policy, roll: AccountIndex) -> list[int] | None:
    """List ids of the accounts that are unmapped in the head; None if there are too many to store."""
    ids = roll.ids[head_mapping(policy, roll.keys).entry == UNMAPPED].tolist()
    return ids if len(ids) <= MOST_UNMAPPED else None


def maps_unmapped_accounts(policy: Policy, built: Mapping[str, Any]) -> bool:
    """Whether the head has an entry for an account that was unmapped when a series was built.

    built: the stored inputs of that build. If it had too many unmapped accounts to list, any new entry may be for one
    of them.
    """
    head, ids = load_tree(policy), built.get("unplaced")
    if ids is None:
        return bool((indexes_of(head.uid, load_tree(policy, built["head"])) < 0).any())
    if not ids:
        return False
    rule_set = load_rule_set(policy, head)
    keys = [AccountKey(*row) for row in Account.objects.filter(pk__in=ids).values_list(*AccountKey._fields)]
    return bool((place_accounts(head, rule_set.rules, rule_set.known, keys).entry > 0).any())
