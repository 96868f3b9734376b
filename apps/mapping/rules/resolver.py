"""From accounts to entries: the rules applied to a tree, and every account's entry, cached from tick to tick.

Pure; knows no database. What is known of single accounts comes first, then the rules in the order of the rulebook.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from apps.accounts.account_ids import AccountKey, canonical, is_reserved, uid_of_account
from apps.core import blobs
from apps.mapping.rules.rule import Person, Rule, RuleIndex, entry_name, text_of
from apps.policies.tree.columns import TreeColumns

UNMAPPED = -1


class Match(NamedTuple):
    """Where an account belongs. `joins`: the *each* rule by which it would become a child of `entry`.

    `member`: the *each* rule by which it is the member `entry`.
    """

    entry: int
    joins: int | None = None
    member: int | None = None


NOWHERE = Match(UNMAPPED)
Decided = tuple[Match, int | None]  # where an account belongs, and the number of the rule that says so


@dataclass(frozen=True, eq=False)
class KnownAccounts:
    """What is known of single accounts beyond their names: the entry they were attached to, and whose they are."""

    places: Mapping[AccountKey, UUID] = field(default_factory=dict)
    persons: Mapping[AccountKey, Person] = field(default_factory=dict)

    @cached_property
    def digest(self) -> int:
        """Another one when anything of it changes, within this process."""
        return hash((frozenset(self.places.items()), frozenset(self.persons.items())))


NOTHING_KNOWN = KnownAccounts()


def reach_of(tree: TreeColumns, rule: Rule, target: int) -> int | None:
    """The entry below which a rule that leads to `target` may take accounts from others; None for the whole policy.

    Where a rule has left the part in which it was written, that is its own entry.
    """
    if rule.reach_uid is None or rule.kind == "default":
        return None
    top = tree.index_of_uid(rule.reach_uid)
    if top is None or not is_below(tree, target, top):
        return target
    return top or None


@dataclass(frozen=True, eq=False)
class Resolver:
    """The rules of a policy on one tree, in the order of its rulebook: the first that matches an account decides."""

    rules: tuple[Rule, ...]
    tree: TreeColumns
    known: KnownAccounts = NOTHING_KNOWN

    @cached_property
    def targets(self) -> tuple[int | None, ...]:
        """Where each rule starts; None when that entry isn't in the tree, or is a reserve, which has no accounts."""
        found = [self.tree.index_of_uid(rule.target_uid) for rule in self.rules]
        return tuple(None if at is None or self.tree.is_reserve[at] else at for at in found)

    @cached_property
    def _index(self) -> RuleIndex:
        return RuleIndex(self.spelled_rules)

    @cached_property
    def spelled_rules(self) -> tuple[Rule, ...]:
        """The rules in normal form for comparison: other spellings match the same accounts."""
        return tuple(rule.spelled for rule in self.rules)

    def resolve(self, key: AccountKey) -> Match:
        """The deepest entry that the first matching rule leads to; the root is no place for an account."""
        return self.decide(key)[0]

    def decide(self, key: AccountKey) -> Decided:
        """The entry of an account, and the number of the rule that decided; None when none did.

        A rule that leads an account no deeper than the root doesn't map it, and the next one is tried. An account
        that represents an entry belongs to that entry, without a rule.

        Rules whose reach is a part of the policy come after all others, the first of each reach in the order in which
        they were written. Each matches an account only below its reach, or one that is unmapped: no rule moves an
        account away from an entry of others.
        """
        if is_reserved(key.namespace):
            return self._of_entry(key), None
        spelled = canonical(key)
        attached = self.known.places.get(key) or self.known.places.get(spelled)
        at = None if attached is None else self.tree.index_of_uid(attached)
        if at is not None and not self.tree.is_reserve[at]:
            return Match(at), None
        return self._by_rules(spelled, self.known.persons.get(key) or self.known.persons.get(spelled))

    def _by_rules(self, key: AccountKey, person: Person | None) -> Decided:
        found: Decided = (NOWHERE, None)
        of_parts: dict[int, Decided] = {}
        for number in self._index.numbers(key, person):
            rule, target, reach = self.spelled_rules[number], self.targets[number], self._reaches[number]
            known = found[1] is not None if reach is None else reach in of_parts
            if target is None or known or not rule.matches(key, person):
                continue
            start = target if rule.kind != "association" else entry_of_account(self.tree, target, key.group_name)
            match = NOWHERE if start is None else self._by(number, start, rule.names_below(key, person))
            if match == NOWHERE:
                continue
            if reach is not None:
                of_parts[reach] = match, number
                continue
            found = match, number
            if not self._has_parts:
                break
        for reach in sorted(of_parts, key=lambda top: (self.rules[of_parts[top][1] or 0].written_at, top)):
            if self._may_take(reach, found):
                found = of_parts[reach]
        return found

    def is_free(self, decided: Decided) -> bool:
        """Whether an account counts nowhere, or only at the entry of a default rule, which is for all that is left."""
        match, number = decided
        if match.entry == UNMAPPED:
            return True
        return number is not None and self.rules[number].kind == "default" and match.entry == self.targets[number]

    def may_take(self, number: int, decided: Decided) -> bool:
        """Whether a rule may move what counts there: anything, or what is free or below its reach."""
        reach = self._reaches[number]
        return reach is None or self._may_take(reach, decided)

    def _may_take(self, reach: int, decided: Decided) -> bool:
        return self.is_free(decided) or is_below(self.tree, decided[0].entry, reach)

    def leaves(self, key: AccountKey, numbers: Iterable[int]) -> bool:
        """Whether one of these rules is for an account that counts outside of its reach, and stays there."""
        decided, spelled = self.decide(key), canonical(key)
        if is_reserved(key.namespace) or self.is_free(decided):
            return False
        person = self.known.persons.get(key) or self.known.persons.get(spelled)
        return any(not self.may_take(n, decided) and self.spelled_rules[n].matches(spelled, person) for n in numbers)

    @cached_property
    def _reaches(self) -> tuple[int | None, ...]:
        """The entry below which each rule may take accounts from others; None for the whole policy."""
        pairs = zip(self.rules, self.targets, strict=True)
        return tuple(None if target is None else reach_of(self.tree, rule, target) for rule, target in pairs)

    @cached_property
    def _has_parts(self) -> bool:
        return any(reach is not None for reach in self._reaches)

    def _of_entry(self, key: AccountKey) -> Match:
        uid = uid_of_account(key)
        at = None if uid is None else self.tree.index_of_uid(uid)
        return NOWHERE if at is None or at == 0 or self.tree.is_reserve[at] else Match(at)

    def _by(self, number: int, target: int, names: Sequence[str]) -> Match:
        entry, depth = self._walk(target, names)
        if self.rules[number].kind != "each":
            return NOWHERE if entry == 0 else Match(entry)
        if depth == len(names):
            return Match(entry, member=number)
        if depth == len(names) - 1 and self.tree.takes_members[entry]:
            return Match(entry, number)
        # At the root usage would count in no comparison: such an account is shown as unmapped instead.
        return NOWHERE if entry == 0 else Match(entry)

    def resolve_many(self, keys: Iterable[AccountKey]) -> npt.NDArray[np.int32]:
        """The entry of each account's usage, −1 for none: where no rule matches, or one that leads to the root."""
        entries = np.fromiter((self.resolve(key).entry for key in keys), dtype=np.int32)
        return np.where(entries == 0, np.int32(UNMAPPED), entries)

    def is_dead_end(self, entry: int, name: str) -> bool:
        """Whether a rule that goes on from the entry by this name stays there."""
        return self._walk(entry, [name])[1] == 0

    def _walk(self, entry: int, names: Sequence[str]) -> tuple[int, int]:
        """Go down by name as far as such entries exist; return where and how many steps."""
        for depth, name in enumerate(names):
            child = self.tree.child_named(entry, name) if name else None
            if child is None:
                child = self.tree.child_named(entry, entry_name(name))
            if child is None or self.tree.is_reserve[child]:
                return entry, depth
            entry = child
        return entry, len(names)


