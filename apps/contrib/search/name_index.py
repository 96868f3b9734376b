"""Index of names in one buffer, shortest first, to find the best matches among a million names in one pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import islice

import numpy as np
import numpy.typing as npt

from apps.core.strings import Strings

_SEPARATORS = " -_./:@"
_IS_SEPARATOR = np.isin(np.arange(256), np.frombuffer(_SEPARATORS.encode(), np.uint8))
_WORD_SEPARATOR = re.compile(f"[{re.escape(_SEPARATORS)}]")
_MOST_EXACT = 400  # matching names ranked one by one; more are searched by kind of match, best first
_MOST_SCATTERED = 100_000  # names that are searched for scattered letters
LEAST_SCATTERED = 3  # letters


class Match(IntEnum):
    """How a name matches, best first."""

    BEGINS = 0
    WORD_BEGINS = 1
    CONTAINS = 2
    NOTE = 3
    LETTERS = 4


def fold(text: str) -> str:
    """Return the text in case-folded form, on one line."""
    return " ".join(text.casefold().split())


def match_of(text: str, query: str) -> Match | None:
    """Return how a folded text matches a folded query; None if it doesn't."""
    at = text.find(query)
    if at == 0:
        return Match.BEGINS
    if at > 0:
        words = (separator.end() for separator in _WORD_SEPARATOR.finditer(text))
        return Match.WORD_BEGINS if any(text.startswith(query, word) for word in words) else Match.CONTAINS
    return Match.LETTERS if has_letters(text, query) else None


def has_letters(text: str, query: str) -> bool:
    """Whether the first word contains the query's letters in order; long texts would match nearly every query."""
    return len(query) >= LEAST_SCATTERED and re.match(_letters(query), text) is not None


def _letters(query: str) -> str:
    """Pattern with possessive quantifiers, so that matching takes linear time."""
    return "".join(rf"[^\n {re.escape(letter)}]*+{re.escape(letter)}" for letter in query)


class Hits(list[tuple[int, Match]]):
    """Items of names with their match, best first. n: number of matching names, None if too many to count."""

    n: int | None = 0


def _folded(texts: Strings) -> Strings:
    """Without regard to case, each in one line."""
    if texts.is_ascii and not texts.has_inside("\n"):
        return Strings(bytes(texts.utf8).lower(), texts.ends)
    return Strings.of(text.replace("\n", " ").casefold() for text in texts)


def _lines(texts: Strings) -> bytes:
    """One text a line, with a line break before the first, too."""
    is_text = np.ones(len(texts.utf8) + len(texts) + 1, np.bool_)
    is_text[0] = False
    is_text[texts.ends + np.arange(1, len(texts) + 1)] = False
    lines = np.full(len(is_text), ord("\n"), np.uint8)
    lines[is_text] = np.frombuffer(texts.utf8, np.uint8)
    return lines.tobytes()


class NameIndex:
    """`items[k]` is what the k-th name belongs to; names of equal length stay in order."""

    def __init__(self, names: Sequence[str], items: npt.NDArray[np.int64]) -> None:
        texts = Strings.of(names)
        lengths = np.diff(texts.ends, prepend=0) if texts.is_ascii else np.fromiter(map(len, texts), int, len(texts))
        order = np.argsort(lengths, kind="stable")
        self._items = items[order].astype(np.int32)
        self._text = _lines(_folded(texts.take(order)))
        self._bytes = np.frombuffer(self._text, dtype=np.uint8)
        ends = np.flatnonzero(self._bytes == ord("\n"))
        self._starts: npt.NDArray[np.int32] = (ends[: len(texts)] + 1).astype(np.int32)
        self._words: npt.NDArray[np.int32] = (np.flatnonzero(_IS_SEPARATOR[self._bytes]) + 1).astype(np.int32)

    def __len__(self) -> int:
        return len(self._items)

    def find(self, query: str, *, most: int) -> Hits:
        """Return the best `most` names for a folded query: by match, then length, then original order."""
        hits = Hits()
        needle = query.encode()
        if not needle or not len(self):
            return hits
        lines = list(islice(self._lines(needle), _MOST_EXACT + 1))
        if len(lines) > _MOST_EXACT:
            hits.n = None
            ranked = self._best_by_kind(needle, most)
        else:
            hits.n = len(lines)
            ranked = sorted((match_of(self._name(line), query) or Match.BEGINS, line) for line in lines)[:most]
        if not ranked and len(query) >= LEAST_SCATTERED and len(self) <= _MOST_SCATTERED:
            lines = self._scattered(query)
            ranked, hits.n = [(Match.LETTERS, line) for line in lines[:most]], len(lines)
        hits += [(int(self._items[line]), match) for match, line in ranked]
        return hits

    def _lines(self, needle: bytes) -> Iterator[int]:
        """Yield each line that contains the needle once, in order."""
        at = self._text.find(needle)
        while at >= 0:
            line = self._line_at(at)
            yield line
            if line + 1 >= len(self._starts):
                return
            at = self._text.find(needle, int(self._starts[line + 1]))

    def _scattered(self, query: str) -> list[int]:
        has = re.compile(_letters(query)).match
        return [line for line, name in enumerate(self._text[1:-1].decode().split("\n")) if has(name)]

    def _line_at(self, at: int) -> int:
        # In the array's own type: with any other numpy would convert the whole array each time.
        return int(self._starts.searchsorted(np.int32(at), side="right")) - 1

    def _best_by_kind(self, needle: bytes, most: int) -> list[tuple[Match, int]]:
        """Search one kind of match after the other, so that worse matches are never examined."""
        match_of_line: dict[int, Match] = {}

        def add(match: Match, lines: Iterator[int]) -> None:
            for line in lines:
                if len(match_of_line) >= most:
                    return
                match_of_line.setdefault(line, match)

        add(Match.BEGINS, map(self._line_at, self._positions_of(self._starts, needle)))
        if len(match_of_line) < most:
            add(Match.WORD_BEGINS, map(self._line_at, self._positions_of(self._words, needle)))
        add(Match.CONTAINS, self._lines(needle))
        return [(match, line) for line, match in match_of_line.items()]

    def _positions_of(self, positions: npt.NDArray[np.int32], needle: bytes) -> Iterator[int]:
        """Yield the given positions at which the needle is."""
        for offset, byte in enumerate(needle):
            if not len(positions):
                break
            inside = positions[: np.searchsorted(positions, np.int32(len(self._text) - offset))]
            positions = inside[self._bytes[inside + offset] == byte]
        return map(int, positions)

    def _name(self, line: int) -> str:
        start = int(self._starts[line])
        return self._text[start : self._text.index(b"\n", start)].decode()
