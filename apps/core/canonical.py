"""Canonical JSON (RFC 8785): every value has one form, and only this form is read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import orjson
import rfc8785

from apps.core.errors import FieldProblem, Invalid
from apps.core.json_values import MOST_JSON_DEPTH, too_deep_at

MOST_DOCUMENT_VALUES = 12_000_000  # limits of a document's bytes, and of its lists and objects, to bound memory
MOST_NESTS = 2_500_000
_LARGEST_WHOLE = 2**53  # larger integers aren't exact in doubles; RFC 8785 requires I-JSON
_TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


class BadDocument(Invalid):
    """The data is not a valid signed document, or not from the claimed authority."""

    code = "bad_document"


def canonical(value: Any) -> bytes:
    """Encode by RFC 8785: keys in order of their UTF-16 units, no blanks, numbers as in ECMAScript.

    Raises:
        BadDocument: NaN, infinity, integers of more than 53 bits, unpaired surrogates, values that aren't JSON.
    """
    try:
        return rfc8785.dumps(_portable(value, 0))
    except ValueError as error:  # of rfc8785, and of keys with half a character pair
        raise BadDocument(f"It has no canonical form: {error}.") from error


def read_canonical(body: bytes, where: str) -> dict[str, Any]:
    """Read one object from canonical bytes, and reject all others.

    Raises:
        BadDocument: code not_canonical, naming the first byte that differs.
    """
    _refuse_size(body, where)
    try:
        document = orjson.loads(body)
        again = canonical(document)
    except BadDocument as error:
        raise bad(where, error.message) from error
    except ValueError as error:
        raise bad(where, f"is no JSON: {error}") from error
    if again != body:
        at = next((i for i, (a, b) in enumerate(zip(again, body, strict=False)) if a != b), min(len(again), len(body)))
        raise bad(f"{where}, byte {at + 1}", "isn't canonical JSON: blanks, order, numbers or a key that comes twice")
    if not isinstance(document, dict):
        raise bad(where, "is no object")
    return document


def _portable(value: Any, depth: int) -> Any:
    """The value in types that rfc8785 writes, without numbers that another program may read differently."""
    if isinstance(value, int | float) and _LARGEST_WHOLE <= abs(value) < math.inf:  # rfc8785 refuses NaN and infinity
        if abs(value) > _LARGEST_WHOLE:
            raise BadDocument(f"{value} has more than 53 bits: write it as text.")
        return float(value)  # rfc8785 takes 2^53 as a double
    if depth > MOST_JSON_DEPTH:
        raise BadDocument(f"It nests deeper than {MOST_JSON_DEPTH}.")
    if isinstance(value, list | tuple):
        return [_portable(each, depth + 1) for each in value]
    if isinstance(value, Mapping):
        return {name: _portable(each, depth + 1) for name, each in value.items()}
    return value


def _refuse_size(body: bytes, where: str) -> None:
    """Reject many values and deep nesting before parsing, because parsers recurse and use unbounded memory."""
    shape = _TEXTS.sub(b"", body)
    n_nests = shape.count(b"[") + shape.count(b"{")
    if n_nests > MOST_NESTS or n_nests + shape.count(b",") > MOST_DOCUMENT_VALUES:
        raise bad(where, f"has more than {MOST_DOCUMENT_VALUES:,} values, or {MOST_NESTS:,} lists and objects")
    if (at := too_deep_at(body)) is not None:
        raise bad(f"{where}, byte {at + 1}", f"nests deeper than {MOST_JSON_DEPTH}")


def bad(where: str, message: str) -> BadDocument:
    code = "not_canonical" if "canonical" in message else None
    return BadDocument(f"{where}: {message}.", code=code, fields=[FieldProblem(where, message)])
