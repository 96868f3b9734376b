"""How many values JSON text has and how deep it nests, from its bytes: a parser recurses and needs much memory."""

from __future__ import annotations

import re

import numpy as np

PIECE_BYTES = 1024**2
MOST_JSON_DEPTH = 200  # a policy document of depth 64 nests 130 deep
_QUOTE, _COMMA, _LIST, _OBJECT = b'",[{'
_TEXTS_AND_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)


class ValueCounter:
    """Counts values of JSON text, nested ones included, while its pieces arrive.

    Every value but the outermost follows a comma, `[` or `{` outside of strings; an empty list or object counts as two.
    A value has at most two strings, its key and itself. numpy lets other threads run meanwhile.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._n_values = self._n_quotes = 0
        self._unended = b""  # the first half of an escape

    def has_more(self, piece: bytes) -> bool:
        """Whether the text has more than `most` values up to the end of this piece."""
        piece = self._unended + piece
        n_backslashes = len(piece) - len(piece.rstrip(b"\\"))
        self._unended = b"\\" * (n_backslashes % 2)
        if b"\\" in piece:
            piece = piece[: len(piece) - len(self._unended)]
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")  # what is left of quotes begins or ends a string
        values = np.frombuffer(piece, dtype=np.uint8)
        is_quote = values == _QUOTE
        n_before = np.cumsum(is_quote, dtype=np.uint8)  # may overflow: only its parity counts
        is_outside = (n_before + self._n_quotes % 2) & 1 == 0
        begins_value = (values == _COMMA) | (values == _LIST) | (values == _OBJECT)
        self._n_values += int(np.count_nonzero(begins_value & is_outside))
        self._n_quotes += int(np.count_nonzero(is_quote))
        return self._n_values > self._most or self._n_quotes > 4 * (self._most + 1)


def has_more_values(text: bytes, most: int) -> bool:
    """Whether JSON text has more than `most` values."""
    counter = ValueCounter(most)
    return any(counter.has_more(text[i : i + PIECE_BYTES]) for i in range(0, len(text), PIECE_BYTES))


def too_deep_at(text: bytes) -> int | None:
    """The offset of the first bracket that nests deeper than MOST_JSON_DEPTH; None if there is none.

    Also None after a bracket that closes nothing: a parser refuses the text there.
    """
    if text.count(b"[") + text.count(b"{") <= MOST_JSON_DEPTH:  # of most texts, without looking at each string
        return None
    depth = 0
    for match in _TEXTS_AND_BRACKETS.finditer(text):
        first = text[match.start()]
        if first in b"[{":
            depth += 1
            if depth > MOST_JSON_DEPTH:
                return match.start()
        elif first in b"]}":
            depth -= 1
            if depth < 0:
                return None
    return None
