"""Compute which accounts a change moves, from and to which entry, with their recent usage; and check the actor's
rights.

Moving an account needs the right to map accounts at both its current and its new entry. An account that is unmapped, or
mapped by a default rule to that rule's entry, needs the right only at its new entry. Leaving an account unmapped needs
the right for the whole policy, because its usage would disappear from a group's sum; users may always detach accounts
that they attached while unmapped.

Rules also match accounts that don't exist yet. So users with rights in a part of the policy
- may only change rules that lead to entries in that part;
- must put new and changed rules below all rules that lead elsewhere, where they match only unmapped accounts;
- may write neither exact rules (they should attach accounts instead) nor default rules;
- may write *each* rules, which add children, only where they may change the structure.

Changes of the tree and confirmed claims also move accounts: `refusal_of` checks all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.conf import settings
from django.db import connection
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.account_index import AccountIndex, AccountKeys, load_account_index
from apps.accounts.account_keys import AccountKey, canonical
from apps.accounts.actor import Actor
from apps.accounts.entry_accounts import is_reserved
from apps.accounts.models import Account, User
from apps.accounts.selectors import groups_of
from apps.core.derived_state import in_memory
from apps.core.postgresql import consistent_read
from apps.mapping.permissions import MapRights
from apps.mapping.rules.placement import place_accounts
from apps.mapping.rules.resolver import UNMAPPED, KnownAccounts, Resolver
from apps.mapping.rules.rule import Person, Rule
from apps.mapping.rules.rule_set import build_rule_set, load_rule_set, tier_of
from apps.policies.access.scope import Verb
from apps.policies.changesets.change_sets import AccountMoves
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.document_merge import indexes_of
from apps.usage.account_sums import AccountSums, first_full_hour
from apps.usage.held_hours import OF_CURRENT

DERIVED_STATE = (
    in_memory(
        "_recent_sums",
        holds="usage of each account in the last days",
        key="the hour",
        inputs="buckets",
        range="the last days",
        ends="pieces from a changed hour on are read again",
    ),
)

DAYS = 30

_USED = f"""
SELECT bucket.account_id, sum(bucket.cpu_s), sum(bucket.jobs), max(bucket.hour_at)
FROM usage_bucket AS bucket
WHERE bucket.hour_at >= %(since)s AND bucket.hour_at <= %(until)s
    AND bucket.account_id = ANY(%(accounts)s){OF_CURRENT}