class NameIndex:
    """Entries by name, as a sorted array of hashes: a twelfth of the memory of a dict of a million names."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        hashes = np.fromiter(map(hash, names), dtype=np.int64, count=len(names))
        self._order = np.argsort(hashes, kind="stable").astype(np.int32)
        self._hashes = hashes[self._order]

    def find(self, name: str) -> list[int]:
        wanted = np.int64(hash(name))
        lo = int(np.searchsorted(self._hashes, wanted, side="left"))
        hi = int(np.searchsorted(self._hashes, wanted, side="right"))
        return [at for at in self._order[lo:hi].tolist() if self._names[at] == name]


# --- Placement --------------------------------------------------------------------------------------------------------
I4 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class AccountPlaces:
    """The accounts that have an entry, and which: `entry` runs parallel to `keys`. And the rules for all others.

    joins: the *each* rule by which an account would become a child of its entry, −1 for none; None: as the
    rules say.
    """

    keys: Sequence[AccountKey]
    entry: I4
    rules: tuple[Rule, ...]
    joins: I4 | None = None

    @cached_property
    def packed(self) -> tuple[bytes, str]:
        columns: dict[str, Any] = {"entry": self.entry}
        for place, name in enumerate(AccountKey._fields):
            columns[name] = [key[place] for key in self.keys]
        if self.joins is not None:
            columns["joins"] = self.joins
        return blobs.pack(columns, {"rules": [rule.to_json() for rule in self.rules]})


def unpack_places(blob: bytes | memoryview, digest: str) -> AccountPlaces:
    columns, meta = blobs.unpack(blob, digest)
    names = (columns[name] for name in AccountKey._fields)
    keys = [AccountKey(*values) for values in zip(*names, strict=True)]
    rules = tuple(Rule.from_json(rule) for rule in meta["rules"])
    return AccountPlaces(keys, columns["entry"], rules, columns.get("joins"))


_MOST_PLACED = 8
_Key = tuple[str, tuple[Rule, ...], int]


class _Placed:
    """For the last few trees with their rules: a pure function of its key."""

    def __init__(self) -> None:
        self._known: LRUCache[_Key, dict[AccountKey, Decided]] = LRUCache(_MOST_PLACED)
        self._lock = Lock()

    def of(self, key: _Key) -> dict[AccountKey, Decided]:
        if not key[0]:  # a tree that was never stored
            return {}
        with self._lock:
            return self._known.setdefault(key, {})


_placed = _Placed()


def match_accounts(
    tree: TreeColumns, rules: tuple[Rule, ...], known: KnownAccounts, keys: Sequence[AccountKey]
) -> list[Match]:
    """The match of each account, the root's newcomers included."""
    return [match for match, _number in decide_accounts(tree, rules, known, keys)]


