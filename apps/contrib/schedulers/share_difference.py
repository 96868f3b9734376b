"""Compare the scheduler's shares, as listed by its agent, with the policy's.

Both are compared with the shares that they last agreed on, which shows where a change was made: if the scheduler still
has the agreed shares, the policy changed; otherwise they were changed in the scheduler.
"""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from agent.shares import ShareLine, gridengine_argv, slurm_argv
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.share_listing import Key, ListedShare, ListedShares
from apps.policies.files.document import plain_number
from apps.policies.files.exports import (
    ListedAssociation,
    shares_for_gridengine,
    shares_for_slurm,
)
from apps.policies.formats.whole_shares import competitors
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.names import PARENT

ProposedMapping = dict[Key, tuple[str, int]]  # shares, and index of the entry in the tree


@dataclass(frozen=True)
class ShareChange:
    """An association whose shares differ. row: its entry in the tree. command: as run by the agent."""

    key: Key
    before: str  # in the scheduler
    after: str  # in the policy
    agreed: str
    row: int
    command: str

    @property
    def is_by_hand(self) -> bool:
        return self.before != self.agreed


@dataclass(frozen=True)
class ShareDifference:
    """policy_tree: the policy's tree; fitted: the same with names and whole shares as the scheduler accepts them."""

    cluster: str
    policy_tree: TreeColumns
    fitted: TreeColumns
    wanted: ProposedMapping
    outside: frozenset[Key]  # associations of the policy that are not carried
    listing: ListedShares
    kind: str
    notes: tuple[str, ...]

    @cached_property
    def changes(self) -> list[ShareChange]:
        there = self._there
        return [
            ShareChange(key, there[key].shares, shares, there[key].agreed, row, self._command(key, shares))
            for key, (shares, row) in self.wanted.items()
            if key in there and there[key].shares != shares
        ]

    @cached_property
    def _there(self) -> dict[Key, ListedShare]:
        return self.listing.by_key

    @cached_property
    def _in_partitions(self) -> set[Key]:
        return {Key(row.group, row.user) for row in self.listing.rows if row.partition}

    def _command(self, key: Key, shares: str) -> str:
        line = ShareLine(0, key.group, key.user, "", shares)
        try:
            if self.kind == Scheduler.Kind.GRIDENGINE:
                return shlex.join(gridengine_argv(line))
            return shlex.join(slurm_argv(self.cluster, line, key in self._in_partitions))
        except ValueError:
            return ""  # the agent rejects the name too

    @property
    def to_send(self) -> list[ShareChange]:
        """Changes made in the policy."""
        return [change for change in self.changes if not change.is_by_hand]

    @property
    def by_hand(self) -> list[ShareChange]:
        """Changes made in the scheduler."""
        return [change for change in self.changes if change.is_by_hand]

    @cached_property
    def only_here(self) -> list[Key]:
        return [key for key in self.wanted if key not in self._there]

    @cached_property
    def only_there(self) -> list[Key]:
        return [key for key in self._there if key not in self.wanted and key not in self.outside]

    @property
    def tag(self) -> str:
        """Version tag of the changes: an order names the version that its author saw."""
        text = "\n".join(f"{change.key} {change.before} {change.after} {change.agreed}" for change in self.changes)
        return hashlib.sha256(f"{self.cluster}\n{text}".encode()).hexdigest()[:16]

    def shares_in_policy(self, change: ShareChange) -> float | str:
        """Shares of a change in the policy's units, without the factor that made them whole numbers."""
        if change.before == PARENT:
            return PARENT
        return plain_number(round(int(change.before) / self._scale(change.row), 9))

    def _scale(self, row: int) -> float:
        """Factor by which the shares of this entry and its siblings were multiplied."""
        beside = np.flatnonzero(competitors(self.policy_tree) == competitors(self.policy_tree)[row])
        beside = beside[(beside > 0) & (self.policy_tree.shares[beside] > 0) & ~self.policy_tree.inherit[beside]]
        return float(np.median(self.fitted.shares[beside] / self.policy_tree.shares[beside])) if len(beside) else 1.0


def compare_shares(kind: str, tree: TreeColumns, listing: ListedShares, within: Mask | None) -> ShareDifference:
    """Compare shares. tree: the unmodified tree of the policy. within: entries whose shares are carried; None: all."""
    listed = [ListedAssociation(row.group, row.user, row.partition, row.parent, row.shares) for row in listing.rows]
    if kind == Scheduler.Kind.GRIDENGINE:
        policy_shares = shares_for_gridengine(tree, listed)
    else:
        policy_shares = shares_for_slurm(tree, listing.cluster, listed)
    whole = {Key(*key): share for key, share in policy_shares.shares.items()}
    wanted = {key: share for key, share in whole.items() if within is None or within[share[1]]}
    outside = frozenset(whole.keys() - wanted.keys())
    return ShareDifference(
        listing.cluster, tree, policy_shares.fitted, wanted, outside, listing, kind, policy_shares.notes
    )
