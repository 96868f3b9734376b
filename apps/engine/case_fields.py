"""Fields of a case or a scenario, read with bounds; what is wrong is refused with its place."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from apps.engine.case_text import RepeatedKeys, finite, shown
from apps.engine.errors import BadCase

_REQUIRED = object()
_MOST_ALLOWED = 40  # names in a message


def read_number(
    section: Mapping[str, Any],
    name: str,
    place: str,
    *,
    default: Any = _REQUIRED,
    minimum: float = -math.inf,
    maximum: float = math.inf,
) -> Any:
    """A finite number within a range as a double; the default if the field is absent or null."""
    where = f"{place}.{name}" if place else name
    value = section.get(name)
    if value is None:
        if default is _REQUIRED:
            raise BadCase(f"is missing; {_range(minimum, maximum)} is allowed", place=where)
        return default
    number = finite(value)
    if number is None or not minimum <= number <= maximum:
        raise BadCase(f"{shown(value)} can't be used; {_range(minimum, maximum)} is allowed", place=where)
    return number


def read_integer(section: Mapping[str, Any], name: str, place: str, *, default: int, minimum: int, maximum: int) -> int:
    """An integer within a range; 7.0 counts as one."""
    value = section.get(name)
    if value is None:
        return default
    number = finite(value)
    if number is None or not number.is_integer() or not minimum <= number <= maximum:
        raise BadCase(
            f"{shown(value)} can't be used; an integer from {minimum} to {maximum} is allowed", place=f"{place}.{name}"
        )
    return int(value)


def read_flag(section: Mapping[str, Any], name: str) -> bool:
    """True or false; false if it is absent."""
    value = section.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise BadCase(f"{shown(value)} can't be used; true or false is allowed", place=name)
    return value


def read_table(section: Mapping[str, Any], name: str, *, is_required: bool = False) -> dict[str, Any]:
    """An object of names and values; empty if it is absent and optional."""
    value = section.get(name)
    if value is None and not is_required:
        return {}
    if not isinstance(value, dict):
        what = "is missing" if value is None else f"{shown(value)} can't be used"
        raise BadCase(f"{what}; an object of names and numbers is allowed", place=name)
    refuse_repeated(value, name)
    return value


def read_list(section: Mapping[str, Any], name: str) -> list[Any]:
    """A list; empty if it is absent."""
    value = section.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadCase(f"{shown(value)} can't be used; a list is allowed", place=name)
    return value


def refuse_unknown(
    section: Mapping[str, Any], known: Collection[str], place: str, *, without_effect: Collection[str] = ()
) -> None:
    """Reject the first unknown name, and suggest the nearest known one.

    known: names that are read. without_effect: names that the scheduler knows and this computation doesn't need.
    """
    unknown = [name for name in section if name not in known and name not in without_effect]
    if not unknown:
        return
    name = min(unknown)
    near = get_close_matches(name, [*known, *without_effect], n=1)
    names = sorted(known)[:_MOST_ALLOWED]
    allowed = f"the nearest allowed name is {near[0]}" if near else f"allowed are {', '.join(names)}"
    raise BadCase(f"unknown name {shown(name)}; {allowed}", place=place)


def refuse_repeated(section: Mapping[str, Any], place: str) -> None:
    if isinstance(section, RepeatedKeys):
        raise BadCase("given twice", place=f"{place}.{section.repeated}")


def _range(minimum: float, maximum: float) -> str:
    if math.isinf(maximum):
        return "a finite number" if math.isinf(minimum) else f"a finite number ≥ {minimum:g}"
    return f"a number from {minimum:g} to {maximum:g}"
