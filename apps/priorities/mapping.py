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
from apps.priorities.naming import entry_name, text_of
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
    def _targets(self) -> tuple[int | None, ...]:
        """Where each rule starts; None when that entry isn't in the tree, or is a reserve, which has no accounts."""
        found = [self.tree.index_of_uid(rule.target_uid) for rule in self.rules]
        return tuple(None if at is None or self.tree.is_reserve[at] else at for at in found)

    @cached_property
    def _names(self) -> NameIndex:
        return NameIndex(self.tree.name)

    @cached_property
    def _index(self) -> RuleIndex:
        return RuleIndex(self._spelled)

    @cached_property
    def _spelled(self) -> tuple[Rule, ...]:
        """The rules as they are compared: what somebody wrote in another spelling means the same accounts."""
        return tuple(rule.spelled for rule in self.rules)

    @cached_property
    def _naming(self) -> list[tuple[Rule, int]]:
        """The rules, with their targets, that can match an account of which nothing is said but the user's name."""
        return [
            (rule, target)
            for rule, target in zip(self.rules, self._targets, strict=True)
            if target is not None and rule.parts and "{user}" in rule.parts[-1]
            and not (rule.fqan_pattern or rule.people)
            and (not rule.group_pattern or "{group}" in rule.parts)
        ]  # fmt: skip

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
            rule, target = self._spelled[number], self._targets[number]
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
        if depth == len(names) - 1 and self._may_join(entry):
            return Match(entry, number)
        # At the root usage would count in no comparison: such an account is shown as unmapped instead.
        return NOWHERE if entry == 0 else Match(entry)

    def resolve_many(self, keys: Iterable[AccountKey]) -> npt.NDArray[np.int32]:
        """The entry of each account's usage, −1 for none: where no rule matches, or one that leads to the root."""
        entries = np.fromiter((self.resolve(key).entry for key in keys), dtype=np.int32)
        return np.where(entries == 0, np.int32(UNMAPPED), entries)

    def entries_named(self, user: str, known: AccountKey) -> list[int]:
        """Entries an account of this user name would have, whatever its group and project turn out to be.

        `known` says what is asked for; its empty fields may be anything. Each candidate is resolved like any other
        account, so the order of the rules holds.
        """
        found: dict[int, None] = {}
        for rule, target in self._naming:
            for candidate in self._candidates(rule.parts[-1], user):
                key = self._key_of(candidate, rule, target, known._replace(user_name=known.user_name or user))
                if key is not None and candidate not in found and self.resolve(key).entry == candidate:
                    found[candidate] = None
        return list(found)

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

    def _may_join(self, entry: int) -> bool:
        return bool(self.tree.is_group[entry]) or self.tree.n_children[entry] > 0

    def _candidates(self, part: str, user: str) -> list[int]:
        wanted = part.replace("{user}", user) if part.count("{") == 1 else user
        return [at for name in dict.fromkeys((wanted, entry_name(wanted))) for at in self._names.find(name)]

    def _key_of(self, entry: int, rule: Rule, target: int, known: AccountKey) -> AccountKey | None:
        """What the account of this entry must be called for the rule to lead there; None when it can't."""
        fields: dict[str, str] = {}
        at = entry
        for part in reversed(rule.parts):
            if at <= target:
                return None
            if part in ("{group}", "{project}"):
                name = {"{group}": "group_name", "{project}": "project"}[part]
                value = getattr(known, name) or text_of(self.tree.name[at])
                if fields.setdefault(name, value) != value:
                    return None
            at = int(self.tree.parent[at])
        return known._replace(**fields) if at == target else None


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
