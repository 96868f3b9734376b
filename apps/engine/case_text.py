"""Read cases from JSON text; a case that can't be read becomes a BadCase in its position, never a crash."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from apps.engine.errors import BadCase
from apps.engine.tree import MAX_DEPTH

_LONGEST_PLACE = 200  # longest location in a message, in characters
_STRING = r'"(?:[^"\\]|\\.)*+"'
_TOKEN = re.compile(rf"{_STRING}|\".*|[\[\]{{}},:]", re.DOTALL)  # a string that isn't closed is the last token


class RepeatedKeys(dict[str, Any]):
    """A JSON object with a duplicate key, whose meaning is ambiguous."""

    repeated: str


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) == len(pairs):
        return table
    seen: set[str] = set()
    twice = RepeatedKeys(table)
    twice.repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return twice


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 400 else math.copysign(math.inf, -1 if digits[0] == "-" else 1)


def read_cases(text: str) -> list[Any]:
    """Read the cases of a JSON text, a list or a single case.

    A case that is nested too deeply becomes a BadCase. NaN, Infinity and 1e999 are read as such, so that the error
    names the case that has them. Raises BadCase if the text isn't JSON.
    """
    try:
        cases = _parse(text)
    except RecursionError:
        return [_parse_or_refuse(part) for part in _top_level_parts(text)]
    return cases if isinstance(cases, list) else [cases]


def _parse(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer)
    except json.JSONDecodeError as problem:
        raise BadCase(f"no JSON: {problem.msg} at line {problem.lineno}, column {problem.colno}") from None


def _parse_or_refuse(part: str) -> Any:
    try:
        return _parse(part)
    except RecursionError:
        place = f"nested {_deepest(part)} deep"
        return BadCase(f"{place}; a policy has at most {MAX_DEPTH} levels", case_id=_outer_id(part))
    except BadCase as problem:
        return problem


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield strings, brackets, commas and colons with their depth and offset."""
    depth = 0
    for match in _TOKEN.finditer(text):
        mark = match[0]
        depth -= mark in "]}"
        yield mark, depth, match.start()
        depth += mark in "[{"


def _top_level_parts(text: str) -> list[str]:
    """Split a list that is too deep for the parser into the texts of its elements; other text is returned whole."""
    if not text.lstrip().startswith("["):
        return [text]
    cuts = [at for mark, depth, at in _tokens(text) if (mark == "," and depth == 1) or (mark == "]" and depth == 0)]
    start, parts = text.index("[") + 1, []
    for cut in cuts or [len(text)]:
        parts.append(text[start:cut])
        start = cut + 1
    return parts


def _deepest(text: str) -> int:
    return max(depth for _, depth, _ in _tokens(text)) + 1


def _outer_id(text: str) -> str | None:
    """The `id` of an object that is too deep to be parsed."""
    match = re.compile(rf"\s*+({_STRING})", re.DOTALL)
    for mark, depth, at in _tokens(text):
        if mark == '"id"' and depth == 1:
            value = match.match(text, text.find(":", at) + 1)
            return json.loads(value[1]) if value else None
    return None


def name_of(case: object, index: int) -> str:
    """Name of the case in errors: its id, otherwise its index."""
    case_id = case.case_id if isinstance(case, BadCase) else case.get("id") if isinstance(case, dict) else None
    is_named = isinstance(case_id, str | int | float) and not isinstance(case_id, bool) and case_id != ""
    return abbreviate(str(case_id)) if is_named else str(index)


def abbreviate(text: str) -> str:
    """Shorten a location to its head and tail if it is too long for a line."""
    half = _LONGEST_PLACE // 2
    return text if len(text) <= _LONGEST_PLACE else f"{text[:half]}…{text[-half:]}"


def read_id(value: object) -> str | int | float | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadCase("must be text or a number", place="id")
    return value


def finite(value: object) -> float | None:
    """The number as a double if it is finite, otherwise None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def weight(value: object) -> float | None:
    """The number as a double if it is finite and not negative, otherwise None."""
    number = finite(value)
    return number if number is not None and number >= 0 else None


def shown(value: object) -> str:
    """A value as in the JSON text, truncated if it is very long."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return "beyond the largest number"
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:50]}…"
