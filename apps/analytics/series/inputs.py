"""What a series is built from: the tree of a revision with all accounts at their entries; and since when it changed.

Entries for usage of accounts whose own entry came with a later revision.
A mount is made after the first revisions, so on earlier days the accounts of its members have no entry. Their usage
counts at the nearest entry above that was there: what the mount's own entry used is right from the first day on. Below
the root alone it counts nowhere, as usage of an unmapped account does. An account that has an entry in the tree of the
day, by any rule, stays there.
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
from apps.accounts.account_ids import AccountKey, Roll, load_roll
from apps.accounts.models import Account
from apps.analytics.models import Series
from apps.analytics.series.daily_series import COMPETES, EXISTS, KNOWS_WAITING, DayValues, day_at
from apps.engine import decay, sweep
from apps.engine.algorithms.inputs import Compared, Prepared, compare_usage, prepare
from apps.mapping.models import Mapping as MappingRow
from apps.mapping.rules.resolver import UNMAPPED, match_accounts, place_accounts
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import Rulebook, load_rulebook, people_digest, rulebook_of
from apps.policies.models import Policy, Revision
from apps.policies.settings import PolicySettings
from apps.policies.tree.document_merge import indexes_of
from apps.policies.tree.stored import TreeColumns, load_tree
from apps.priorities.local_only import list_local_only_entries
from apps.priorities.metering import AccountUsage, SourceRow, usage_of_scope, window_of
from apps.priorities.recompute.inputs import Correction, corrected, counted_now, load_corrections
from apps.usage.changed_hours import earliest_change
from apps.usage.selectors import watermarks

# --- Accounts whose entry came later ----------------------------------------------------------------------------------
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


# --- State ------------------------------------------------------------------------------------------------------------
F8 = npt.NDArray[np.float64]
I1 = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]

_DIVIDES_BY_PARENT = "slurm-fair-tree"  # what is a group's own counts among its children there


@dataclass(frozen=True, eq=False)
class Standing:
    """What is constant from day to day while a revision is current. entry: (accounts,), −1 for none.

    local_only: entries below which only local usage counts, whatever their scope.
    """

    number: int
    tree: TreeColumns
    settings: PolicySettings
    sources: Sequence[SourceRow]
    corrections: tuple[Correction, ...]
    book: Rulebook
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
        """By which usage is counted and how long, as JSON."""
        return {"metric": self.settings.metric, "window": self.settings.window}

    @cached_property
    def _prepared(self) -> Prepared:
        return prepare(self.tree.engine_tree())

    @cached_property
    def _scopes(self) -> tuple[I4, list[tuple[str, tuple[str, ...]]]]:
        return self.tree.effective_scopes(local=self.local_only)

    @cached_property
    def _compared_by(self) -> I4:
        """The scope in which each entry's own total is compared: that of its fairshare parent."""
        above = np.maximum(self._prepared.fairshare_parent, 0)
        return self._scopes[0][above]

    @cached_property
    def competes(self) -> Mask:
        found = ~self.tree.engine_tree().inherits
        found[0] = False
        return found

    @cached_property
    def _shares(self) -> tuple[F8, F8]:
        """Target and target_global of those that compete, 0 of all others."""
        spread = (self._prepared.spread(each) for each in (self._prepared.target, self._prepared.target_global))
        target, target_global = (np.where(self.competes, each, 0.0) for each in spread)
        return target, target_global

    def values(self, used: F8, decayed: F8, *, end_s: int, waited: F8 | None, reports: I1) -> DayValues:
        """A day's values. used, decayed: (accounts, sources). waited: (accounts,) core-seconds, None where no job
        waited. reports: (sources,) 1 where a source reports submit times, 0 where not, −1 where it has no jobs.
        """
        tree = self.tree.engine_tree()
        own_used = self._own(used)
        counted = counted_now(self.corrections, metric=self.metric, window=self.window, as_of_s=float(end_s))
        own_decayed = [corrected(self.tree, own, self.corrections, counted) for own in self._own(decayed)]
        total, whole, peers = self._compared(own_used)
        total_decayed, whole_decayed, peers_decayed = self._compared(own_decayed)
        n_active, largest = self._members(own_used)
        asked = np.zeros(len(self.tree))
        if waited is not None:
            placed = self.entry != UNMAPPED
            asked = np.bincount(self.entry[placed], weights=waited[placed], minlength=len(self.tree)).astype(np.float64)
            asked = sweep.sum_up(tree, asked)[0]
        told = [reports[self._counts(*scope)] for scope in self._scopes[1]]
        knows = np.array([bool((each != 0).all() and (each == 1).any()) for each in told])
        flags = np.full(len(self.tree), EXISTS, np.uint8)
        flags[self.competes] |= COMPETES
        flags[knows[self._compared_by]] |= KNOWS_WAITING
        target, target_global = self._shares
        return DayValues(
            {
                "used": total,
                "peers_used": peers,
                "decayed": total_decayed,
                "peers_decayed": peers_decayed,
                "target": target,
                "target_global": target_global,
                "waited_core_s": asked,
                "largest": largest,
                "n_active": n_active,
                "flags": flags,
            },
            root_used=float(whole[0]),
            root_decayed=float(whole_decayed[0]),
        )

    def _counts(self, scope: str, narrowed: tuple[str, ...]) -> Mask:
        """(sources,) which ones a scope counts."""
        return np.array(
            [
                (scope == "global" or not each.origin) and (not narrowed or each.slug in narrowed)
                for each in self.sources
            ]
        )

    def _own(self, by_account: F8) -> list[F8]:
        """Own usage of every entry, in each scope: historical, whatever the policy's approach."""
        accounts = AccountUsage({"historical": by_account}, np.zeros(0, np.bool_), np.zeros(0))
        placed = self.entry != UNMAPPED
        found = []
        for scope, narrowed in self._scopes[1]:
            used = usage_of_scope(accounts, scope=scope, narrowed=narrowed, sources=self.sources, approach="historical")
            found.append(
                np.bincount(self.entry[placed], weights=used[placed], minlength=len(self.tree)).astype(np.float64)
            )
        return found

    def _compared(self, own: Sequence[F8]) -> tuple[F8, F8, F8]:
        """(totals, totals by which children are compared, what all that compete with each come to)."""
        prepared = self._prepared
        scope_of_entry = self._scopes[0] if len(own) > 1 else None
        compared = compare_usage(prepared, np.stack(own) if len(own) > 1 else own[0], scope_of_entry)
        return compared.usage, compared.group_usage, self._peers(compared)

    def _peers(self, compared: Compared) -> F8:
        prepared, total = self._prepared, compared.usage
        if self.settings.algorithm["name"] == _DIVIDES_BY_PARENT:
            found = compared.group_usage[np.maximum(prepared.fairshare_parent, 0)]
        else:
            contest = prepared.contest
            sums = sweep.sibling_sum(contest, total if prepared.is_whole else total[prepared.entry])
            found = prepared.spread(sums[np.maximum(contest.parent, 0)])
        peers = np.where(self.competes, found, 0.0)
        peers[0] = total[0]
        return peers

    def _members(self, own: Sequence[F8]) -> tuple[I4, F8]:
        """Ranked leaves at and below each entry that used anything, and the most that one of them did; in the scope
        that the entry is compared by.
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
        return n_active[self._compared_by, entries], largest[self._compared_by, entries]


def stand(
    policy: Policy,
    number: int,
    stored: dict[str, Any],
    *,
    rules: Sequence[Rule],
    keys: Sequence[AccountKey],
    sources: Sequence[SourceRow],
    before: Standing | None,
    local_only: tuple[UUID, ...] = (),
    later: LaterTree | None = None,
) -> Standing:
    """Of a revision with these stored settings, by today's rules. before: of another one, for the same accounts. later:
    the head's tree, for accounts whose entry came with it.
    """
    tree = load_tree(policy, number)
    book = rulebook_of(policy, tree, rules)
    if before is not None and _places_are_those_of(before, tree, book):
        entry = before.entry
    else:
        entry, _joins = place_accounts(tree, book.rules, book.known, keys)
        entry = entry if later is None else with_later_entries(entry, tree, later)
    settings = PolicySettings.from_stored(stored)
    return Standing(number, tree, settings, sources, load_corrections(policy, number), book, entry, local_only)


def _places_are_those_of(before: Standing, tree: TreeColumns, book: Rulebook) -> bool:
    """Whether only shares and the like differ: most revisions move no account."""
    other = before.tree
    columns = ("uid", "parent", "kind_code", "is_group", "inherit")
    return (
        book.rules == before.book.rules
        and book.known.digest == before.book.known.digest
        and len(tree) == len(other)
        and tree.kind_names == other.kind_names
        and all(np.array_equal(getattr(tree, name), getattr(other, name)) for name in columns)
        and list(tree.name) == list(other.name)
    )


# --- Inputs of a built series -----------------------------------------------------------------------------------------
LAYOUT = 2  # of tiles and of what is counted in them: another one makes everything again


def read_inputs(policy: Policy, zone: ZoneInfo) -> dict[str, Any]:
    """From the database now, as JSON."""
    mapping = MappingRow.objects.filter(policy=policy).values_list("version", flat=True).first()
    return {
        "layout": LAYOUT,
        "zone": zone.key,
        "engine": engine.VERSION,
        "mapping": mapping or 0,
        "people": people_digest(load_tree(policy)),
        "head": policy.head_number,
        "watermarks": watermarks(),
        "fallbacks": {str(one.uid): one.since.astimezone(UTC).isoformat() for one in list_local_only_entries(policy)},
    }


def built_from(policy: Policy, zone: ZoneInfo) -> dict[str, Any]:
    """The inputs as a build stores them, with the unmapped accounts."""
    return {**read_inputs(policy, zone), "unplaced": unplaced_accounts(policy, load_roll(remembers=False))}


def first_day(policy: Policy, zone: ZoneInfo) -> date:
    """Of the first usage, or of the first published shares where that is earlier."""
    return day_at(first_at(policy), zone).on


def first_at(policy: Policy) -> datetime:
    """As an instant."""
    published = Revision.objects.filter(policy=policy).order_by("published_at").values_list("published_at", flat=True)
    shares_at: datetime = published.filter(n_entries__gt=1).first() or published[0]
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(hour_at) FROM usage_bucket")
        hour_at = cursor.fetchone()[0]
    return shares_at if hour_at is None else min(shares_at, hour_at)


def stale_from(policy: Policy, series: Series | None, now: Mapping[str, Any], zone: ZoneInfo) -> date | None:
    """The first day that is to be made again, or for the first time; None where all that is there still holds."""
    if series is None or series.through_on is None or series.first_on is None:
        return first_day(policy, zone)
    then = series.inputs
    if is_all_other(policy, then, now):
        return min(first_day(policy, zone), series.first_on)
    found = [] if series.redo_from_on is None else [series.redo_from_on]
    changed_at = earliest_change(then["watermarks"])
    if changed_at is not None:
        found.append(max(day_at(max(changed_at, EARLIEST), zone).on, first_day(policy, zone)))
    found += [day_at(since, zone).on for since in changed_policy(policy, then, now)]
    earliest = min(found, default=None)
    return earliest if earliest is not None and earliest <= series.through_on else None


def is_all_other(policy: Policy, then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether nothing holds that was built from the inputs of then."""
    if any(then.get(name) != now[name] for name in ("layout", "zone", "engine", "mapping", "people")):
        return True
    return bool(then["head"] != now["head"]) and has_new_places(policy, then)


def changed_policy(policy: Policy, then: Mapping[str, Any], now: Mapping[str, Any]) -> list[datetime]:
    """Since when the policy is another one than a build knew: by a revision, or by a local-only fallback."""
    found = _fallen_otherwise(then.get("fallbacks", {}), now["fallbacks"])
    later = Revision.objects.filter(policy=policy, number__gt=then["head"]).order_by("published_at")
    published_at = later.values_list("published_at", flat=True).first()
    return found if published_at is None else [*found, published_at]


def _fallen_otherwise(then: Mapping[str, str], now: Mapping[str, str]) -> list[datetime]:
    """Since when entries entered or left local-only fallback."""
    return [datetime.fromisoformat(since) for _uid, since in then.items() ^ now.items()]


EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)
