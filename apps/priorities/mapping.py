"""From accounts to entries: the rules applied to a tree. Pure; knows no database.

What is known of single accounts comes first, then the rules in the order of the rulebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.accounts.entry_names import is_reserved, uid_of_account
from apps.accounts.intern import AccountKey, canonical
from apps.policies.trees import TreeColumns
from apps.priorities.naming import entry_name
from apps.priorities.rule_index import RuleIndex
from apps.priorities.rules import Person, Rule

UNMAPPED = -1


class Match(NamedTuple):
    """Where an account belongs. `joins`: the *each* rule by which it would become a child of `entry`.

    `member`: the *each* rule by which it is the member `entry`.
    """

    entry: int
    joins: int | None = None
    member: int | None = None


NOWHERE = Match(UNMAPPED)


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
        """The rules as they are compared: what somebody wrote in another spelling means the same accounts."""
        return tuple(rule.spelled for rule in self.rules)

    def resolve(self, key: AccountKey) -> Match:
        """The deepest entry that the first matching rule leads to; the root is no place for an account."""
        return self.decide(key)[0]

    def decide(self, key: AccountKey) -> tuple[Match, int | None]:
        """The same, and the number of the rule that decided; None when none did.

        A rule that leads an account no deeper than the root leads it nowhere, and the next one is asked. An account
        that stands for an entry is that entry's, and no rule's.
        """
        if is_reserved(key.namespace):
            return self._of_entry(key), None
        spelled = canonical(key)
        attached = self.known.places.get(key) or self.known.places.get(spelled)
        at = None if attached is None else self.tree.index_of_uid(attached)
        if at is not None and not self.tree.is_reserve[at]:
            return Match(at), None
        person = self.known.persons.get(key) or self.known.persons.get(spelled)
        for number in self._index.numbers(spelled, person):
            rule, target = self.spelled_rules[number], self.targets[number]
            if target is None or not rule.matches(spelled, person):
                continue
            match = self._by(number, target, rule.names_below(spelled, person))
            if match != NOWHERE:
                return match, number
        return NOWHERE, None

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
