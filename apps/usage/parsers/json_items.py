"""Iterate over the items of one array in a JSON document of any length; the array may be the document itself.

Only one item is in memory at a time, and none over a size limit. Here only the end of each item is found, by counting
brackets outside strings; orjson parses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import orjson

MOST_ITEM_BYTES = 16 * 1024**2  # a job with its 2,000 steps, or with each core of its hosts, has 9 MB
MOST_SKIPPED_BYTES = 64 * 1024**2  # of an item over the limit; a longer one ends the reading
_READ = 256 * 1024
_HEAD = 1024
_SHOWN = 80
_LONGEST_KEY = 80
_MOST_GUESSES = 8
_MOST_ITEM_DEPTH = 500  # Slurm's documents need ten
_TOO_DEEP = f"It is nested more than {_MOST_ITEM_DEPTH} deep"
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRING_REST = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["{}\[\]]', re.DOTALL)
_MARK = re.compile(rb'["{}\[\]]')
_SCALAR = re.compile(rb"[^\s,\]}]+")
_BLANK = re.compile(rb"[\s,]*+")


class Item(NamedTuple):
    """One item: number from 1, bytes (only the first of an item over the limit), and position of its end."""

    number: int
    data: bytes
    is_whole: bool
    end_offset: int


class _Broken(Exception):
    pass


class JsonItems:
    """Iterates over the items of `{…, "name": [ … ], …}`, or with an empty name over those of `[ … ]`; afterwards
    `problem` and `others` describe the rest.

    problem: why reading stopped before the end of the document, or "". others: small values of other names. `offset`
    and `number` resume after an earlier item.
    """

    def __init__(self, stream: BinaryIO, name: str, *, offset: int = 0, number: int = 0) -> None:
        self._stream = stream
        self._name = name
        self._buffer = b""
        self._at = 0
        self._base = offset  # position of the buffer's first byte in the document
        self._is_over = False
        self._number = number
        self._last = 0  # limit for the end of a skipped item
        self.problem = ""
        self.was_found = number > 0
        self.others: dict[str, Any] = {}

    def __iter__(self) -> Iterator[Item]:
        try:
            if not self._number:
                self._open()
            if not self._name:
                self.was_found = True
                yield from self._items()
            while self._name and (self._number or self._next_name()):
                yield from self._items()
                self._number = 0
            if self._peek():
                follows = self._buffer[self._at : self._at + _SHOWN].decode("utf-8", "replace").split("\n")[0]
                raise _Broken(f"{follows!r} follows the document")
        except _Broken as broken:
            self.problem = f"{broken} (byte {self.offset})."

    @property
    def offset(self) -> int:
        return self._base + self._at

    def _fill(self) -> bool:
        """Read more, doubling the buffer; False at the end of the document."""
        data = b"" if self._is_over else self._stream.read(max(_READ, len(self._buffer) - self._at))
        self._base += self._at
        self._buffer, self._at = self._buffer[self._at :] + data, 0
        self._is_over = not data
        return bool(data)

    def _peek(self) -> bytes:
        """The next byte other than blanks and commas; empty at the end."""
        while True:
            match = _BLANK.match(self._buffer, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._buffer):
                return self._buffer[self._at : self._at + 1]
            if not self._fill():
                return b""

    def _open(self) -> None:
        self._fill()
        if self._buffer.startswith(b"\xef\xbb\xbf"):
            self._at = 3
        if self._peek() != (b"{" if self._name else b"["):
            raise _Broken(f"It is not a JSON {'object' if self._name else 'array'}")
        self._at += 1

    def _next_name(self) -> bool:
        """Advance to the array, storing other small values on the way; False at the end."""
        while (mark := self._peek()) == b'"':
            name = self._text()
            if self._peek() != b":":
                raise _Broken(f"A colon is missing after {name[:40]!r}")
            self._at += 1
            mark = self._peek()
            if name == self._name and mark == b"[":
                self._at += 1
                self.was_found = True
                return True
            data, is_whole = self._value()
            if is_whole and len(data) <= _READ:
                self.others[name] = _loaded(data)
        if mark != b"}":
            raise _Broken("It ends in the middle" if not mark else "It is broken")
        self._at += 1
        return False

    def _text(self) -> str:
        data, is_whole = self._value()
        value = _loaded(data) if is_whole else None
        if not isinstance(value, str):
            raise _Broken("A name is broken")
        return value

    def _items(self) -> Iterator[Item]:
        while (mark := self._peek()) != b"]":
            if not mark:
                raise _Broken("It ends in the middle")
            if mark in b"}:":
                raise _Broken("It is broken")
            data, is_whole = self._value()
            if is_whole and mark not in b'{["' and data != b"null" and _loaded(data) is None:
                raise _Broken(f"{data[:40]!r} is not JSON")
            self._number += 1
            yield Item(self._number, data, is_whole, self.offset)
        self._at += 1

    def _value(self) -> tuple[bytes, bool]:
        """The bytes of the value at the current position; of one over the limit only the first, and the rest is
        skipped.
        """
        while (end := self._end()) < 0:
            if len(self._buffer) - self._at > MOST_ITEM_BYTES:
                head = self._buffer[self._at : self._at + _HEAD]
                if head[:1] not in b'{["':
                    raise _Broken(f"A number or word of over {MOST_ITEM_BYTES // 1024**2} MB is not JSON")
                self._skip()
                return head, False
            if not self._fill():
                raise _Broken("It ends in the middle")
        data = self._buffer[self._at : end]
        self._at = end
        return (data, True) if len(data) <= MOST_ITEM_BYTES else (data[:_HEAD], False)

    def _end(self) -> int:
        """Position behind the value at the current position; −1 if the buffer doesn't contain its end."""
        buffer, at = self._buffer, self._at
        mark = buffer[at : at + 1]
        if mark == b'"':
            match = _STRING.match(buffer, at)
            return match.end() if match else -1
        if mark not in (b"{", b"["):
            match = _SCALAR.match(buffer, at)
            if match is None:
                raise _Broken("It is broken")
            return match.end() if match.end() < len(buffer) or self._is_over else -1
        for guess in (self._end_by_indent, self._end_by_next) if mark == b"{" else ():
            end = guess()
            if end > 0:
                return end
        return self._end_by_count()

    def _end_by_indent(self) -> int:
        """Fast path for indented documents: strings contain no line breaks, so `}` at the item's indent ends it."""
        start = self._buffer.rfind(b"\n", max(self._at - 80, 0), self._at)
        indent = self._buffer[start : self._at]
        if start < 0 or indent.strip() or len(indent) < 2:
            return -1
        brace = self._buffer.find(indent + b"}", self._at)
        if brace < 0:
            return -1
        end = brace + len(indent) + 1
        return end if _loaded(self._buffer[self._at : end]) is not None else -1

    def _end_by_next(self) -> int:
        """Fast path for documents without indents: the next item begins with the same name as this one.

        The text before it is the item if it is valid JSON: no object is a prefix of another.
        """
        colon = self._buffer.find(b":", self._at, self._at + _LONGEST_KEY)
        start, at = self._buffer[self._at : colon + 1], self._at
        for _ in range(_MOST_GUESSES if start.startswith(b'{"') else 0):
            at = self._buffer.find(start, at + 1)
            end = self._buffer.rfind(b"}", at - 3, at) + 1
            if at < 0:
                return -1
            if end and _loaded(self._buffer[self._at : end]) is not None:
                return end
        return -1

    def _end_by_count(self) -> int:
        depth = 0
        for match in _TOKEN.finditer(self._buffer, self._at):
            token = match[0]
            if token in b"{[":
                depth += 1
                if depth > _MOST_ITEM_DEPTH:
                    raise _Broken(_TOO_DEEP)
            elif token in b"}]":
                depth -= 1
                if not depth:
                    return match.end()
            elif token == b'"':  # an unterminated string
                return -1
        return -1

    def _skip(self) -> None:
        """Skip a value of any length without storing it."""
        depth, in_string, is_text = 0, False, self._buffer[self._at : self._at + 1] == b'"'
        self._last = self.offset + MOST_SKIPPED_BYTES
        while True:
            if in_string:
                rest = _STRING_REST.match(self._buffer, self._at)
                self._at = rest.end() if rest else self._at
                if self._buffer[self._at : self._at + 1] == b'"':
                    self._at += 1
                    in_string = False
                    if is_text:
                        return
                else:
                    self._fill_skipping()
                continue
            match = _MARK.search(self._buffer, self._at)
            if match is None:
                self._at = len(self._buffer)
                self._fill_skipping()
                continue
            self._at = match.end()
            if match[0] == b'"':
                in_string = True
            else:
                depth += 1 if match[0] in b"{[" else -1
                if depth <= 0:
                    return
                if depth > _MOST_ITEM_DEPTH:
                    raise _Broken(_TOO_DEEP)

    def _fill_skipping(self) -> None:
        if self.offset > self._last:
            raise _Broken(f"One item is longer than {MOST_SKIPPED_BYTES // 1024**2} MB")
        if not self._fill():
            raise _Broken("It ends in the middle")


def _loaded(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
