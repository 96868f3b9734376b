"""State that is made of other state: what it is made from, for which range it holds, and what ends it.

A module that keeps such state declares it beside: a constant DERIVED_STATE, a tuple of `DerivedState`. The register in
docs/appendices/derived-state.md is generated from these. A test finds caches, tables and files that none of them names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kept(StrEnum):
    """Where state is kept, and so how long at most."""

    MEMORY = "memory of a process"
    TABLE = "table"
    FILE = "file"


@dataclass(frozen=True)
class DerivedState:
    """One kind of derived state.

    names: of module attributes in memory, `name` or `Class.method`; of models; or of files below FAIRSHARE_VAR, with *.
    holds: what it is. key: what one piece is found by. inputs: what it is made from. range: for which time or part it
    holds. ends: what makes it invalid, or removes it.
    """

    kept: Kept
    names: tuple[str, ...]
    holds: str
    key: str
    inputs: str
    range: str
    ends: str


def in_memory(*names: str, holds: str, key: str, inputs: str, range: str, ends: str) -> DerivedState:
    return DerivedState(Kept.MEMORY, names, holds, key, inputs, range, ends)


def in_tables(*names: str, holds: str, key: str, inputs: str, range: str, ends: str) -> DerivedState:
    return DerivedState(Kept.TABLE, names, holds, key, inputs, range, ends)


def in_files(*names: str, holds: str, key: str, inputs: str, range: str, ends: str) -> DerivedState:
    return DerivedState(Kept.FILE, names, holds, key, inputs, range, ends)
