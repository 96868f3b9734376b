"""Lists of a document checked whole, as columns: what is wrong is named by its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from apps.federation.documents.wire import bad_place
from apps.usage.parsers.base import F8, I8

MOST_AMOUNT = 1e12
MOST_NUMBER = 2**53


class Rows:
    """The rows of all hours behind each other, and how the place of one is called."""

    def __init__(self, hours: Sequence[Mapping[str, Any]], lengths: I8) -> None:
        self.hours = hours
        self.ends = np.cumsum(lengths)
        self.starts = self.ends - lengths
        self.n = int(self.ends[-1]) if len(lengths) else 0

    def column(self, name: str) -> list[Any]:
        n_each = (self.ends - self.starts).tolist()
        parts: Iterable[list[Any]] = (
            one[name] if name in one else [0] * n for one, n in zip(self.hours, n_each, strict=True)
        )
        return list(chain.from_iterable(parts))

    def has(self, name: str) -> bool:
        return any(name in one for one in self.hours)

    def place(self, name: str, row: int) -> str:
        at = int(np.searchsorted(self.ends, row, side="right"))
        return f"hours[{at}].{name}[{row - int(self.starts[at])}]"

    def unordered(self, values: I8) -> I8:
        """Rows whose value isn't above that of the row before in the same hour."""
        is_bad = np.zeros(len(values), np.bool_)
        is_bad[1:] = values[1:] <= values[:-1]
        is_bad[self.starts[self.starts < len(values)]] = False
        return np.flatnonzero(is_bad)


class RunningColumns(Rows):
    """The running jobs, called by their own places."""

    def __init__(self, given: Mapping[str, Any], n: int) -> None:
        super().__init__([given], np.array([n], np.int64))

    def place(self, name: str, row: int) -> str:
        return f"running.{name}[{row}]"


def read_indexes(rows: Rows, n_entries: int) -> I8:
    given = rows.column("entry")
    _refuse_kinds(rows, "entry", given, (int,), "must be a whole number")
    if not given:
        return np.zeros(0, np.int64)
    lowest, highest = min(given), max(given)
    if lowest < 0 or highest >= n_entries:
        row = next(at for at, one in enumerate(given) if not 0 <= one < n_entries)
        raise bad_place(rows.place("entry", row), f"is no index into entries, which has {n_entries}")
    return np.array(given, np.int64)


def read_numbers(rows: Rows, name: str, most: float = MOST_AMOUNT) -> F8:
    """Finite numbers from 0 to `most`; 0 throughout where the column was left out."""
    if not rows.has(name):
        return np.zeros(rows.n)
    given = rows.column(name)
    _refuse_kinds(rows, name, given, (int, float), "must be a number")
    try:
        found = np.array(given, np.float64)
    except OverflowError:
        found = np.array([min(one, 2 * most) for one in given], np.float64)
    wrong = np.flatnonzero(~((found >= 0) & (found <= most)))
    refuse_at(rows, name, wrong, f"must be from 0 to {most:,.0f}")
    return found


def _refuse_kinds(rows: Rows, name: str, given: list[Any], kinds: tuple[type, ...], message: str) -> None:
    if not set(map(type, given)) <= set(kinds):
        row = next(at for at, one in enumerate(given) if type(one) not in kinds)
        raise bad_place(rows.place(name, row), message)


def refuse_at(rows: Rows, name: str, wrong: I8, message: str) -> None:
    if len(wrong):
        raise bad_place(rows.place(name, int(wrong[0])), message)


def read_whole(value: object, where: str, least: int) -> int:
    if type(value) is not int or not least <= value <= MOST_NUMBER:
        raise bad_place(where, f"must be a whole number from {least}")
    return value


def read_list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise bad_place(where, "must be a list")
    return value


def read_object(value: object, needs: Sequence[str], may: Sequence[str], where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise bad_place(where, "must be an object")
    refuse_others(value, needs, may, f"{where}.")
    return value


def refuse_others(value: Mapping[str, Any], needs: Sequence[str], may: Sequence[str], prefix: str) -> None:
    for name in sorted(set(needs) - value.keys()):
        raise bad_place(f"{prefix}{name}", "is missing")
    for name in sorted(value.keys() - set(may)):
        raise bad_place(f"{prefix}{name[:64]}", "is unknown")
