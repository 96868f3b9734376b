"""The mapped accounts of a snapshot, as they are stored in it and read from it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey
from apps.core import blobs
from apps.core.derived_state import in_memory
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule import Rule

DERIVED_STATE = (
    in_memory(
        "_last",
        holds="last places of accounts, packed",
        key="identity of the arrays",
        inputs="placement",
        range="one placement",
        ends="the next one",
    ),
)

I4 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class AccountPlaces:
    """The mapped accounts and, parallel to `keys`, the index of each one's entry; and the rules for all other accounts.

    joins: the *each* rule by which an account would become a child of its entry, −1 for none; None: determined by the
    rules.
    """

    keys: AccountKeys
    entry: I4
    rules: tuple[Rule, ...]
    joins: I4 | None = None

    @property
    def columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {"entry": self.entry}
        columns |= zip(AccountKey._fields, self.keys.columns, strict=True)
        if self.joins is not None:
            columns["joins"] = self.joins
        return columns

    @property
    def meta(self) -> dict[str, Any]:
        return {"rules": [rule.to_json() for rule in self.rules]}

    @cached_property
    def packed(self) -> tuple[bytes, str]:
        return blobs.pack(self.columns, self.meta)

    @cached_property
    def digest(self) -> str:
        return self.packed[1]


def unpack_places(blob: bytes | memoryview, digest: str) -> AccountPlaces:
    return places_of_columns(*blobs.unpack(blob, digest), digest)


def places_of_columns(columns: Mapping[str, Any], meta: Mapping[str, Any], digest: str) -> AccountPlaces:
    keys = AccountKeys([columns[name] for name in AccountKey._fields])
    rules = tuple(Rule.from_json(rule) for rule in meta["rules"])
    places = AccountPlaces(keys, columns["entry"], rules, columns.get("joins"))
    vars(places)["digest"] = digest
    return places


def places_of(keys: AccountKeys, entry: I4, joins: I4, rules: tuple[Rule, ...]) -> AccountPlaces:
    """Return the mapped accounts as stored in a snapshot; the same object while accounts and entries don't change.

    Accounts that represent an entry are left out: look-ups don't name them, and no user owns them.
    """
    last = _last.places
    if last is not None and last[0] is keys and last[1] is entry and last[2] is joins and last[3].rules == rules:
        return last[3]
    placed = np.flatnonzero((entry != UNMAPPED) & ~keys.is_reserved)
    places = AccountPlaces(keys.take(placed), entry[placed], rules, joins[placed])
    _last.places = keys, entry, joins, places
    return places


class _LastPlaces(threading.local):
    """Of this thread's last recompute, because accounts seldom change between two recomputes of a policy."""

    places: tuple[AccountKeys, I4, I4, AccountPlaces] | None = None


_last = _LastPlaces()
