"""The entries of many accounts at once, in columns: the same as the resolver decides for each of them.

Most accounts share all names but the user's with many others, and then the same rules decide by the user's name alone.
Those that differ (accounts with a DN, an owner that a rule asks for, attachments, rules for single users) are resolved
one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey, canonical
from apps.accounts.entry_accounts import is_reserved
from apps.core.derived_state import in_memory
from apps.core.strings import Strings
from apps.mapping.rules.entry_names import entry_name
from apps.mapping.rules.resolver import NOWHERE, UNMAPPED, Decided, KnownAccounts, Match, Resolver, Step
from apps.mapping.rules.rule import Rule
from apps.policies.tree.columns import TreeColumns

DERIVED_STATE = (
    in_memory(
        "_placements",
        holds="entries of all accounts",
        key="digest of the tree, rules, known accounts",
        inputs="those, and the accounts",
        range="the accounts at its time; later ones are added",
        ends="another key; the newest ones push it out",
    ),
)

I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
_NONE = -1
_MOST_OF_PARTS = 16  # rules of parts that are applied to all users of a group at once
MOST_KEPT_PLACEMENTS = 8
_Key = tuple[str, tuple[Rule, ...], int]


@dataclass(frozen=True, eq=False)
class Placement(Sequence[Decided]):
    """What the resolver decides for each account: parts of its match, and the rule that decided. −1 is None.

    entry: as in `Match`, so that 0 is the root.
    """

    entry: I4
    joins: I4
    member: I4
    rule: I4

    def __len__(self) -> int:
        return len(self.entry)

    def __getitem__(self, at: int) -> Decided:  # type: ignore[override]  # one at a time
        match = Match(int(self.entry[at]), _or_none(self.joins[at]), _or_none(self.member[at]))
        return match, _or_none(self.rule[at])

    @cached_property
    def of_usage(self) -> I4:
        """The entry of each account's usage, −1 for none: at the root it would count in no comparison."""
        return np.where(self.entry == 0, np.int32(UNMAPPED), self.entry)

    @property
    def columns(self) -> tuple[I4, I4, I4, I4]:
        return self.entry, self.joins, self.member, self.rule

    def take(self, places: npt.NDArray[np.int64]) -> Placement:
        """That of the accounts at these places."""
        return Placement(*(column[places] for column in self.columns))

    def followed_by(self, other: Placement) -> Placement:
        if not len(self):
            return other
        return Placement(*map(np.concatenate, zip(self.columns, other.columns, strict=True)))


_NO_ACCOUNTS = Placement(*(np.zeros(0, np.int32) for _ in range(4)))


def _or_none(number: np.int32) -> int | None:
    return None if number < 0 else int(number)


def _or_minus(number: int | None) -> int:
    return _NONE if number is None else number


class _PlacementCache:
    """The last few placements, each by tree, rules and known accounts, with the accounts that it is of."""

    def __init__(self) -> None:
        self._kept: LRUCache[_Key, tuple[AccountKeys, Placement]] = LRUCache(MOST_KEPT_PLACEMENTS)
        self._lock = Lock()

    def get(self, key: _Key) -> tuple[AccountKeys, Placement] | None:
        with self._lock:
            return self._kept.get(key)

    def keep(self, key: _Key, keys: AccountKeys, placement: Placement) -> None:
        if key[0]:  # a tree that was never stored has no digest
            with self._lock:
                self._kept[key] = keys, placement


_placements = _PlacementCache()


def place_accounts(
    tree: TreeColumns,
    rules: tuple[Rule, ...],
    known: KnownAccounts,
    keys: Sequence[AccountKey],
) -> Placement:
    """Return the placement of all these accounts. Of the one before, only accounts that are new at its end are placed.

    The same object is returned while nothing changes, for callers that cache by it. Of a million accounts, 1.6 s.
    """
    key, resolver = (tree.digest, rules, known.digest), Resolver(rules, tree, known)
    if not isinstance(keys, AccountKeys):
        return place_columns(resolver, AccountKeys.of(keys))
    last = _placements.get(key)
    if last is not None and (last[0] is keys or (len(last[0]) == len(keys) and keys.starts_with(last[0]))):
        return last[1]
    first = last[1] if last is not None and keys.starts_with(last[0]) else _NO_ACCOUNTS
    placement = first
    if len(first) < len(keys):
        new = place_columns(resolver, keys.take(np.arange(len(first), len(keys))) if len(first) else keys)
        placement = first.followed_by(new)
    _placements.keep(key, keys, placement)
    return placement


