"""Valid names and shares of an entry, and its uid: the rules for every way of input.

Uids are in the order in which they are made, so that siblings keep the order of their creation. Where an algorithm
depends on the order of siblings (ties of Slurm's Fair Tree), it is this one: an uid survives revisions, renames, moves
and export. RFC 9562, version 7: milliseconds, then a counter, then random bits.
"""

from __future__ import annotations

import math
import os
import threading
import time
import unicodedata
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.core.invisible import first_invisible

# --- Names and shares -------------------------------------------------------------------------------------------------
LONGEST_NAME = 128
LONGEST_KIND = 32
MOST_SHARES = 1e15
LEAST_SHARES = 1e-15  # above 0: quotients of shares stay numbers over several levels
MAX_DEPTH = 64
MOST_ENTRIES = 1_000_000
MOST_CHILDREN = 100_000
RESERVE = "reserve"
PARENT = "parent"  # how files and requests write *inherit*

# Marks that turn the direction of text: a name with one reads as another name.
_MARKUP = ("<", ">")
_DOTS = frozenset({".", ".."})
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def clean_name(value: object) -> str:
    """The name in NFC, of what is new; ValueError says what is wrong with it."""
    name = read_name(value)
    problem = new_name_problem(name)
    if problem:
        raise ValueError(f"{name!r} {problem}")
    return name


def has_markup(name: str) -> bool:
    """Whether only an entry that has the name already may be called so, because it marks up pages."""
    return "<" in name or ">" in name


def new_name_problem(name: str) -> str:
    """Why only an entry that has the name already may be called so; "" where any may."""
    for character in _MARKUP:
        if character in name:
            return f"contains {character!r}, which marks up pages; leave it out"
    if name in _DOTS:
        return "means a folder in the path of a file; choose another name"
    unseen = first_invisible(name)
    return f"contains U+{ord(unseen):04X}, which is invisible; leave it out" if unseen else ""


def read_name(value: object) -> str:
    """The name in NFC, of what may be there already: what `clean_name` refuses beside this, entries of old may have."""
    if not isinstance(value, str):
        raise ValueError(f"a name must be text, not {_kind_of(value)}; put it in quotes")
    if value.isascii() and 0 < len(value) <= LONGEST_NAME and value.isprintable() and "/" not in value:
        return _not_blank(value)
    name = unicodedata.normalize("NFC", value)
    if not name:
        raise ValueError("a name must not be empty")
    if len(name) > LONGEST_NAME:
        raise ValueError(f"a name has at most {LONGEST_NAME} characters, this one has {len(name)}")
    if "/" in name:
        raise ValueError(f"{name!r} contains '/', which separates the parts of a path")
    for character in name:
        if character in _BIDI or unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}:
            raise ValueError(f"{name!r} contains the control character U+{ord(character):04X}; leave it out")
    return _not_blank(name)


def clean_kind(value: object) -> str:
    """A free label: vo, project, group, user, reserve, …"""
    if not isinstance(value, str):
        raise ValueError(f"a kind must be text, not {_kind_of(value)}")
    kind = clean_name(value)
    if len(kind) > LONGEST_KIND:
        raise ValueError(f"a kind has at most {LONGEST_KIND} characters")
    return kind


def clean_text(value: object, longest: int) -> str:
    """Free text, as the database can hold it."""
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError(f"must be text of at most {longest} characters")
    if "\0" in value or any(unicodedata.category(character) == "Cs" for character in value if character > "\xff"):
        raise ValueError("contains a character that is no text; leave it out")
    return value


def clean_shares(value: object) -> float | None:
    """0, or a finite number from 1e-15 to 1e15, or None for *inherit*."""
    if value is None or value == PARENT:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f'shares must be a number from 0 to {MOST_SHARES:g}, or "{PARENT}"; not {_kind_of(value)}')
    if not 0 <= value <= MOST_SHARES or not math.isfinite(value):
        raise ValueError(f'shares must be a number from 0 to {MOST_SHARES:g}, or "{PARENT}"; not {_short(value)}')
    if 0 < value < LEAST_SHARES:
        raise ValueError(f"shares must be 0, or a number from {LEAST_SHARES:g} to {MOST_SHARES:g}; not {_short(value)}")
    return float(value) + 0.0  # −0 becomes 0


def _not_blank(name: str) -> str:
    if name != name.strip():
        raise ValueError(f"{name!r} begins or ends with a space; leave it out")
    return name


def _kind_of(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    return {int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}.get(
        type(value), type(value).__name__
    )


def _short(value: float) -> str:
    return f"{value:.6g}" if abs(value) < 1e300 else "a number that large"


# --- Uids -------------------------------------------------------------------------------------------------------------
U1 = npt.NDArray[np.uint8]

_PER_MS = 1 << 12
_VERSION, _VARIANT = 0x7000, 0x80


class _Ticks:
    """Numbers that only rise within a process: milliseconds · 4096, running ahead of the clock where many are asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0

    def take(self, n: int) -> int:
        """The first of n numbers."""
        with self._lock:
            first = max(self._next, time.time_ns() // 1_000_000 * _PER_MS)
            self._next = first + n
            return first


_ticks = _Ticks()


def new_uid() -> UUID:
    """One that sorts after all that this process made before."""
    return UUID(bytes=new_uids(1).tobytes())


def new_uids(n: int) -> U1:
    """So many, (n, 16), rising: a million are written at the end of the indexes."""
    ticks = np.uint64(_ticks.take(n)) + np.arange(n, dtype=np.uint64)
    uids = np.frombuffer(os.urandom(16 * n), dtype=np.uint8).reshape(n, 16).copy()
    upper = (ticks // np.uint64(_PER_MS) << np.uint64(16)) + np.uint64(_VERSION) + ticks % np.uint64(_PER_MS)
    uids[:, :8] = upper.astype(">u8").view(np.uint8).reshape(n, 8)
    uids[:, 8] = uids[:, 8] & 0x3F | _VARIANT
    return uids


def in_order_of_creation(uid: U1) -> npt.NDArray[np.int64]:
    """(n,) places of uids (n, 16) in the order in which they were made; those without a time come first, by value."""
    halves = np.ascontiguousarray(uid).view(">u8")
    place = np.empty(len(uid), dtype=np.int64)
    place[np.lexsort((halves[:, 1], halves[:, 0], uid[:, 6] >> 4 == _VERSION >> 12))] = np.arange(len(uid))
    return place