GROUP BY bucket.account_id
"""  # noqa: S608 - constants only
_NO_ENTRY = (UNMAPPED, 0)  # accounts at the root count as unmapped


class AffectedUsage(NamedTuple):
    """Core-seconds and ended jobs of the last DAYS days, and the last hour with usage."""

    core_s: float = 0.0
    jobs: float = 0.0
    last_at: datetime | None = None


NOTHING = AffectedUsage()


_recent_sums = AccountSums(counts_held=True)


def load_recent_accounts(*, at: datetime) -> tuple[AccountIndex, npt.NDArray[np.float64]]:
    """Return all accounts, and the core-seconds that each used in the last DAYS days."""
    since, until = first_full_hour(at - timedelta(days=DAYS)), first_full_hour(at + timedelta(microseconds=1))
    with _recent_sums.lock, consistent_read() as may_cache:
        accounts = load_account_index(use_cache=may_cache)
        (pieces,) = _recent_sums.load_pieces([since, until], use_cache=may_cache)
    core_s = np.zeros(len(accounts.ids))
    for piece in pieces:  # multiples of 2⁻¹⁰ s: exact in any order
        np.add.at(core_s, np.searchsorted(accounts.ids, piece.account_id.astype(np.int64)), piece.amounts[0])
    return accounts, core_s


def load_affected_usage(accounts: Sequence[int], *, at: datetime) -> dict[int, AffectedUsage]:
    """Return recent usage by account, of the given accounts that used something in the last DAYS days."""
    asked: dict[str, Any] = {"since": at - timedelta(days=DAYS), "until": at, "accounts": list(accounts)}
    with connection.cursor() as cursor:
        cursor.execute(_USED, asked)
        return {row[0]: AffectedUsage(float(row[1]), float(row[2]), row[3]) for row in cursor.fetchall()}


@dataclass(frozen=True)
class ProposedMapping:
    """The wanted mapping: rules (None: unchanged), and by account id the entry to attach to, or None to detach."""

    rules: tuple[Rule, ...] | None = None
    places: Mapping[int, UUID | None] | None = None


class Move(NamedTuple):
    """An account whose entry changes. before, after: indices in the tree, UNMAPPED for none.

    was_free, is_free: whether it was, or will be, unmapped or mapped by a default rule to that rule's entry.
    """

    account: int
    key: AccountKey
    before: int
    after: int
    was_free: bool
    is_free: bool
    usage: AffectedUsage = NOTHING


def find_moves(rights: MapRights, wanted: ProposedMapping, *, at: datetime) -> list[Move]:
    """Return the moves that a wanted mapping causes, most usage first."""
    rule_set = load_rule_set(rights.policy, rights.tree)
    then = rule_set if wanted.rules is None else build_rule_set(rights.policy, rights.tree, wanted.rules)
    places = dict(wanted.places or {})
    accounts = load_account_index(use_cache=False)
    attached = np.flatnonzero(np.isin(accounts.ids, list(places)))
    known = _with_places(then.known, {int(accounts.ids[at]): accounts.keys[at] for at in attached.tolist()}, places)
    ids, keys = accounts.ids, accounts.keys
    if wanted.rules is None:
        ids, keys = ids[attached], keys.take(attached)
    moves = _between(rule_set.on(rights.tree), Resolver(then.rules, rights.tree, known), ids, keys)
    stakes = load_affected_usage([move.account for move in moves], at=at) if moves else {}
    moved = [move._replace(usage=stakes.get(move.account, NOTHING)) for move in moves]
    return sorted(moved, key=lambda move: (-move.usage.core_s, move.key))


def may_read(rights: MapRights, move: Move) -> bool:
    """Return whether the actor may know of a move: of accounts in their part, and of free ones that move there."""
    if rights.may_name(0):
        return True
    if not move.was_free:
        return rights.may_name(move.before)
    return move.after != UNMAPPED and rights.holds(move.after, Verb.MAP_ACCOUNTS)


def moves_by_tree(policy: Policy, before: TreeColumns, after: TreeColumns) -> list[Move]:
    """Return the moves that a changed tree causes by its membership rules; `after` is an index in the changed tree."""
    accounts = load_account_index(use_cache=False)
    was, now = load_rule_set(policy, before).on(before), load_rule_set(policy, after).on(after)
    return _between(was, now, accounts.ids, accounts.keys)


def moves_by_owner(rights: MapRights, owners: Mapping[int, User]) -> list[Move]:
    """Return the moves caused by new owners of accounts, by id, because rules may match owners' sign-in groups."""
    rule_set = load_rule_set(rights.policy, rights.tree)
    rows = Account.objects.filter(pk__in=list(owners)).order_by("id").values_list("id", *AccountKey._fields)
    keys = {row[0]: AccountKey(*row[1:]) for row in rows}
    persons = dict(rule_set.known.persons)
    for account, key in keys.items():
        owner = owners[account]
        persons[key] = Person(str(owner.username), frozenset(groups_of(owner)))
    then = Resolver(rule_set.rules, rights.tree, replace(rule_set.known, persons=persons))
    return _between(rule_set.on(rights.tree), then, np.array(list(keys), np.int64), AccountKeys.of(keys.values()))


def _between(before: Resolver, after: Resolver, ids: npt.NDArray[np.int64], keys: AccountKeys) -> list[Move]:
    """Return accounts whose entry, by uid, differs; an entry that moves in the tree keeps its accounts."""
    was = place_accounts(before.tree, before.rules, before.known, keys)
    now = place_accounts(after.tree, after.rules, after.known, keys)
    entry = was.entry
    if before.tree is not after.tree:
        gone = len(after.tree)  # what no entry of the other tree is
        there = np.append(indexes_of(before.tree.uid, after.tree), UNMAPPED)  # the last one is UNMAPPED's
        entry = np.where((entry != UNMAPPED) & (there[entry] < 0), gone, there[entry])
    moves = []
    for at in np.flatnonzero(entry != now.entry).tolist():
        old, new = was[at], now[at]
        is_free = before.is_free(old), after.is_free(new)
        moves.append(Move(int(ids[at]), keys[at], old[0].entry, new[0].entry, *is_free))
    return moves


