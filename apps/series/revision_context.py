"""What a revision gives to each day of its series: its tree, its accounts, and what competes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.accounts.account_keys import AccountKey
from apps.engine import decay, sweep
from apps.engine.algorithms import PriorityResult, compute_prepared, read_algorithm
from apps.engine.algorithms.inputs import Compared, Prepared, compare_usage, prepare
from apps.mapping.rules.placement import place_accounts
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import RuleSet, build_rule_set
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings, refusing_failed_packages
from apps.policies.tree.stored import TreeColumns, load_tree
from apps.priorities.metering import AccountUsage, SourceRow, usage_of_scope, window_of
from apps.priorities.recompute.corrections import Correction, apply_corrections, correction_amounts, load_corrections
from apps.series.daily_series import COMPETES, EXISTS, KNOWS_WAITING
from apps.series.head_mapping import I4, HeadMapping, fill_from_head
from apps.series.inputs import Mask
from apps.series.tiles import DayValues

F8 = npt.NDArray[np.float64]
I1 = npt.NDArray[np.int8]
_DIVIDES_BY_PARENT = "slurm-fair-tree"  # there a group's own usage counts among its children's


@dataclass(frozen=True, eq=False)
class RevisionContext:
    """All inputs that are constant from day to day while a revision is current. entry: index of each account's entry,
    −1 for none.

    local_only: entries below which only local usage counts, whatever their scope.
    """

    number: int
    tree: TreeColumns
    settings: PolicySettings
    sources: Sequence[SourceRow]
    corrections: tuple[Correction, ...]
    rule_set: RuleSet
    entry: I4
    local_only: tuple[UUID, ...] = ()

    @cached_property
    def window(self) -> decay.Window:
        return window_of(self.settings.window)

    @cached_property
    def metric(self) -> dict[str, Any]:
        return self.settings.metric

    @cached_property
    def terms(self) -> dict[str, Any]:
        """Metric and window, as JSON: sums of usage are comparable only under equal terms."""
        return {"metric": self.settings.metric, "window": self.settings.window}

    @cached_property
    def _prepared(self) -> Prepared:
        return prepare(self.tree.engine_tree())

    @cached_property
    def _scopes(self) -> tuple[I4, list[tuple[str, tuple[str, ...]]]]:
        return self.tree.effective_scopes(local=self.local_only)

    @cached_property
    def _comparison_scope(self) -> I4:
        """Index of the scope in which each entry's total is compared: that of its fairshare parent."""
        above = np.maximum(self._prepared.fairshare_parent, 0)
        return self._scopes[0][above]

    @cached_property
    def competes(self) -> Mask:
        competes = ~self.tree.engine_tree().inherits
        competes[0] = False
        return competes

    @cached_property
    def _shares(self) -> tuple[F8, F8]:
        """Target and target_global of the competing entries, 0 for all others."""
        spread = (self._prepared.spread(each) for each in (self._prepared.target, self._prepared.target_global))
        target, target_global = (np.where(self.competes, each, 0.0) for each in spread)
        return target, target_global

    def values(self, used: F8, decayed: F8, *, end_s: int, waited: F8 | None, reports: I1) -> DayValues:
        """Return one day's values of every entry.

        used, decayed: (accounts, sources). waited: core-seconds (accounts,), None where no job waited. reports:
        (sources,) 1 where a source is known to report submit times, 0 where not, −1 where it has no jobs yet.
        """
        tree = self.tree.engine_tree()
        own_used = self._own_usage(used)
        total, whole, peers = self._totals(self._compare(own_used))
        total_decayed, whole_decayed, peers_decayed = self._totals(self._compare_decayed(decayed, end_s))
        n_active, largest = self._active_members(own_used)
        waited_by_entry = np.zeros(len(self.tree))
        if waited is not None:
            placed = self.entry != UNMAPPED
            own = np.bincount(self.entry[placed], weights=waited[placed], minlength=len(self.tree)).astype(np.float64)
            waited_by_entry = sweep.sum_up(tree, own)[0]
        by_scope = [
            reports[np.array([source.is_in(*scope) for source in self.sources], np.bool_)] for scope in self._scopes[1]
        ]
        knows = np.array([bool((each != 0).all() and (each == 1).any()) for each in by_scope])
        flags = np.full(len(self.tree), EXISTS, np.uint8)
        flags[self.competes] |= COMPETES
        flags[knows[self._comparison_scope]] |= KNOWS_WAITING
        target, target_global = self._shares
        return DayValues(
            {
                "used": total,
                "peers_used": peers,
                "decayed": total_decayed,
                "peers_decayed": peers_decayed,
                "target": target,
                "target_global": target_global,
                "waited_core_s": waited_by_entry,
                "largest": largest,
                "n_active": n_active,
                "flags": flags,
            },
            root_used=float(whole[0]),
            root_decayed=float(whole_decayed[0]),
        )

    def priorities(self, decayed: F8, *, end_s: int) -> PriorityResult:
        """Priorities of every entry by the decayed usage of one day's end, (accounts, sources).

        Raises BadTree and BadParameter as the engine does, and Invalid (`package_failed`) where a package fails.
        """
        with refusing_failed_packages():
            return compute_prepared(
                self._prepared, self._compare_decayed(decayed, end_s), read_algorithm(self.settings.algorithm)
            )

    def _compare_decayed(self, decayed: F8, end_s: int) -> Compared:
        """Compare decayed usage, adjustments included."""
        counted = correction_amounts(self.corrections, metric=self.metric, window=self.window, as_of_s=float(end_s))
        own = self._own_usage(decayed)
        return self._compare([apply_corrections(self.tree, each, self.corrections, counted) for each in own])

    def _own_usage(self, by_account: F8) -> list[F8]:
        """Own usage of every entry, in each scope. Always by the historical approach, whatever the policy's."""
        accounts = AccountUsage({"historical": by_account}, np.zeros(0, np.bool_), np.zeros(0))
        placed = self.entry != UNMAPPED
        own_usage = []
        for scope, narrowed in self._scopes[1]:
            used = usage_of_scope(accounts, scope=scope, narrowed=narrowed, sources=self.sources, approach="historical")
            own_usage.append(
                np.bincount(self.entry[placed], weights=used[placed], minlength=len(self.tree)).astype(np.float64)
            )
        return own_usage

    def _compare(self, own: Sequence[F8]) -> Compared:
        """Compare the own usage of every entry, one array for each scope."""
        scope_of_entry = self._scopes[0] if len(own) > 1 else None
        return compare_usage(self._prepared, np.stack(own) if len(own) > 1 else own[0], scope_of_entry)

    def _totals(self, compared: Compared) -> tuple[F8, F8, F8]:
        """Return the totals, the totals by which children are compared, and the sums over all competing peers."""
        return compared.usage, compared.group_usage, self._peers(compared)

    def _peers(self, compared: Compared) -> F8:
        prepared, total = self._prepared, compared.usage
        if self.settings.algorithm["name"] == _DIVIDES_BY_PARENT:
            group_usage = compared.group_usage[np.maximum(prepared.fairshare_parent, 0)]
        else:
            contest = prepared.contest
            sums = sweep.sibling_sum(contest, total if prepared.is_whole else total[prepared.entry])
            group_usage = prepared.spread(sums[np.maximum(contest.parent, 0)])
        peers = np.where(self.competes, group_usage, 0.0)
        peers[0] = total[0]
        return peers

    def _active_members(self, own: Sequence[F8]) -> tuple[I4, F8]:
        """Return the number of ranked leaves in each subtree that used anything, and the largest usage of one of them.
        Both are in the scope by which the entry is compared.
        """
        tree = self.tree.engine_tree()
        n_active, largest = np.zeros((len(own), tree.n_entries), np.int32), np.zeros((len(own), tree.n_entries))
        for scope, used in enumerate(own):
            largest[scope] = np.where(tree.is_ranked, used, 0.0)
            n_active[scope] = sweep.sum_up(tree, (largest[scope] > 0).astype(np.float64))[0]
            for level in reversed(tree.levels):
                below = np.maximum.reduceat(largest[scope, level.lo : level.hi], level.starts)
                largest[scope, level.parents] = np.maximum(largest[scope, level.parents], below)
        if len(own) == 1:
            return n_active[0], largest[0]
        entries = np.arange(tree.n_entries)
        return n_active[self._comparison_scope, entries], largest[self._comparison_scope, entries]


