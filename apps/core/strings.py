"""Many texts as two arrays, without an object for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt

I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint64]
_CHUNK = 65_536
_WORD = 8  # bytes that are hashed at a time
_STEP, _FACTOR, _SHIFT = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 29  # of splitmix64
_MASK = (1 << 64) - 1
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], np.uint64)
_MOST_SMALL = 1 << 31  # bytes, up to which ends fit in 32 bits


class Strings(Sequence[str]):
    """Read-only texts. utf8: of all, one behind the other; ends: (n,), where each ends, in bytes.

    A million of them take the memory of their bytes and 4 MB, and none of the garbage collector's time.
    """

    def __init__(self, utf8: bytes | memoryview, ends: npt.NDArray[Any]) -> None:
        self.utf8 = memoryview(utf8)
        if not len(self.utf8):
            ends = np.broadcast_to(np.int32(0), len(ends))
        self.ends = ends.astype(np.int32, copy=False) if len(self.utf8) < _MOST_SMALL else ends

    @classmethod
    def of(cls, texts: Iterable[str]) -> Strings:
        if isinstance(texts, Strings):
            return texts
        encoded = [text.encode() for text in texts]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return cls(b"".join(encoded), np.cumsum(lengths))

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            first, last, step = at.indices(len(self))
            if step != 1 or not len(self.utf8):
                return [self[place] for place in range(first, last, step)]
            start = int(self.ends[first - 1]) if first else 0
            ends = self.ends[first:last] - start
            return list(Strings(self.utf8[start : start + int(ends[-1])], ends)) if len(ends) else []
        place = at if at >= 0 else at + len(self.ends)
        start = self.ends[place - 1] if place else 0
        return str(self.utf8[start : self.ends[place]], "utf-8")

    def __iter__(self) -> Iterator[str]:
        if not len(self.utf8):
            return iter([""] * len(self))
        ends = self.ends.tolist()
        starts = [0, *ends[:-1]]
        text = str(self.utf8, "utf-8")
        if len(text) == len(self.utf8):  # one byte for each character
            return iter([text[start:end] for start, end in zip(starts, ends, strict=True)])
        return iter([str(self.utf8[start:end], "utf-8") for start, end in zip(starts, ends, strict=True)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as of a list

    @classmethod
    def split(cls, utf8: bytes | memoryview, separator: str) -> Strings:
        """The texts between separators of one ASCII character: at least one."""
        joined = np.frombuffer(utf8, np.uint8)
        is_separator = joined == ord(separator)
        places = np.append(np.flatnonzero(is_separator), len(joined))
        return cls(joined[~is_separator].tobytes(), places - np.arange(len(places)))

    @classmethod
    def joined(cls, parts: Sequence[Strings]) -> Strings:
        """The texts of all parts, one behind the other."""
        lengths = np.concatenate([np.diff(part.ends, prepend=0) for part in parts])
        return cls(b"".join(part.utf8 for part in parts), np.cumsum(lengths))

    def beside(self, others: Strings) -> Strings:
        """Each text with the other one at its place behind it."""
        lengths = np.stack([np.diff(each.ends, prepend=0) for each in (self, others)], axis=1)
        is_other = np.repeat(np.tile([False, True], len(self)), lengths.reshape(-1))
        utf8 = np.empty(len(is_other), np.uint8)
        utf8[is_other] = np.frombuffer(others.utf8, np.uint8)
        utf8[~is_other] = np.frombuffer(self.utf8, np.uint8)
        return Strings(utf8.tobytes(), np.cumsum(lengths.sum(axis=1)))

    def take(self, places: npt.NDArray[Any]) -> Strings:
        """The texts at these places, in their order."""
        if len(places) == len(self) and np.array_equal(places, np.arange(len(self))):
            return self
        starts = np.where(places > 0, self.ends[places - 1], 0) if len(self) else np.zeros(0, np.int64)
        lengths = self.ends[places].astype(np.int64) - starts
        ends = np.cumsum(lengths)
        source, pieces = np.frombuffer(self.utf8, np.uint8), []
        for begin in range(0, len(places), _CHUNK):
            part = slice(begin, begin + _CHUNK)
            before = ends[part] - lengths[part]
            first = before[0] if len(before) else 0
            at = np.repeat(starts[part] - (before - first), lengths[part]) + np.arange(lengths[part].sum())
            pieces.append(source[at].tobytes())
        return Strings(b"".join(pieces), ends)

    def starts_with(self, other: Strings) -> bool:
        """Whether the first texts are all those of the other."""
        n = len(other)
        return (
            len(self) >= n
            and self.utf8[: len(other.utf8)] == other.utf8
            and bool(np.array_equal(self.ends[:n], other.ends))
        )

    @cached_property
    def coded(self) -> tuple[list[str], I4]:
        """The distinct texts in the order in which they come first, and the index of each text among them."""
        if len(self) and self.is_constant:
            return [self[0]], np.zeros(len(self), np.int32)
        hashes = self.hashes()
        begins = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])[: len(self)])  # equal texts often follow
        _, first, of_run = np.unique(hashes[begins], return_index=True, return_inverse=True)
        order = np.argsort(first)
        number = np.empty(len(order), np.int32)
        number[order] = np.arange(len(order), dtype=np.int32)
        codes = np.repeat(number[of_run.reshape(-1)], np.diff(begins, append=len(self)))
        distinct = self.take(begins[first[order]])
        if not distinct.take(codes).has_equal_bytes(self):  # two texts have one hash
            numbers = {text: place for place, text in enumerate(dict.fromkeys(self))}
            return list(numbers), np.fromiter(map(numbers.__getitem__, self), np.int32, len(self))
        return list(distinct), codes

    def has_equal_bytes(self, other: Strings) -> bool:
        return self.utf8 == other.utf8 and bool(np.array_equal(self.ends, other.ends))

    def differ(self, other: Strings) -> npt.NDArray[np.bool_]:
        """Mask of the texts that aren't the one at the same place of the other, which has as many."""
        lengths = np.diff(self.ends, prepend=0)
        differ = np.asarray(lengths != np.diff(other.ends, prepend=0), np.bool_)
        alike = np.flatnonzero(~differ)
        own, there = self.take(alike), other.take(alike)
        bytes_differ = np.frombuffer(own.utf8, np.uint8) != np.frombuffer(there.utf8, np.uint8)
        if bytes_differ.any():
            differ[alike[own.ends.searchsorted(np.flatnonzero(bytes_differ), "right")]] = True
        return differ

    def find_part(self, part: str) -> tuple[I8, npt.NDArray[np.bool_]]:
        """Places of the texts that contain the part, without regard to case, and which of them begin with it."""
        wanted = part.casefold()
        if not wanted:
            return np.arange(len(self)), np.ones(len(self), np.bool_)
        is_found, begins = np.zeros(len(self), np.bool_), np.zeros(len(self), np.bool_)
        if wanted.isascii():
            at = self._find_ascii(wanted.encode())
            places = self.ends.searchsorted(at, "right")
            starts = np.where(places > 0, self.ends[places - 1], 0)
            is_inside = at + len(wanted) <= self.ends[places]
            is_found[places[is_inside]] = True
            begins[places[is_inside & (at == starts)]] = True
        others = np.flatnonzero(np.frombuffer(self.utf8, np.uint8) >= 128)  # parts of letters that fold in other ways
        for place in np.unique(self.ends.searchsorted(others, "right")).tolist():
            text = self[place].casefold()
            is_found[place], begins[place] = wanted in text, text.startswith(wanted)
        all_places = np.flatnonzero(is_found)
        return all_places, begins[all_places]

    def _find_ascii(self, wanted: bytes) -> I8:
        """Where these bytes of small letters begin, ascending; perhaps across two texts."""
        lowered = np.frombuffer(bytes(self.utf8).lower(), np.uint8)
        at = np.flatnonzero(lowered[: max(0, len(lowered) - len(wanted) + 1)] == wanted[0])
        for step, byte in enumerate(wanted[1:], 1):
            at = at[lowered[at + step] == byte]
        return at

    def hashes(self) -> U8:
        """64-bit hash of each text: of its length, then of eight bytes at a time. It never changes."""
        hashes = np.empty(len(self), np.uint64)
        for first in range(0, len(self), _CHUNK):
            ends = self.ends[first : first + _CHUNK]
            start = int(self.ends[first - 1]) if first else 0
            hashes[first : first + _CHUNK] = Strings(self.utf8[start : int(ends[-1])], ends - start)._hashes_at_once()
        return hashes

    def _hashes_at_once(self) -> U8:
        ends = self.ends.astype(np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
        left = ends - starts
        mixed = mix(left.astype(np.uint64))
        padded = np.zeros(len(self.utf8) + _WORD, np.uint8)
        padded[: len(self.utf8)] = np.frombuffer(self.utf8, np.uint8)
        words = np.ndarray((len(self.utf8) + 1,), np.dtype("<u8"), padded.data, strides=(1,))
        active = np.flatnonzero(left)
        while len(active):
            word = words[starts[active]] & _FIRST_BYTES[np.minimum(left[active], _WORD)]
            mixed[active] = mix(mixed[active] ^ word)
            starts[active] += _WORD
            left[active] -= _WORD
            active = active[left[active] > 0]
        return mixed

    @property
    def is_empty(self) -> bool:
        """Whether all texts are empty."""
        return not len(self.utf8)

    @property
    def is_ascii(self) -> bool:
        """Whether each character is one byte."""
        return not (np.frombuffer(self.utf8, np.uint8) >= 128).any()

    def has_inside(self, part: str) -> bool:
        """Whether it is in one of the texts, or where two meet."""
        return part.encode() in bytes(self.utf8)

    @property
    def is_constant(self) -> bool:
        """Whether all texts are equal."""
        n, width = len(self), int(self.ends[0]) if len(self) else 0
        if len(self.utf8) != n * width or not np.array_equal(self.ends, np.arange(1, n + 1) * width):
            return False
        return n == 0 or self.utf8 == bytes(self.utf8[:width]) * n


def mix(word: npt.NDArray[Any]) -> U8:
    """One round of splitmix64."""
    mixed: U8 = (word + np.uint64(_STEP)) * np.uint64(_FACTOR)
    return mixed ^ (mixed >> np.uint64(_SHIFT))


def hash_of(text: str) -> int:
    """`Strings.hashes` of one text, without arrays: a hundredth of the time."""
    utf8 = text.encode(errors="replace")  # half a surrogate pair is in no column
    mixed = _mix_one(len(utf8))
    for at in range(0, len(utf8), _WORD):
        mixed = _mix_one(mixed ^ int.from_bytes(utf8[at : at + _WORD], "little"))
    return mixed


def _mix_one(word: int) -> int:
    mixed = (word + _STEP) * _FACTOR & _MASK
    return mixed ^ (mixed >> _SHIFT)
