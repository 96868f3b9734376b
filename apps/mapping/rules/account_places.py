"""The accounts that have an entry, as a snapshot keeps them: in a blob of their own, for most snapshots share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.accounts.names.account_ids import AccountKey
from apps.core import blobs
from apps.mapping.rules.rule import Rule

I4 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class AccountPlaces:
    """The accounts that have an entry, and which: `entry` runs parallel to `keys`. And the rules for all others.

    joins: the *each* rule by which an account would become a child of its entry, −1 for none; None: the rules
    tell it.
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
