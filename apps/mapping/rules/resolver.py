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

from apps.accounts.names.account_ids import AccountKey, canonical
from apps.accounts.names.entry_names import is_reserved, uid_of_account
from apps.mapping.rules.rule import Person, Rule, entry_name
from apps.mapping.rules.rule_index import RuleIndex
from apps.policies.tree.stored import TreeColumns

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
    if top is None or not _is_below(tree, target, top):
        return target
    return top or None


def _is_below(tree: TreeColumns, entry: int, top: int) -> bool:
    """The entry itself, or one below it."""
    while entry > top:  # parents come first
        entry = int(tree.parent[entry])
    return entry == top


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
            match = self._by(number, target, rule.names_below(key, person))
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
        return self.is_free(decided) or _is_below(self.tree, decided[0].entry, reach)

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