@dataclass(frozen=True, eq=False)
class SharedInputs:
    """Inputs that are the same for all revisions of a build: today's mapping rules, accounts and sources.

    head: None where unmapped accounts stay unmapped.
    """

    rules: Sequence[Rule]
    keys: Sequence[AccountKey]
    sources: Sequence[SourceRow]
    head: HeadMapping | None = None


@dataclass(frozen=True, eq=False)
class PolicyState:
    """What is compared with usage: a revision, or a draft, whose number is 0."""

    number: int
    tree: TreeColumns
    settings: PolicySettings
    corrections: tuple[Correction, ...]

    @classmethod
    def of_revision(cls, policy: Policy, number: int, settings: PolicySettings) -> PolicyState:
        return cls(number, load_tree(policy, number), settings, load_corrections(policy, number))


def build_context(
    policy: Policy,
    state: PolicyState,
    shared: SharedInputs,
    *,
    previous: RevisionContext | None,
    local_only: tuple[UUID, ...],
) -> RevisionContext:
    """Build the context of a state.

    previous: context of another state with the same shared inputs; its account mapping is reused where it is equal.
    """
    tree = state.tree
    rule_set = build_rule_set(policy, tree, shared.rules)
    if previous is not None and _has_same_mapping(previous, tree, rule_set):
        entry = previous.entry
    else:
        entry = place_accounts(tree, rule_set.rules, rule_set.known, shared.keys).of_usage
        entry = entry if shared.head is None else fill_from_head(entry, tree, shared.head)
    return RevisionContext(
        state.number, tree, state.settings, shared.sources, state.corrections, rule_set, entry, local_only
    )


def _has_same_mapping(before: RevisionContext, tree: TreeColumns, rule_set: RuleSet) -> bool:
    """Whether both revisions map every account to the same index: most revisions change only shares or settings."""
    other = before.tree
    columns = ("uid", "parent", "kind_code", "is_group", "inherit")
    return (
        rule_set.rules == before.rule_set.rules
        and rule_set.known.digest == before.rule_set.known.digest
        and len(tree) == len(other)
        and tree.kind_names == other.kind_names
        and all(np.array_equal(getattr(tree, name), getattr(other, name)) for name in columns)
        and list(tree.name) == list(other.name)
    )