class Refusal(NamedTuple):
    """Why the actor may not make a change: a stable key, and the text."""

    key: str
    text: str


def refusal_of(rights: MapRights, moves: Sequence[Move], *, attached: Collection[int] = ()) -> Refusal | None:
    """Return why the actor may not make these moves, without hidden names; None if allowed.

    attached: accounts that the actor attached while unmapped, and may detach.
    """
    if rights.may_map(0):
        return None
    may = RightsCache(rights.may_map)
    return _refusal(moves, may, may, attached)


def refusal_of_tree(before: MapRights, after: MapRights, moves: Sequence[Move]) -> Refusal | None:
    """Return why the actor may not make the moves of a changed tree; None if allowed. Each end is checked in its own
    tree.

    Here the right to change an entry's structure includes its accounts.
    """
    if before.may_place(0):
        return None
    return _refusal(moves, RightsCache(before.may_place), RightsCache(after.may_place), ())


def _refusal(
    moves: Sequence[Move], may_take: Mapping[int, bool], may_put: Mapping[int, bool], attached: Collection[int]
) -> Refusal | None:
    """Check the right at the current and the new entry of each moved account."""
    pulled = sum(not move.was_free and not may_take[move.before] for move in moves)
    if pulled:
        text = _("%(accounts)s outside your rights would move: ask a person who maps accounts there.")
        return Refusal("pulls", text % {"accounts": _accounts_of_others(pulled)})
    pushed = sum(
        move.after != UNMAPPED and not may_put[move.after] and not (move.is_free and move.account in attached)
        for move in moves
    )
    if pushed:
        text = _("%(accounts)s would count at entries outside your rights: ask a person who maps accounts there.")
        return Refusal("pushes", text % {"accounts": _accounts(pushed)})
    dropped = sum(move.after == UNMAPPED and move.account not in attached for move in moves)
    if dropped:
        text = _("%(accounts)s would become unmapped: this needs the right to map accounts of the whole policy.")
        return Refusal("drops", text % {"accounts": _accounts(dropped)})
    return None


def _accounts_of_others(n: int) -> str:
    """Describe a number of accounts of others, without revealing numbers below the rule of five."""
    smallest = settings.FAIRSHARE_SMALLEST_GROUP
    if n < smallest:
        return _("Fewer than %(n)s accounts") % {"n": smallest}
    return _accounts(n)


def _accounts(n: int) -> str:
    return ngettext("%(n)s account", "%(n)s accounts", n) % {"n": n}


def refusal_of_rules(rights: MapRights, before: Sequence[Rule], after: Sequence[Rule]) -> Refusal | None:
    """Return why the actor may not write this list of rules, independently of existing accounts; None if allowed."""
    if rights.may_map(0):
        return None
    if [rule for rule in before if not is_own(rights, rule)] != [rule for rule in after if not is_own(rights, rule)]:
        text = _("Rules for entries outside your rights are changed by people who map accounts there.")
        return Refusal("rules_of_others", text)
    known = _below(rights, before)
    lowest = sum(not is_own(rights, rule) and tier_of(rule) < 2 for rule in after)
    for rule, n_others in _below(rights, after):
        stood = next((at for at, (other, n) in enumerate(known) if other == rule and n <= n_others), None)
        if stood is not None:
            known.pop(stood)
        elif tier_of(rule) != 1:
            text = _(
                "Exact and default rules need the right to map accounts of the whole policy: use manual mappings "
                "instead."
            )
            return Refusal("exact_or_default", text)
        elif n_others < lowest:
            text = _("Your new and changed rules must be below all rules for other entries: move it further down.")
            return Refusal("above_others", text)
        elif rule.kind == "each" and not _may_add(rights, rule):
            text = _("You may not add users there: it needs the right to change the structure of that entry.")
            return Refusal("makes_children", text)
    return None


