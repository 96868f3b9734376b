"""Apply the rule set to accounts: find each account's entry.

Pure, without database access. Attachments come first, then the rules in their order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from threading import Lock
from typing import NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.accounts.account_keys import AccountKey, canonical
from apps.accounts.entry_accounts import is_reserved, uid_of_account
from apps.mapping.rules.entry_names import entry_name
from apps.mapping.rules.rule import Person, Rule
from apps.mapping.rules.rule_index import RuleIndex
from apps.mapping.rules.share_tree import DEFAULT_LEAF, ShareTree
from apps.mapping.rules.slurm_accounts import entry_of_account, is_below
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.slurm_associations import association_name, beside_account, split_association

UNMAPPED = -1
_NO_PART = -1
_MOST_RESOLVER_STEPS = 65_536


class Match(NamedTuple):
    """The entry of an account. `joins`: index of the *each* rule that would add it as a child of `entry`.

    `member`: index of the *each* rule by which it is the member `entry`.
    """

    entry: int
    joins: int | None = None
    member: int | None = None


NOWHERE = Match(UNMAPPED)
# The match of an account, and the index of the rule that decided; None for an attachment or no match.
Decided = tuple[Match, int | None]


@dataclass(frozen=True, eq=False)
class KnownAccounts:
    """Facts about single accounts: the entries that they are attached to, and their owners."""

    places: Mapping[AccountKey, UUID] = field(default_factory=dict)
    persons: Mapping[AccountKey, Person] = field(default_factory=dict)

    @cached_property
    def digest(self) -> int:
        """Hash that changes when anything in it changes; valid within this process."""
        return hash((frozenset(self.places.items()), frozenset(self.persons.items())))


NOTHING_KNOWN = KnownAccounts()


def reach_of(tree: TreeColumns, rule: Rule, target: int) -> int | None:
    """Return the entry below which a rule that leads to `target` may take mapped accounts; None for the whole policy.

    If the target has moved out of the part where the rule was written, that is the target itself.
    """
    if rule.reach_uid is None or rule.kind == "default":
        return None
    top = tree.index_of_uid(rule.reach_uid)
    if top is None or not is_below(tree, target, top):
        return target
    return top or None


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """A rule, with DNs and FQANs in canonical spelling, for accounts of one namespace, group and FQAN.

    target: the entry that it leads to. start: the one at which its names begin; None if there is none for the group.
    reach: as `reach_of`.
    """

    number: int
    rule: Rule
    target: int
    reach: int | None
    start: int | None


class Steps:
    """Steps in the order of their rules, each made when it is first asked for: most accounts need few."""

    def __init__(self, steps: Iterator[Step]) -> None:
        self._made: list[Step] = []
        self._rest = steps
        self._lock = Lock()

    def __iter__(self) -> Iterator[Step]:
        made, at = self._made, 0
        while at < len(made) or self._makes_another(at):
            yield made[at]
            at += 1

    def _makes_another(self, n_made: int) -> bool:
        with self._lock:
            if len(self._made) == n_made and (step := next(self._rest, None)) is not None:
                self._made.append(step)
            return len(self._made) > n_made


_number_of = attrgetter("number")


@dataclass(frozen=True, eq=False)
class Resolver:
    """The rules of a policy on one tree, in the order of its rule set: the first match decides."""

    rules: tuple[Rule, ...]
    tree: TreeColumns
    known: KnownAccounts = NOTHING_KNOWN

    @cached_property
    def targets(self) -> tuple[int | None, ...]:
        """Index of each rule's target; None if it isn't in the tree or is a reserve, which has no accounts."""
        indices = [self.tree.index_of_uid(rule.target_uid) for rule in self.rules]
        return tuple(None if at is None or self.tree.is_reserve[at] else at for at in indices)

    @cached_property
    def index(self) -> RuleIndex:
        return RuleIndex(self.spelled_rules)

    @cached_property
    def spelled_rules(self) -> tuple[Rule, ...]:
        """The rules with DNs and FQANs in canonical spelling."""
        return tuple(rule.spelled for rule in self.rules)

    def resolve(self, key: AccountKey) -> Match:
        """Return the deepest entry that the first matching rule leads to; the root maps no accounts."""
        return self.decide(key)[0]

    def decide(self, key: AccountKey) -> Decided:
        """Return the entry of an account, and the index of the rule that decided; None if none did.

        A rule that leads only to the root doesn't map the account, and the next rule is tried. An account that
        represents an entry is mapped to that entry without a rule.

        Rules whose reach is a part of the policy are tried after all others; of each reach, only the first match
        counts, and reaches follow each other by the time when that rule was written. Such a rule matches an account
        only if it is unmapped or mapped below its reach, so no rule takes an account from an entry outside its author's
        rights.
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
        decided = self._first(None, key, person) or (NOWHERE, None)
        return self._by_parts(decided, key, person) if self._has_parts else decided

    def _by_parts(self, decided: Decided, key: AccountKey, person: Person | None) -> Decided:
        """Let the rules of parts take the account, part after part.

        Only the parts that the account is in can take it, so these alone are asked, unless it is free.
        """
        firsts: dict[int, Decided | None] = {}

        def first_of(reach: int) -> Decided | None:
            if reach not in firsts:
                firsts[reach] = self._first(reach, key, person)
            return firsts[reach]

        last = ("", _NO_PART)
        if self.is_free(decided):
            numbers = (self._turns[at] for at in self._by_turn.numbers(key, person))
            for number in numbers:
                taking = first_of(self._turn(number)[1])
                if taking is not None and taking[1] == number:
                    decided, last = taking, self._turn(number)
                    break
            else:
                return decided
        while True:
            above = [first for reach in self._parts_with(decided[0].entry) if (first := first_of(reach)) is not None]
            later = {turn: first for first in above if (turn := self._turn(first[1] or 0)) > last}
            if not later:
                return decided
            last = min(later)
            decided = later[last]

    def _first(self, reach: int | None, key: AccountKey, person: Person | None) -> Decided | None:
        """Return what the first matching rule of this reach decides."""
        for step in self.steps(key, person, reach):
            if step.rule.matches_user(key, person):
                match = self._by_rule(step, key, person)
                if match != NOWHERE:
                    return match, step.number
        return None

    def _parts_with(self, entry: int) -> Iterator[int]:
        """Yield the parts with rules that an entry is in."""
        while entry >= 0:  # a rule that leads to the root has that as its part
            if entry in self._numbers_by_reach:
                yield entry
            entry = int(self.tree.parent[entry])

    def _turn(self, number: int) -> tuple[str, int]:
        """Return what rules of parts follow each other by: when they were written, then their parts."""
        reach = self._reaches[number]
        return self.rules[number].written_at, _NO_PART if reach is None else reach

    @cached_property
    def _turns(self) -> Sequence[int]:
        """The rules of parts in their turn."""
        of_parts = [n for reach, numbers in self._numbers_by_reach.items() if reach is not None for n in numbers]
        return sorted(of_parts, key=lambda number: (self._turn(number), number))

    @cached_property
    def _by_turn(self) -> RuleIndex:
        """Index of `_turns`."""
        return RuleIndex([self.spelled_rules[number] for number in self._turns])

    def steps(self, key: AccountKey, person: Person | None, reach: int | None = None) -> Iterable[Step]:
        """Return the rules of a reach that match the account unless its user or owner doesn't fit, in their order.

        Most are the same for all users of a group. None follows a rule that matches whatever the user is.
        """
        if reach not in self._numbers_by_reach:
            return ()
        index, names = self._index_by_reach(reach), (reach, key.namespace, key.group_name, key.fqan)
        steps = self._steps.get(names)
        if steps is None:
            if len(self._steps) >= _MOST_RESOLVER_STEPS:
                self._steps.clear()
            steps = self._steps[names] = Steps(self._steps_of(reach, index.of_other_names(key), key))
        of_user = index.of_user(key, person)
        return heapq.merge(steps, self._steps_of(reach, sorted(of_user), key), key=_number_of) if of_user else steps

    def steps_of_parts(self, key: AccountKey, most: int) -> Sequence[Step] | None:
        """Return the steps of all parts that match unless the user doesn't fit; None for more than `most` rules."""
        at = self._by_turn.of_other_names(key) if self._has_parts else ()
        if len(at) > most:
            return None
        reaches = dict.fromkeys(self._reaches[self._turns[each]] for each in at)
        return sorted((step for reach in reaches for step in self.steps(key, None, reach)), key=_number_of)

    def _steps_of(self, reach: int | None, places: Iterable[int], key: AccountKey) -> Iterator[Step]:
        """places: among the rules of this reach."""
        for place in places:
            number = self._numbers_by_reach[reach][place]
            rule, target = self.spelled_rules[number], self.targets[number]
            if target is None or not rule.matches_other_names(key):
                continue
            is_of_group = rule.kind == "association"
            start = entry_of_account(self.tree, target, key.group_name) if is_of_group else target
            yield Step(number, rule, target, reach, start)
            if start and rule.kind != "share_tree" and rule.matches_any_user:
                return  # it leads to `start` or below, and that isn't the root

    @cached_property
    def _steps(self) -> dict[tuple[int | None, str, str, str], Steps]:
        return {}

    @cached_property
    def _numbers_by_reach(self) -> dict[int | None, list[int]]:
        """The rules of each reach, without those that lead nowhere."""
        numbers: dict[int | None, list[int]] = {}
        for number, target in enumerate(self.targets):
            if target is not None and not self._leads_nowhere(self.rules[number], target):
                numbers.setdefault(self._reaches[number], []).append(number)
        return numbers

    def _leads_nowhere(self, rule: Rule, target: int) -> bool:
        """Return whether a rule leads to the root, whatever the account is called."""
        if target or rule.kind in ("each", "association", "share_tree"):
            return False
        return not rule.parts or ("{" not in rule.parts[0] and self.is_dead_end(target, rule.parts[0]))

    def _index_by_reach(self, reach: int | None) -> RuleIndex:
        index = self._indexes.get(reach)
        if index is None:
            rules = [self.spelled_rules[number] for number in self._numbers_by_reach[reach]]
            index = self._indexes[reach] = RuleIndex(rules)
        return index

    @cached_property
    def _indexes(self) -> dict[int | None, RuleIndex]:
        return {}

    def _by_rule(self, step: Step, key: AccountKey, person: Person | None) -> Match:
        if step.rule.kind == "share_tree":
            node = self.share_tree(step.target).node_of(key.user_name or key.dn, key.project)
            return Match(node) if node else NOWHERE
        if step.start is None:
            return NOWHERE
        names = step.rule.names_below(key, person)
        if key.project and step.rule.kind == "association" and step.rule.parts[-1:] == ("{user}",):
            # As in Slurm, the user's association of the partition decides where there is one.
            limited = [*names[:-1], association_name(names[-1], key.project)]
            match = self.match_below(step.number, step.start, limited)
            if match != NOWHERE and split_association(self.tree.name[match.entry]).partition:
                return match
        return self.match_below(step.number, step.start, names)

    def share_tree(self, top: int) -> ShareTree:
        share_tree = self._share_trees.get(top)
        if share_tree is None:
            share_tree = self._share_trees[top] = ShareTree(self.tree, top)
        return share_tree

    @cached_property
    def _share_trees(self) -> dict[int, ShareTree]:
        return {}

    def is_free(self, decided: Decided) -> bool:
        """Return whether an account is unmapped, or mapped by a default rule to that rule's own entry."""
        match, number = decided
        if match.entry == UNMAPPED:
            return True
        return number is not None and self.rules[number].kind == "default" and match.entry == self.targets[number]

    def may_take(self, number: int, decided: Decided) -> bool:
        """Return whether a rule may map an account away from its current entry: always, or only if free or below its
        reach."""
        reach = self._reaches[number]
        return reach is None or self._may_take(reach, decided)

    def _may_take(self, reach: int, decided: Decided) -> bool:
        return self.is_free(decided) or is_below(self.tree, decided[0].entry, reach)

    def leaves(self, key: AccountKey, numbers: Iterable[int]) -> bool:
        """Return whether one of these rules matches an account that stays mapped outside the rule's reach."""
        decided, spelled = self.decide(key), canonical(key)
        if is_reserved(key.namespace) or self.is_free(decided):
            return False
        person = self.known.persons.get(key) or self.known.persons.get(spelled)
        return any(not self.may_take(n, decided) and self.spelled_rules[n].matches(spelled, person) for n in numbers)

    @cached_property
    def _reaches(self) -> tuple[int | None, ...]:
        """The entry below which each rule may take mapped accounts; None for the whole policy."""
        pairs = zip(self.rules, self.targets, strict=True)
        return tuple(None if target is None else reach_of(self.tree, rule, target) for rule, target in pairs)

    @cached_property
    def _has_parts(self) -> bool:
        return any(reach is not None for reach in self._numbers_by_reach)

    def _of_entry(self, key: AccountKey) -> Match:
        uid = uid_of_account(key)
        at = None if uid is None else self.tree.index_of_uid(uid)
        return NOWHERE if at is None or at == 0 or self.tree.is_reserve[at] else Match(at)

    def match_below(self, number: int, target: int, names: Sequence[str]) -> Match:
        """Return what a rule makes of these names below an entry."""
        entry, depth = self.walk(target, names)
        if self.rules[number].kind == "association" and depth < len(names):
            stored = [self.stored_name(name) for name in names]
            entry, depth = self.walk(target, stored) if stored != names else (entry, depth)
        if self.is_account_of_users_name(number, entry, depth):
            above = int(self.tree.parent[entry])
            own = self.tree.child_named(above, beside_account(self.tree.name[entry]))
            return self.match_at(number, above, depth - 1, len(names)) if own is None else Match(own)
        return self.match_at(number, entry, depth, len(names))

    def is_account_of_users_name(self, number: int, entry: int, depth: int) -> bool:
        """Return whether the user's name has led to a Slurm account, which is not the user's own association."""
        rule = self.rules[number]
        is_by_user = rule.kind == "association" and rule.parts == ("{user}",)
        return is_by_user and depth == 1 and bool(self.tree.is_group[entry])

    def match_at(self, number: int, entry: int, depth: int, n_names: int) -> Match:
        """Return what a rule makes of an entry that the first `depth` of its names lead to."""
        if self.rules[number].kind != "each":
            return NOWHERE if entry == 0 else Match(entry)
        if depth == n_names:
            return Match(entry, member=number)
        if depth == n_names - 1 and self.tree.takes_members[entry]:
            return Match(entry, number)
        # Usage at the root would count in no comparison, so such an account is shown as unmapped instead.
        return NOWHERE if entry == 0 else Match(entry)

    def stored_name(self, user: str) -> str:
        """Return a user's name as Slurm stores it: in lower case, unless the site distinguishes letter case.

        Then its tree has names with capital letters.
        """
        lower = user.lower()
        return user if lower == user or self.tree.has_capitals_in_leaves else lower

    @cached_property
    def own_entries(self) -> npt.NDArray[np.bool_]:
        """Mask of entries at which an account is a leaf of its own: neither a group nor the leaf of all others."""
        is_own = ~self.tree.takes_members
        is_own[self.tree.name_index.find(DEFAULT_LEAF)] = False
        return is_own

    def has_own_entry(self, entry: int) -> bool:
        return entry != UNMAPPED and bool(self.own_entries[entry])

    def likely_entry(self, key: AccountKey) -> int | None:
        """Return the entry below the account's, which it would have if its name were written in the same letter case.

        None if it is mapped to an entry of its own, or several entries have such a name.
        """
        (match, _number), spelled = self.decide(key), canonical(key)
        if is_reserved(key.namespace) or self.has_own_entry(match.entry):
            return None
        person = self.known.persons.get(key) or self.known.persons.get(spelled)
        for number in self.index.numbers(spelled, person):
            rule, target = self.spelled_rules[number], self.targets[number]
            if target is None or not rule.matches(spelled, person):
                continue
            start = target if rule.kind != "association" else entry_of_account(self.tree, target, key.group_name)
            names = rule.names_below(spelled, person)
            if rule.kind == "share_tree":
                at = self.share_tree(target).likely_node(spelled.user_name or spelled.dn, spelled.project)
            else:
                at = None if start is None or not names else self._walk_by_lower_name(start, names)
            if at is not None:
                return None if at == match.entry else at
        return None

    def _walk_by_lower_name(self, entry: int, names: Sequence[str]) -> int | None:
        for name in names:
            exact = self.tree.child_named(entry, entry_name(name))
            children = self._lower_children(entry).get(entry_name(name).lower(), ()) if exact is None else (exact,)
            if len(children) != 1 or self.tree.is_reserve[children[0]]:
                return None
            entry = children[0]
        return entry

    def _lower_children(self, entry: int) -> Mapping[str, tuple[int, ...]]:
        children = self._children_by_lower_name.get(entry)
        if children is None:
            children = self._children_by_lower_name[entry] = {}
            for child in self.tree.children(entry):
                lower = self.tree.name[child].lower()
                children[lower] = (*children.get(lower, ()), child)
        return children

    @cached_property
    def _children_by_lower_name(self) -> dict[int, dict[str, tuple[int, ...]]]:
        return {}

    def resolve_many(self, keys: Iterable[AccountKey]) -> npt.NDArray[np.int32]:
        """Return the entry of each account's usage, −1 for none: no rule matches, or it leads only to the root."""
        entries = np.fromiter((self.resolve(key).entry for key in keys), dtype=np.int32)
        return np.where(entries == 0, np.int32(UNMAPPED), entries)

    def is_dead_end(self, entry: int, name: str) -> bool:
        """Return whether a rule that continues from the entry by this name finds no child."""
        return self.walk(entry, [name])[1] == 0

    def walk(self, entry: int, names: Sequence[str]) -> tuple[int, int]:
        """Descend by names as far as such entries exist; return the entry and the number of steps."""
        for depth, name in enumerate(names):
            child = self.tree.child_named(entry, name) if name else None
            if child is None:
                child = self.tree.child_named(entry, entry_name(name))
            if child is None or self.tree.is_reserve[child]:
                return entry, depth
            entry = child
        return entry, len(names)