def place_columns(resolver: Resolver, keys: AccountKeys) -> Placement:
    """Return the placement of each account, without any cache."""
    n = len(keys)
    placement = Placement(*(np.full(n, _NONE, np.int32) for _ in range(4)))
    if not n:
        return placement
    tables = _Tables(resolver.tree, keys.column("user_name"))
    is_alone = _decided_alone(resolver, keys)
    for names, places in _groups(keys):
        plan = None if is_reserved(names.namespace) else _Plan.of(resolver, canonical(names._replace(user_name="-")))
        alone = places if plan is None else places[is_alone[places]]
        for at in alone.tolist():
            _put(placement, at, resolver.decide(keys[at]))
        rest = places if not len(alone) else places[~is_alone[places]]
        if plan is not None and len(rest):
            plan.place(placement, rest, tables)
    for at in tables.others():
        _put(placement, at, resolver.decide(keys[at]))
    return placement


def _put(placement: Placement, at: int, decided: Decided) -> None:
    match, rule = decided
    placement.entry[at], placement.rule[at] = match.entry, _or_minus(rule)
    placement.joins[at], placement.member[at] = _or_minus(match.joins), _or_minus(match.member)


def _decided_alone(resolver: Resolver, keys: AccountKeys) -> npt.NDArray[np.bool_]:
    """Mask of accounts for which more than their names without the DN, and rules for any user, may decide."""
    known, index, users = resolver.known, resolver.index, keys.column("user_name")
    special = {name for key in (*known.places, *known.persons) for name in (key.user_name, key.dn) if name}
    alone = np.diff(keys.column("dn").ends, prepend=0) > 0

    def is_alone(user: str) -> bool:
        return not user or "=" in user or user in special or bool(index.of_user_name(user))

    if special or index.is_by_user or users.has_inside("="):
        alone |= np.fromiter(map(is_alone, users), np.bool_, len(users))
    else:
        alone |= np.diff(users.ends, prepend=0) == 0
    return alone


def _groups(keys: AccountKeys) -> Iterable[tuple[AccountKey, I8]]:
    """Accounts with the same names but user name and DN: those names, and where the accounts are."""
    fields = ("namespace", "group_name", "fqan", "project")
    coded = [keys.column(name).coded for name in fields]
    number = np.zeros(len(keys), np.int64)
    for texts, codes in coded:
        if len(texts) > 1:
            number = np.unique(number * len(texts) + codes, return_inverse=True)[1].astype(np.int64)
    order = np.argsort(number, kind="stable")
    edges = np.flatnonzero(np.diff(number[order], prepend=-1, append=-1))
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        first = order[begin]
        texts_of = {name: texts[codes[first]] for name, (texts, codes) in zip(fields, coded, strict=True)}
        yield AccountKey(**{"user_name": "", **texts_of}), order[begin:end]


class _Tables:
    """Children of entries by the names of users, found by hash; `others` are users for whom that was wrong.

    users: of all accounts.
    """

    def __init__(self, tree: TreeColumns, users: Strings) -> None:
        self.users, self._tree, self._names = users, tree, tree.names
        self._wanted, self._hashes = users.hashes(), self._names.hashes()
        self._sorted: dict[int, tuple[I8, npt.NDArray[np.uint64]]] = {}
        self._found: list[tuple[I8, I8]] = []  # accounts and the entries found for them

    def children(self, entry: int, places: I8) -> I8:
        """The child of the entry for the user of each of these accounts, −1 for none."""
        known = self._sorted.get(entry)
        if known is None:
            below = self._tree.children(entry)
            hashes = self._hashes[below.start : below.stop]
            order = hashes.argsort()
            known = self._sorted[entry] = order + below.start, hashes[order]
        order, hashes = known
        if not len(order):
            return np.full(len(places), _NONE, np.int64)
        wanted = self._wanted[places]
        at = hashes.searchsorted(wanted)
        at[at == len(order)] = 0
        is_found = hashes[at] == wanted
        children = order[at]
        self._found.append((places[is_found], children[is_found]) if not is_found.all() else (places, children))
        return np.where(is_found, children, _NONE)

    def others(self) -> Iterable[int]:
        """Accounts whose user has the hash of another name."""
        if not self._found:
            return ()
        places, children = (np.concatenate(column) for column in zip(*self._found, strict=True))
        asked, found = self.users.take(places), self._names.take(children)
        if asked.has_equal_bytes(found):
            return ()
        return [at for at, name, other in zip(places.tolist(), asked, found, strict=True) if name != other]


