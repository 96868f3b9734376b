"""Number of values in JSON text, from its bytes alone: a parser needs a hundred times as long and much memory."""

from __future__ import annotations

import numpy as np

_PIECE_BYTES = 1024**2
_QUOTE, _COMMA, _LIST, _OBJECT = b'",[{'


def has_more_values(text: bytes, most: int) -> bool:
    """Whether JSON text has more than `most` values, nested ones included.

    Every value but the outermost follows a comma, `[` or `{` outside of strings; an empty list or object counts as two.
    A value has at most two strings, its key and itself. numpy lets other threads run meanwhile.
    """
    n_found = n_quotes = 0
    start = 0
    while start < len(text):
        end = _end_of_piece(text, start)
        piece = text[start:end]
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")  # what is left of quotes begins or ends a string
        values = np.frombuffer(piece, dtype=np.uint8)
        is_quote = values == _QUOTE
        n_before = np.cumsum(is_quote, dtype=np.uint8)  # may overflow: only its parity counts
        is_outside = (n_before + n_quotes % 2) & 1 == 0
        begins_value = (values == _COMMA) | (values == _LIST) | (values == _OBJECT)
        n_found += int(np.count_nonzero(begins_value & is_outside))
        n_quotes += int(np.count_nonzero(is_quote))
        if n_found > most or n_quotes > 4 * (most + 1):
            return True
        start = end
    return False


def _end_of_piece(text: bytes, start: int) -> int:
    """End of the piece from `start`, which divides no escape."""
    end = min(start + _PIECE_BYTES, len(text))
    kept = text[start:end].rstrip(b"\\")
    n_backslashes = end - start - len(kept)
    return min(end + n_backslashes % 2, len(text))
