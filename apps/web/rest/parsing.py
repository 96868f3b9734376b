"""Strict JSON parsing: duplicate keys, infinite numbers and unstorable texts are rejected with their location."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import IO, Any, Protocol

from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from apps.core.errors import FieldProblem
from apps.core.json_values import MOST_JSON_DEPTH, PIECE_BYTES, ValueCounter, too_deep_at
from apps.web.rest.body_limits import Limit, limit_of
from apps.web.rest.errors import Refusal

MOST_JSON_DIGITS = 19

# Characters that can't be stored can only be written as escapes, since raw control characters are invalid.
_ESCAPED = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class _Bad:
    """Placeholder for a rejected value, until its location is known."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message


def loads(body: bytes) -> Any:
    """Parse one JSON document, whose values `read_json` has counted.

    Raises:
        Refusal: 400 with the location; codes bad_json, bad_text, too_deep, not_finite, number_too_long, duplicate_key.
    """
    if (at := too_deep_at(body)) is not None:
        raise _refusal("too_deep", f"byte {at}", f"nests deeper than {MOST_JSON_DEPTH}.")
    problems: list[_Bad] = []
    try:
        data = _decoder(problems).decode(body.decode())
    except UnicodeDecodeError as error:
        raise _refusal("bad_json", f"byte {error.start}", "is not UTF-8.") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _refusal("bad_json", place, f"is not JSON: {error.msg}.") from error
    if problems or _ESCAPED.search(body):
        for where, bad in _bad_values(data):
            raise _refusal(bad.code, where, bad.message)
    return data


def _refusal(code: str, where: str, message: str) -> Refusal:
    return Refusal(f"The body {message} ({where})", code=code, fields=[FieldProblem(where, f"The body {message}")])


def _decoder(problems: list[_Bad]) -> json.JSONDecoder:
    def bad(code: str, message: str) -> _Bad:
        problems.append(_Bad(code, message))
        return problems[-1]

    def number(text: str) -> float | _Bad:
        value = float(text)
        return value if math.isfinite(value) else bad("not_finite", f"has {text[:20]}, which is no finite number.")

    def whole(text: str) -> int | _Bad:
        too_long = len(text.lstrip("-")) > MOST_JSON_DIGITS
        return bad("number_too_long", f"has a number of {len(text)} digits.") if too_long else int(text)

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        data = dict(items)
        if len(data) < len(items):
            seen: set[str] = set()
            twice = next(name for name, _ in items if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            data[twice] = bad("duplicate_key", f"has the key {twice[:60]!r} twice in one object.")
        return data

    return json.JSONDecoder(
        object_pairs_hook=pairs,
        parse_constant=lambda text: bad("not_finite", f"has {text}, which is no JSON."),
        parse_float=number,
        parse_int=whole,
    )


def _bad_values(data: Any) -> Iterator[tuple[str, _Bad]]:
    """Rejected values with their locations, in document order."""
    waiting: list[tuple[str, Any]] = [("", data)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, _Bad):
            yield where or "body", value
        elif isinstance(value, str) and _UNSTORABLE.search(value):
            yield where or "body", _Bad("bad_text", "has a NUL or an unpaired surrogate in a text.")
        elif isinstance(value, dict):
            if any(_UNSTORABLE.search(name) for name in value):
                yield where or "body", _Bad("bad_text", "has a NUL or an unpaired surrogate in a key.")
            waiting += [(f"{where}.{name}" if where else name, inner) for name, inner in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [(f"{where}[{i}]", value[i]) for i in range(len(value) - 1, -1, -1)]


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_bounded(stream: Readable, limit: Limit) -> bytes:
    """Read the body into memory; 413 if it is longer than the limit."""
    body = stream.read(limit.n_bytes + 1)
    if len(body) > limit.n_bytes:
        raise Refusal(limit.bytes_refusal, code="too_large", status=413)
    return body


def read_json(stream: Readable, limit: Limit) -> bytes:
    """As `read_bounded`; the rest is left unread as soon as there are more values than the limit."""
    counter, pieces, n_bytes = ValueCounter(limit.n_values), [], 0
    while piece := stream.read(PIECE_BYTES):
        pieces.append(piece)
        n_bytes += len(piece)
        if n_bytes > limit.n_bytes:
            raise Refusal(limit.bytes_refusal, code="too_large", status=413)
        if counter.has_more(piece):
            raise Refusal(limit.values_refusal, code="too_large", status=413)
    return b"".join(pieces)


def limit_in(parser_context: Mapping[str, Any] | None) -> Limit:
    """The limit of the route whose body a parser reads."""
    request: Request = (parser_context or {})["request"]
    return limit_of(request.path_info)


class StrictJSONParser(BaseParser):
    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        request: Request = (parser_context or {})["request"]
        encoding = request.headers.get("Content-Encoding", "identity")
        if encoding.strip().lower() not in ("", "identity"):
            message = f"Content-Encoding {encoding[:40]} is supported for usage records only: send the body plain."
            raise Refusal(message, code="unsupported_encoding", status=415)
        limit = limit_in(parser_context)
        return self.load(read_json(stream, limit))

    def load(self, body: bytes) -> Any:
        return loads(body)


class TextParser(BaseParser):
    """Leave the text of a file unparsed, for a format that reports lines and paths of errors."""

    media_type = "*/*"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        return read_bounded(stream, limit_in(parser_context))
