"""Accounts that a changed tree leaves without an entry, and how much usage counts nowhere by that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.accounts.names.account_ids import is_reserved
from apps.mapping.moves import Move, load_affected_usage, moves_of_tree
from apps.mapping.rules.resolver import UNMAPPED
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns

_NO_ENTRY = (UNMAPPED, 0)  # the root is no place for an account


@dataclass(frozen=True)
class UnmappedUsage:
    """Usage that would count nowhere. accounts: by id, those that become unmapped; core_s: theirs of the last 30 days.

    n_peer_entries: removed entries for which other sites report usage. It goes with the entry: no account has it.
    """

    accounts: Sequence[int] = ()
    core_s: float = 0.0
    n_peer_entries: int = 0

    @property
    def n_accounts(self) -> int:
        return len(self.accounts)

    def __bool__(self) -> bool:
        return bool(self.accounts or self.n_peer_entries)


def moves_to_nowhere(policy: Policy, before: TreeColumns, after: TreeColumns) -> list[Move]:
    """Accounts that count at an entry of the tree before, and nowhere in the tree after."""
    moves = moves_of_tree(policy, before, after)
    return [move for move in moves if move.before not in _NO_ENTRY and move.after in _NO_ENTRY]


def usage_of_unmapped(moves: Sequence[Move], *, at: datetime) -> UnmappedUsage:
    """Usage of these accounts in the last 30 days."""
    accounts = [move.account for move in moves if not is_reserved(move.key.namespace)]
    used = load_affected_usage(accounts, at=at) if accounts else {}
    core_s = sum(usage.core_s for usage in used.values())
    return UnmappedUsage(accounts, core_s, len(moves) - len(accounts))