def is_own(rights: MapRights, rule: Rule) -> bool:
    """Return whether the rule leads to an entry where the actor maps accounts."""
    entry = rights.tree.index_of_uid(rule.target_uid)
    return entry is not None and rights.may_map(entry)


def _below(rights: MapRights, rules: Sequence[Rule]) -> list[tuple[Rule, int]]:
    """Return the actor's rules, each with the number of others' rules above it."""
    own_rules, n_others = [], 0
    for rule in rules:
        if is_own(rights, rule):
            own_rules.append((rule, n_others))
        elif tier_of(rule) < 2:
            n_others += 1
    return own_rules


def _may_add(rights: MapRights, rule: Rule) -> bool:
    entry = rights.tree.index_of_uid(rule.target_uid)
    return entry is not None and rights.holds(entry, Verb.EDIT_STRUCTURE)


class RightsCache(dict[int, bool]):
    """Cache of a right by entry; False for UNMAPPED."""

    def __init__(self, holds: Callable[[int], bool]) -> None:
        super().__init__({UNMAPPED: False})
        self._holds = holds

    def __missing__(self, entry: int) -> bool:
        self[entry] = holds = self._holds(entry)
        return holds


def _with_places(
    known: KnownAccounts, keys: Mapping[int, AccountKey], places: Mapping[int, UUID | None]
) -> KnownAccounts:
    entries = dict(known.places)
    for account, uid in places.items():
        for key in {keys[account], canonical(keys[account])} if account in keys else ():
            if uid is None:
                entries.pop(key, None)
            else:
                entries[key] = uid
    return replace(known, places=entries)


def account_moves_of_tree(
    policy: Policy, before: TreeColumns, after: TreeColumns, actor: Actor, at: datetime
) -> AccountMoves:
    moves = moves_by_tree(policy, before, after)
    refusal = refusal_of_tree(MapRights(policy, before, actor, at), MapRights(policy, after, actor, at), moves)
    new, n_stay = _accounts_beyond_reach(policy, before, after)
    is_shown = not n_stay or n_stay >= settings.FAIRSHARE_SMALLEST_GROUP
    return AccountMoves(len(moves), refusal.text if refusal else "", new, n_stay if is_shown else None)


def _accounts_beyond_reach(policy: Policy, before: TreeColumns, after: TreeColumns) -> tuple[bool, int]:
    """Return whether there are new rules with a limited reach, and how many matching accounts stay outside it."""
    standing = set(load_rule_set(policy, before).rules)
    resolver = load_rule_set(policy, after).on(after)
    new = [n for n, rule in enumerate(resolver.rules) if rule.reach_uid is not None and rule not in standing]
    if not new:
        return False, 0
    keys = (AccountKey(*row) for row in Account.objects.values_list(*AccountKey._fields).iterator(chunk_size=20_000))
    return True, sum(resolver.leaves(key, new) for key in keys)


@dataclass(frozen=True)
class UnmappedUsage:
    """Usage that would become unmapped. accounts: ids of those accounts; core_s: their usage of the last DAYS days.

    n_peer_entries: number of removed entries for which other sites report usage, which belongs to no account.
    """

    accounts: Sequence[int] = ()
    core_s: float = 0.0
    n_peer_entries: int = 0

    @property
    def n_accounts(self) -> int:
        return len(self.accounts)

    def __bool__(self) -> bool:
        return bool(self.accounts or self.n_peer_entries)


def moves_to_unmapped(policy: Policy, before: TreeColumns, after: TreeColumns) -> list[Move]:
    """Return the moves of accounts that are mapped in the tree before and unmapped in the tree after."""
    moves = moves_by_tree(policy, before, after)
    return [move for move in moves if move.before not in _NO_ENTRY and move.after in _NO_ENTRY]


def usage_of_unmapped(moves: Sequence[Move], *, at: datetime) -> UnmappedUsage:
    """Return the usage of these accounts in the last DAYS days."""
    accounts = [move.account for move in moves if not is_reserved(move.key.namespace)]
    used = load_affected_usage(accounts, at=at) if accounts else {}
    core_s = sum(usage.core_s for usage in used.values())
    return UnmappedUsage(accounts, core_s, len(moves) - len(accounts))
