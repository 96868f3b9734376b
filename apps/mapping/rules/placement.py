"""The entry of every account, cached from tick to tick while tree and rules are unchanged."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from apps.accounts.names.account_ids import AccountKey
from apps.accounts.names.entry_names import is_reserved
from apps.core import blobs
from apps.mapping.rules.resolver import UNMAPPED, Decided, KnownAccounts, Match, Resolver
from apps.mapping.rules.rule import Rule
from apps.policies.tree.columns import TreeColumns

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