def decide_accounts(
    tree: TreeColumns, rules: tuple[Rule, ...], known: KnownAccounts, keys: Sequence[AccountKey]
) -> list[Decided]:
    """The entry of each account and the rule that decided; None without one, or for an attached account."""
    found = _placed.of((tree.digest, rules, known.digest))
    new = [key for key in keys if key not in found]
    decide = Resolver(rules, tree, known).decide
    found.update((key, decide(key)) for key in new)
    return [found[key] for key in keys]


def place_accounts(
    tree: TreeColumns, rules: tuple[Rule, ...], known: KnownAccounts, keys: Sequence[AccountKey]
) -> tuple[I4, I4]:
    """The entry of each account's usage, −1 for none, the root among them; and the rule by which it joins, or −1."""
    last, asked = _last.placed, (tree.digest, rules, known.digest)
    if last is not None and tree.digest and last.keys is keys and last.asked == asked:
        return last.entry, last.joins
    matches = match_accounts(tree, rules, known, keys)
    entry = np.fromiter((match.entry for match in matches), dtype=np.int32, count=len(matches))
    joins = np.fromiter((-1 if one.joins is None else one.joins for one in matches), np.int32, count=len(matches))
    entry = np.where(entry == 0, np.int32(UNMAPPED), entry)
    _last.placed = _PlacedAll(keys, asked, entry, joins)
    return entry, joins


def places_of(keys: Sequence[AccountKey], entry: I4, joins: I4, rules: tuple[Rule, ...]) -> AccountPlaces:
    """The mapped accounts as a snapshot keeps them; one object while accounts and entries are unchanged.

    Accounts that represent an entry are left out: no look-up names them, and no member owns them.
    """
    last = _last.places
    if last is not None and last[0] is keys and last[1] is entry and last[2] is joins and last[3].rules == rules:
        return last[3]
    has_name = np.fromiter((not is_reserved(key.namespace) for key in keys), np.bool_, len(keys))
    placed = np.flatnonzero((entry != UNMAPPED) & has_name)
    found = AccountPlaces([keys[at] for at in placed.tolist()], entry[placed], rules, joins[placed])
    _last.places = keys, entry, joins, found
    return found


@dataclass(frozen=True, eq=False)
class _PlacedAll:
    """All accounts mapped at once: `keys` is the same, unchanging object."""

    keys: Sequence[AccountKey]
    asked: _Key
    entry: I4
    joins: I4


class _Last(threading.local):
    """Of this thread's last recompute: between two ticks of a policy accounts seldom change."""

    placed: _PlacedAll | None = None
    places: tuple[Sequence[AccountKey], I4, I4, AccountPlaces] | None = None


_last = _Last()


# --- Entries of Slurm's accounts --------------------------------------------------------------------------------------
# Each account has one name in a cluster, wherever it is in the tree.
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
