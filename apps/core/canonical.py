"""Canonical JSON (RFC 8785): every value has one form, and only this form is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import rfc8785

from apps.core.errors import FieldProblem, Invalid

MOST_DEPTH = 200
MOST_VALUES = 12_000_000  # limits of a document's bytes, and of its lists and objects, to bound memory
MOST_NESTS = 2_500_000
_MOST_WHOLE = 2**53  # larger integers aren't exact in doubles; RFC 8785 requires I-JSON
_LONG = 32  # length of a list from which on numpy is faster
_SMALL = 1e-4  # below this, Python writes an exponent where RFC 8785 doesn't
_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
_TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_BEYOND_BMP = re.compile(rb"[\xf0-\xff]")
# numbers that programs write in several ways
_ODD_NUMBER = re.compile(rb"(?<![.0-9])[0-9]{16}|[0-9.][eE]|\.0(?![0-9])")


class BadDocument(Invalid):
    """The data is not a valid signed document, or not from the claimed authority."""

    code = "bad_document"


def canonical(value: Any) -> bytes:
    """Encode by RFC 8785: keys in order of their UTF-16 units, no blanks, numbers as in ECMAScript.

    Raises:
        BadDocument: NaN, infinity, integers of more than 53 bits, unpaired surrogates, values that aren't JSON.
    """
    differing: list[float] = []
    plain = _plain(value, differing, 0)
    return rfc8785.dumps(plain) if differing else orjson.dumps(plain)  # orjson is faster


def read_canonical(body: bytes, where: str) -> dict[str, Any]:
    """Read one object from canonical bytes, and reject all others.

    Raises:
        BadDocument: code not_canonical, naming the first byte that differs.
    """
    shape = _TEXTS.sub(b"", body)
    _refuse_depth(body, shape, where)
    document = _read_plainly(body, shape)
    if document is None:
        document = _read_carefully(body, where)
    if not isinstance(document, dict):
        raise bad(where, "is no object")
    return document


def _read_plainly(body: bytes, shape: bytes) -> Any:
    """Fast path: the value of canonical bytes; None if that isn't certain without checking every value.

    It is certain if encoding the value again gives these bytes, and it has no key or number that RFC 8785 orders or
    writes differently. shape: the bytes without their texts.
    """
    if _BEYOND_BMP.search(body) or _ODD_NUMBER.search(shape):
        return None
    try:
        document = orjson.loads(body)
        return document if orjson.dumps(document, option=orjson.OPT_SORT_KEYS) == body else None
    except (ValueError, TypeError, RecursionError):
        return None


def _read_carefully(body: bytes, where: str) -> Any:
    try:
        document = orjson.loads(body)
        again = canonical(document)
    except (ValueError, RecursionError) as error:
        raise bad(where, f"is no JSON: {error}") from error
    except BadDocument as error:
        raise bad(where, error.message) from error
    if again != body:
        at = next((i for i, (a, b) in enumerate(zip(again, body, strict=False)) if a != b), min(len(again), len(body)))
        raise bad(f"{where}, byte {at + 1}", "isn't canonical JSON: blanks, order, numbers or a key that comes twice")
    return document


def _plain(value: Any, differing: list[float], depth: int) -> Any:
    """Sort keys and convert numbers to their encoded form; collect numbers that orjson writes differently."""
    kind = type(value)
    if kind is str:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise BadDocument("A text has half a character pair.") from error
        return value
    if kind is int:
        return _plain_whole(value, differing)
    if value is None or kind is bool:
        return value
    if kind is float:
        return _plain_float(value, differing)
    if depth > MOST_DEPTH:
        raise BadDocument(f"It nests deeper than {MOST_DEPTH}.")
    if isinstance(value, list | tuple):
        numbers = _plain_numbers(value) if len(value) >= _LONG else None
        return [_plain(inner, differing, depth + 1) for inner in value] if numbers is None else numbers
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise BadDocument("Keys of an object must be texts.")
        names = sorted(value, key=_utf16)
        return {_plain(name, differing, depth): _plain(value[name], differing, depth + 1) for name in names}
    raise BadDocument(f"{kind.__name__} has no form in JSON.")


def _plain_numbers(values: Sequence[Any]) -> list[Any] | None:
    """A long list of numbers, with the result of `_plain`; None if one of them has to be checked individually."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return list(values) if min(values) > -_MOST_WHOLE and max(values) < _MOST_WHOLE else None
    if not kinds <= {int, float}:
        return None
    try:
        numbers = np.array(values, np.float64)
    except OverflowError:
        return None
    sizes = np.abs(numbers)
    is_whole = numbers == np.rint(numbers)
    if not (sizes < _MOST_WHOLE).all() or ((sizes < _SMALL) & ~is_whole).any():  # also false for NaN
        return None
    if is_whole.all():
        return list(numbers.astype(np.int64).tolist())
    plain = list(values)
    places = np.flatnonzero(is_whole)
    for at, whole in zip(places.tolist(), numbers[places].astype(np.int64).tolist(), strict=True):
        plain[at] = whole
    return plain


def _plain_float(value: float, differing: list[float]) -> int | float:
    if value != value or value in (float("inf"), float("-inf")):
        raise BadDocument("NaN and infinity have no form in JSON.")
    if value.is_integer():
        return _plain_whole(int(value), differing)
    if abs(value) < _SMALL:
        differing.append(value)
    return value


def _plain_whole(value: int, differing: list[float]) -> int | float:
    if abs(value) < _MOST_WHOLE:
        return value
    if abs(value) > _MOST_WHOLE:
        raise BadDocument(f"{value} has more than 53 bits: write it as text.")
    differing.append(value)
    return float(value)  # rfc8785 accepts integers up to 2^53 − 1, and 2^53 as a double


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def _refuse_depth(body: bytes, shape: bytes, where: str) -> None:
    """Reject deep nesting before parsing, because parsers recurse and use unbounded memory.

    shape: without its texts.
    """
    n_nests = shape.count(b"[") + shape.count(b"{")
    if n_nests > MOST_NESTS or n_nests + shape.count(b",") > MOST_VALUES:
        raise bad(where, f"has more than {MOST_VALUES:,} values, or {MOST_NESTS:,} lists and objects")
    if n_nests <= MOST_DEPTH:
        return
    brackets = np.frombuffer(shape.translate(None, _NO_BRACKETS), dtype=np.uint8)
    steps = np.where((brackets == ord("[")) | (brackets == ord("{")), 1, -1)
    if int(np.cumsum(steps).max()) > MOST_DEPTH:
        raise bad(f"{where}, byte {_too_deep(body)}", f"nests deeper than {MOST_DEPTH}")


def _too_deep(body: bytes) -> int:
    depth = 0
    for match in _BRACKETS.finditer(body):
        first = body[match.start()]
        depth += (first in b"[{") - (first in b"]}")
        if depth > MOST_DEPTH:
            return match.start() + 1
    return len(body)


def bad(where: str, message: str) -> BadDocument:
    code = "not_canonical" if "canonical" in message else None
    return BadDocument(f"{where}: {message}.", code=code, fields=[FieldProblem(where, message)])
