"""Which entry of a tree each account of the site has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.accounts.account_index import AccountIndex, load_account_index
from apps.core.postgresql import consistent_read
from apps.mapping.rules.placement import place_accounts
from apps.mapping.rules.rule_set import load_rule_set
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns

I8 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AccountEntries:
    """entry: of each account, −1 for none."""

    accounts: AccountIndex
    entry: I8

    def of(self, ids: I8) -> I8:
        """The entries of these accounts; −1 for one that was made after they were read."""
        return entries_of_accounts(self.accounts, self.entry, ids)

    def mapped_ids(self) -> I8:
        return self.accounts.ids[self.entry >= 0]

    def n_entries(self) -> int:
        """Entries that have an account."""
        return len(np.unique(self.entry[self.entry >= 0]))


def load_entries(policy: Policy, columns: TreeColumns) -> AccountEntries:
    with consistent_read() as is_settled:
        accounts = load_account_index(use_cache=is_settled)
        return AccountEntries(accounts, entries_in(policy, columns, accounts))


def entries_in(policy: Policy, columns: TreeColumns, accounts: AccountIndex) -> I8:
    """The entry of each account in this tree, −1 for none."""
    rule_set = load_rule_set(policy, columns)
    placed = place_accounts(columns, rule_set.rules, rule_set.known, accounts.keys).of_usage
    return placed.astype(np.int64)


def entries_of_accounts(accounts: AccountIndex, entry: I8, ids: I8) -> I8:
    """The entries of these accounts; −1 for one that was made after they were read."""
    if not len(accounts.ids):
        return np.full(len(ids), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(accounts.ids, ids), len(accounts.ids) - 1)
    return np.where(accounts.ids[at] == ids, entry[at], -1)
