"""The interface of job algorithms, and what is the same in all of their cases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apps.engine.case_fields import refuse_repeated, refuse_unknown
from apps.engine.case_text import shown
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


_LONGEST_ID = 400
_REMARKS = ("comment", "description", "note")  # remarks on a case, an owner or a job; not read
# Additional fields of a stored case: its source and measured numbers.
_RECORDS = ("intermediate", "kind", "pending_order", "prj_ok", "section", "source", "tolerance", "totals")


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


def refuse_unknown_in_case(case: Mapping[str, Any], known: Collection[str]) -> None:
    """Reject unknown names at the top level of a case, except remarks, stored results (`expected…`) and notes."""
    inputs = [name for name in case if not (_is_remark(name) or name in _RECORDS or name.startswith("expected"))]
    refuse_unknown(dict.fromkeys(inputs), ("id", "algorithm", *known), "case")


def _is_remark(name: str) -> bool:
    return name in _REMARKS or name.endswith("_note")


def refuse_unknown_fields(entry: Mapping[str, Any], known: Collection[str], place: str) -> None:
    """Reject unknown names of an owner, a job or a node, except remarks."""
    refuse_unknown(dict.fromkeys(name for name in entry if not _is_remark(name)), known, place)


def plain(value: float) -> str:
    """A number in full precision, without a trailing `.0`."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