@dataclass(frozen=True, eq=False, slots=True)
class _Plan:
    """The rules for accounts of one namespace, group, FQAN and project. names: an example, with any user.

    is_simple: whether they can be applied to many users at once.
    """

    resolver: Resolver
    names: AccountKey
    steps: Sequence[Step]
    is_simple: bool

    @classmethod
    def of(cls, resolver: Resolver, names: AccountKey) -> _Plan:
        of_parts = resolver.steps_of_parts(names, _MOST_OF_PARTS)
        steps = [*resolver.steps(names, None), *(of_parts or ())]
        reaches = [step.reach for step in steps if step.reach is not None]
        is_simple = of_parts is not None and len(set(reaches)) == len(reaches)
        is_simple &= all(is_by_user_name(step.rule) for step in steps)
        is_simple &= not (names.project and any(step.rule.kind == "association" for step in steps))
        return cls(resolver, names, steps, is_simple)

    def place(self, placement: Placement, places: I8, tables: _Tables) -> None:
        if not self.is_simple:
            for at in places.tolist():
                _put(placement, at, self.resolver.decide(self.names._replace(user_name=tables.users[at])))
            return
        decided: Placement | None = None
        of_parts: list[tuple[Step, Placement]] = []
        for step in self.steps:
            if step.reach is not None:
                of_parts.append((step, self._match(step, places, tables)))
            elif decided is None:
                decided = self._match(step, places, tables)
            elif (decided.rule < 0).any():
                _take(decided, self._match(step, places, tables), decided.rule < 0)
        if decided is None:
            decided = _repeated(NOWHERE, _NONE, len(places))
        rules = self.resolver.rules
        for step, match in sorted(of_parts, key=lambda part: (rules[part[0].number].written_at, part[0].reach)):
            _take(decided, match, self._may_take(step, decided))
        for column, values in zip(placement.columns, decided.columns, strict=True):
            column[places] = values

    def _may_take(self, step: Step, decided: Placement) -> npt.NDArray[np.bool_]:
        pairs, which = np.unique(np.stack([decided.entry, decided.rule]), axis=1, return_inverse=True)
        may = [
            self.resolver.may_take(step.number, (Match(entry), None if rule < 0 else rule))
            for entry, rule in pairs.T.tolist()
        ]
        return np.array(may, np.bool_)[which.reshape(-1)]

    def _match(self, step: Step, places: I8, tables: _Tables) -> Placement:
        """The match of each account's user by one rule; nowhere without one."""
        n, number = len(places), step.number
        parts, is_each = step.rule.parts, step.rule.kind == "each"
        fixed = [part for part in parts if part != "{user}"]
        found = step.start
        if found is not None and fixed:
            names = step.rule.names_below(self.names, None)[: len(fixed)]
            found, depth = self.resolver.walk(found, names)
            if depth < len(fixed):  # the same for all users
                match = self.resolver.match_at(number, found, depth, len(parts))
                return _repeated(match, number, n)
        if found is None:
            return _repeated(NOWHERE, number, n)
        if len(fixed) == len(parts):
            return _repeated(self.resolver.match_at(number, found, len(parts), len(parts)), number, n)
        children = self._children(step, found, places, tables)
        other = self.resolver.match_at(number, found, len(fixed), len(parts))
        if (children >= 0).all():
            return replace(_repeated(Match(0, None, number if is_each else None), number, n), entry=children)
        entry = np.where(children >= 0, children, np.int32(other.entry)).astype(np.int32)
        joins = np.where(children >= 0, _NONE, _or_minus(other.joins)).astype(np.int32)
        member = np.where((children >= 0) & is_each, number, _NONE).astype(np.int32)
        is_nowhere = (children < 0) & (other == NOWHERE)
        return Placement(entry, joins, member, np.where(is_nowhere, _NONE, number).astype(np.int32))

    def _children(self, step: Step, found: int, places: I8, tables: _Tables) -> I4:
        """The child of `found` for each account's user, −1 for none."""
        resolver, children = self.resolver, tables.children(found, places).astype(np.int32)
        is_reserve = (children >= 0) & resolver.tree.is_reserve[children]
        children[is_reserve] = _NONE
        is_association = step.rule.kind == "association"
        if is_association:  # an account of the user's name is not the user's own association
            children[(children >= 0) & resolver.tree.is_group[children]] = _NONE
        for at in np.flatnonzero(children < 0).tolist():
            user = tables.users[int(places[at])]
            if is_association or not (is_reserve[at] or entry_name(user) == user):
                entry = resolver.match_below(step.number, found, [user]).entry
                children[at] = _NONE if entry == found else entry
        return children


def is_by_user_name(rule: Rule) -> bool:
    """Whether only the last of the rule's names is the user's, and any user fits."""
    *before, last = rule.parts or ("",)
    has_user = any("{user}" in part for part in before) or ("{user}" in last and last != "{user}")
    is_fixed_by_case = rule.kind == "association" and rule.parts != ("{user}",)
    return rule.matches_any_user and rule.kind != "share_tree" and not has_user and not is_fixed_by_case


def _repeated(match: Match, number: int, n: int) -> Placement:
    rule = _NONE if match == NOWHERE else number
    values = (match.entry, _or_minus(match.joins), _or_minus(match.member), rule)
    return Placement(*(np.full(n, value, np.int32) for value in values))


def _take(decided: Placement, match: Placement, may: npt.NDArray[np.bool_]) -> None:
    """Take matches, where there is one and the mask allows it."""
    taken = may & (match.rule >= 0)
    for column, values in zip(decided.columns, match.columns, strict=True):
        column[taken] = values[taken]
