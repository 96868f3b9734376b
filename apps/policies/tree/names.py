"""Validation of entry names, kinds and shares, shared by all kinds of input, and creation of entry uids.

Uids are UUIDs of version 7 (RFC 9562): milliseconds, a counter, then random bits. They sort in the order of creation,
and revisions, renames, moves and exports don't change them. Where an algorithm depends on the order of siblings (ties
in Slurm's Fair Tree), that is the order of their uids.
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

LONGEST_ENTRY_NAME = 128
LONGEST_KIND = 32
MOST_ENTRY_SHARES = 1e15
# Above zero, so that quotients of shares remain representable over several levels.
LEAST_SHARES = 1e-15
MAX_DEPTH = 64
LONGEST_TYPED_PATH = 10_000  # of an entry in a request: MAX_DEPTH names with their slashes fit
MOST_POLICY_ENTRIES = 1_000_000
MOST_CHILDREN_OF_ENTRY = 100_000
RESERVE = "reserve"
# How files and requests write *inherit*.
PARENT = "parent"

_MARKUP = ("<", ">")
_DOTS = frozenset({".", ".."})
# Characters that change the direction of text: with one of them, a name is displayed as another name.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
U1 = npt.NDArray[np.uint8]
_PER_MS = 1 << 12
_VERSION, _VARIANT = 0x7000, 0x80


def clean_name(value: object) -> str:
    """Return a new entry's name in NFC; raise ValueError with the reason if it is invalid."""
    name = read_name(value)
    problem = new_name_problem(name)
    if problem:
        raise ValueError(f"{name!r} {problem}")
    return name


def has_markup(name: str) -> bool:
    """Return whether the name contains HTML brackets: only entries that already have such a name may keep it."""
    return "<" in name or ">" in name


def new_name_problem(name: str) -> str:
    """Return why the name is not allowed for a new or renamed entry, or "" if it is allowed."""
    for character in _MARKUP:
        if character in name:
            return f"contains {character!r}, which marks up pages; leave it out"
    if name in _DOTS:
        return "means a folder in the path of a file; choose another name"
    unseen = first_invisible(name)
    return f"contains U+{ord(unseen):04X}, which is invisible; leave it out" if unseen else ""


def read_name(value: object) -> str:
    """Return a name in NFC by the rules for existing entries, which are laxer than those of `clean_name`."""
    if not isinstance(value, str):
        raise ValueError(f"a name must be text, not {_kind_of(value)}; put it in quotes")
    if value.isascii() and 0 < len(value) <= LONGEST_ENTRY_NAME and value.isprintable() and "/" not in value:
        return _not_blank(value)
    name = unicodedata.normalize("NFC", value)
    if not name:
        raise ValueError("a name must not be empty")
    if len(name) > LONGEST_ENTRY_NAME:
        raise ValueError(f"name too long ({len(name)} of {LONGEST_ENTRY_NAME} characters)")
    if "/" in name:
        raise ValueError(f"{name!r} contains '/', which separates the parts of a path")
    for character in name:
        if character in _BIDI or unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}:
            raise ValueError(f"{name!r} contains the control character U+{ord(character):04X}; leave it out")
    return _not_blank(name)


def clean_kind(value: object) -> str:
    """Return a valid kind, which is a free label such as vo, project, group, user or reserve."""
    if not isinstance(value, str):
        raise ValueError(f"a kind must be text, not {_kind_of(value)}")
    kind = clean_name(value)
    if len(kind) > LONGEST_KIND:
        raise ValueError(f"a kind has at most {LONGEST_KIND} characters")
    return kind


def clean_text(value: object, longest: int) -> str:
    """Return free text that PostgreSQL can store; raise ValueError if it is too long or contains invalid characters."""
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError(f"must be text of at most {longest} characters")
    if "\0" in value or any(unicodedata.category(character) == "Cs" for character in value if character > "\xff"):
        raise ValueError("contains a character that cannot be stored; leave it out")
    return value


def clean_shares(value: object) -> float | None:
    """Return 0, a finite number from 1e-15 to 1e15, or None for *inherit*; raise ValueError otherwise."""
    if value is None or value == PARENT:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(
            f'shares must be a number from 0 to {MOST_ENTRY_SHARES:g}, or "{PARENT}"; not {_kind_of(value)}'
        )
    if not 0 <= value <= MOST_ENTRY_SHARES or not math.isfinite(value):
        raise ValueError(f'shares must be a number from 0 to {MOST_ENTRY_SHARES:g}, or "{PARENT}"; not {_short(value)}')
    if 0 < value < LEAST_SHARES:
        raise ValueError(
            f"shares must be 0, or a number from {LEAST_SHARES:g} to {MOST_ENTRY_SHARES:g}; not {_short(value)}"
        )
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
    if value == "null":  # how requests and documents pass on a null, which must not become *inherit*
        return "null"
    return {int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}.get(
        type(value), type(value).__name__
    )


def _short(value: float) -> str:
    return f"{value:.6g}" if abs(value) < 1e300 else "a number that large"


class _UidClock:
    """Thread-safe counter of increasing numbers: milliseconds · 4096, running ahead of the clock under load."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0

    def take(self, n: int) -> int:
        """Reserve n consecutive numbers and return the first."""
        with self._lock:
            first = max(self._next, time.time_ns() // 1_000_000 * _PER_MS)
            self._next = first + n
            return first


_uid_clock = _UidClock()


def new_uid() -> UUID:
    """Return a new uid that sorts after all earlier ones of this process."""
    return UUID(bytes=new_uids(1).tobytes())


def new_uids(n: int) -> U1:
    """Return n new uids, shape (n, 16), in ascending order, so that bulk inserts append to the database indexes."""
    ticks = np.uint64(_uid_clock.take(n)) + np.arange(n, dtype=np.uint64)
    uids = np.frombuffer(os.urandom(16 * n), dtype=np.uint8).reshape(n, 16).copy()
    upper = (ticks // np.uint64(_PER_MS) << np.uint64(16)) + np.uint64(_VERSION) + ticks % np.uint64(_PER_MS)
    uids[:, :8] = upper.astype(">u8").view(np.uint8).reshape(n, 8)
    uids[:, 8] = uids[:, 8] & 0x3F | _VARIANT
    return uids


def creation_ranks(uid: U1) -> npt.NDArray[np.int64]:
    """Return the rank (n,) of each uid (n, 16) by time of creation; uids without a time come first, sorted by value."""
    halves = np.ascontiguousarray(uid).view(">u8")
    place = np.empty(len(uid), dtype=np.int64)
    place[np.lexsort((halves[:, 1], halves[:, 0], uid[:, 6] >> 4 == _VERSION >> 12))] = np.arange(len(uid))
    return place
