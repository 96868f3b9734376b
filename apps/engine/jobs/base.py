"""The interface of job algorithms, and strict readers for the fields of their cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from apps.engine.case_text import RepeatedKeys, shown
from apps.engine.errors import BadCase


@dataclass(frozen=True)
class CaseField:
    """One field of a case for pages and messages; `default` is None for a required field."""

    name: str
    label: str
    allowed: str
    default: Any = None
    unit: str = ""


@dataclass(frozen=True)
class Term:
    """One summand of a job's priority: its field in the result, and the field of the value that it weights."""

    name: str
    label: str
    weight: str = ""  # the case's field that the value is multiplied by


@dataclass(frozen=True)
class Variant:
    """A variant of a case: `setting` is the value of the case's variant field that selects it."""

    setting: str
    label: str
    changes: str


@dataclass(frozen=True)
class JobAlgorithm:
    """A job algorithm. `solve` is pure: parsed JSON in, JSON out, EngineError with the location.

    formula and reference are texts; pages are drawn from fields, terms and variants. condition: a sentence about the
    site's configuration that the order depends on.
    """

    name: str
    label: str
    formula: str
    reference: str
    fields: tuple[CaseField, ...]
    terms: tuple[Term, ...]
    solve: Callable[[Mapping[str, Any]], dict[str, Any]]
    variants: tuple[Variant, ...] = ()
    condition: str = ""


_REQUIRED = object()
_LONGEST_ID = 400
_MOST_ALLOWED = 40  # names in a message
_REMARKS = ("comment", "description", "note")  # remarks on a case, an owner or a job; not read
# Additional fields of a stored case: its source and measured numbers.
_RECORDS = ("intermediate", "kind", "pending_order", "prj_ok", "section", "source", "tolerance", "totals")


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


def read_jobs(case: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Id, location and fields of every job, in order; ids are returned as text."""
    jobs = case.get("jobs")
    if not isinstance(jobs, list):
        what = "is missing" if jobs is None else f"{shown(jobs)} can't be used"
        raise BadCase(f"{what}; a list of jobs is allowed", place="jobs")
    seen: set[str] = set()
    for index, job in enumerate(jobs):
        place = f"jobs[{index}]"
        if not isinstance(job, dict):
            raise BadCase(f"{shown(job)} can't be used; an object with an id is allowed", place=place)
        job_id = job.get("id")
        is_id = isinstance(job_id, str | int) and not isinstance(job_id, bool) and job_id != ""
        if not is_id or len(text := str(job_id)) > _LONGEST_ID:
            what = "is missing" if "id" not in job else f"{shown(job_id)} can't be used"
            raise BadCase(f"{what}; text or an integer is allowed", place=f"{place}.id")
        if text in seen:
            raise BadCase(f"two jobs have the id {shown(text)}; ids must differ", place=f"{place}.id")
        seen.add(text)
        refuse_repeated(job, f"jobs.{text}")
        yield text, f"jobs.{text}", job


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


def refuse_unknown_in_case(case: Mapping[str, Any], known: Collection[str]) -> None:
    """Reject unknown names at the top level of a case, except remarks, stored results (`expected…`) and notes."""
    inputs = [name for name in case if not (_is_remark(name) or name in _RECORDS or name.startswith("expected"))]
    refuse_unknown(dict.fromkeys(inputs), ("id", "algorithm", *known), "case")


def _is_remark(name: str) -> bool:
    return name in _REMARKS or name.endswith("_note")


def refuse_unknown_fields(entry: Mapping[str, Any], known: Collection[str], place: str) -> None:
    """Reject unknown names of an owner, a job or a node, except remarks."""
    refuse_unknown(dict.fromkeys(name for name in entry if not _is_remark(name)), known, place)


def refuse_repeated(section: Mapping[str, Any], place: str) -> None:
    if isinstance(section, RepeatedKeys):
        raise BadCase("given twice", place=f"{place}.{section.repeated}")


def finite(value: object) -> float | None:
    """The number as a double if it is finite, otherwise None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def plain(value: float) -> str:
    """A number in full precision, without a trailing `.0`."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _range(minimum: float, maximum: float) -> str:
    if math.isinf(maximum):
        return "a finite number" if math.isinf(minimum) else f"a finite number ≥ {minimum:g}"
    return f"a number from {minimum:g} to {maximum:g}"
