"""The inputs from which a series is built (a revision's tree with its account mapping), and from which day they have
changed.

Usage of accounts whose entry came with a later revision: a mount is created after the first revisions, so on earlier
days the accounts of its members have no entry. Their usage is then attributed to the nearest ancestor of their current
entry that existed on that day, so that the mount's own entry has its full usage from the first day. If only the root
existed, the usage is dropped, like that of any unmapped account. An account mapped in the day's tree, by any rule, is
not affected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps import engine
from apps.accounts.account_ids import AccountKey
from apps.accounts.account_index import AccountIndex, load_account_index
from apps.accounts.models import Account
from apps.engine import decay, sweep
from apps.engine.algorithms import PriorityResult, compute_prepared, read_algorithm
from apps.engine.algorithms.inputs import Compared, Prepared, compare_usage, prepare
from apps.mapping.models import Mapping as MappingRow
from apps.mapping.rules.placement import place_accounts
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import RuleInputs, RuleSet, build_rule_set, load_rule_set
from apps.policies.models import Policy, Revision
from apps.policies.settings import PolicySettings, refusing_failed_packages
from apps.policies.tree.document_merge import indexes_of
from apps.policies.tree.stored import TreeColumns, load_tree
from apps.priorities.local_only import list_local_only_entries
from apps.priorities.metering import AccountUsage, SourceRow, usage_of_scope, window_of
from apps.priorities.recompute.corrections import Correction, apply_corrections, correction_amounts, load_corrections
from apps.series.daily_series import COMPETES, EXISTS, KNOWS_WAITING, DayValues, day_at, site_zone
from apps.series.models import Series
from apps.usage.changed_hours import earliest_change
from apps.usage.selectors import submit_times, watermarks

F8 = npt.NDArray[np.float64]
I1 = npt.NDArray[np.int8]
I4 = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

LAYOUT = 4  # of the tiles and their contents: another one rebuilds every series, as where days may hold wrong values
MOST_UNMAPPED = 2_000  # unmapped account ids that a build stores
EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)
_DIVIDES_BY_PARENT = "slurm-fair-tree"  # there a group's own usage counts among its children's


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


def read_inputs(policy: Policy, zone: ZoneInfo) -> dict[str, Any]:
    """Read the current inputs from the database, as JSON.

    people, namespaces: see `RuleInputs`. submit_times: see `usage.selectors`.
    """
    rule_inputs = RuleInputs.of_revisions(policy)
    mapping = MappingRow.objects.filter(policy=policy).values_list("version", flat=True).first()
    return {
        "layout": LAYOUT,
        "zone": zone.key,
        "engine": engine.VERSION,
        "mapping": mapping or 0,
        "people": rule_inputs.people,
        "namespaces": dict(rule_inputs.namespaces),
        "head": policy.head_number,
        "watermarks": watermarks(),
        "submit_times": submit_times(),
        "fallbacks": {
            str(fallback.uid): fallback.since.astimezone(UTC).isoformat()
            for fallback in list_local_only_entries(policy)
        },
    }


def built_from(policy: Policy, zone: ZoneInfo) -> dict[str, Any]:
    """Return the inputs as a build stores them: the current ones, and the unmapped accounts."""
    return {**read_inputs(policy, zone), "unplaced": unmapped_account_ids(policy, load_account_index(use_cache=False))}


def first_day(policy: Policy, zone: ZoneInfo) -> date:
    """Return the day of the first usage, or of the first published shares if that is earlier."""
    return day_at(first_at(policy), zone).on


def first_at(policy: Policy) -> datetime:
    """Return the instant of the first usage, or of the first published shares if that is earlier."""
    published = Revision.objects.filter(policy=policy).order_by("published_at").values_list("published_at", flat=True)
    shares_at: datetime = published.filter(n_entries__gt=1).first() or published[0]
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(hour_at) FROM usage_bucket")
        hour_at = cursor.fetchone()[0]
    return shares_at if hour_at is None else min(shares_at, hour_at)


def stale_from(policy: Policy, series: Series | None, current: Mapping[str, Any], zone: ZoneInfo) -> date | None:
    """Return the first day that must be built or rebuilt; None if all built days are current.

    It may be before the first usage: built days before that hold usage which was removed since.
    """
    if series is None or series.through_on is None or series.first_on is None:
        return first_day(policy, zone)
    built, first_on = series.inputs, min(first_day(policy, zone), series.first_on)
    if invalidates_all(policy, built, current):
        return first_on
    dates = [] if series.redo_from_on is None else [series.redo_from_on]
    changed_at = earliest_change(built["watermarks"])
    if changed_at is not None:
        dates.append(max(day_at(max(changed_at, EARLIEST), zone).on, first_on))
    dates += [day_at(since, zone).on for since in policy_changes(policy, built, current)]
    earliest = min(dates, default=None)
    return earliest if earliest is not None and earliest <= series.through_on else None


def invalidates_all(policy: Policy, built: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
    """Whether the inputs differ so much from those of the last build that no built day is usable."""
    if any(built.get(name) != current[name] for name in ("layout", "zone", "engine", "mapping", "people")):
        return True
    named_now = current["namespaces"]
    if any(named_now.get(slug, namespace) != namespace for slug, namespace in built["namespaces"].items()):
        return True
    return bool(built["head"] != current["head"]) and maps_unmapped_accounts(policy, built)


def policy_changes(policy: Policy, built: Mapping[str, Any], current: Mapping[str, Any]) -> list[datetime]:
    """List the instants from which on days changed since the build: by a revision, a local-only fallback, or because
    it is known since another instant whether a source reports submit times.
    """
    # The instants at which entries entered or left local-only fallback.
    instants = [
        datetime.fromisoformat(since)
        for _uid, since in built.get("fallbacks", {}).items() ^ current["fallbacks"].items()
    ]
    for slug, times in current["submit_times"].items():
        known = built["submit_times"].get(slug, [None, None])
        pairs = zip(times, known, strict=True)
        instants += [datetime.fromisoformat(at) for pair in pairs if pair[0] != pair[1] for at in pair if at]
    later = Revision.objects.filter(policy=policy, number__gt=built["head"]).order_by("published_at")
    published_at = later.values_list("published_at", flat=True).first()
    return instants if published_at is None else [*instants, published_at]


def holds(policy: Policy, built: Mapping[str, Any], *, until: datetime) -> bool:
    """Whether days that ended by `until` would be computed again as they were from these inputs with the head.

    built: as `read_inputs` returned them, before the usage of the days was read; empty: unknown.
    """
    current = read_inputs(policy, site_zone())
    if built.get("head") != current["head"] or invalidates_all(policy, built, current):
        return False
    instants = [*policy_changes(policy, built, current), earliest_change(built["watermarks"])]
    return all(at is None or at >= until for at in instants)
