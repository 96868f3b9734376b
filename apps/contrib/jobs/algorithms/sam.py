"""SAM's queue: a job is put at the front or the back by its group's usage; priority groups precede both."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.contrib.jobs.algorithms.base import (
    CaseField,
    JobAlgorithm,
    Term,
    plain,
    read_jobs,
    refuse_unknown_fields,
    refuse_unknown_in_case,
)
from apps.contrib.jobs.algorithms.benefits import BENEFITS, Benefit, read_benefit
from apps.engine.case_fields import read_number, read_table, refuse_unknown
from apps.engine.case_text import shown
from apps.engine.errors import BadCase

TIE = 1e-12  # relative; without it, decimal benefits would miss an exact equality
NO_AGING = (
    "The scheduler must order jobs by this priority only. With job ageing, jobs at the back overtake, and groups miss "
    "their shares."
)
_LATER = "later"
_AT_ONCE = "at_once"
_HUGE, _HUGE_UNIT = 1e280, 2.0**80

_FIELDS = (
    CaseField("shares", "Shares", "an object of groups and numbers ≥ 0; normalised to sum 1"),
    CaseField("benefit", "Received so far", "an object of groups and numbers ≥ 0", default={}),
    CaseField("running", "Running now", "as benefit, in its place where the function counts what runs", default={}),
    CaseField("priority_groups", "Priority groups", "an object of groups and priorities above p_front", default={}),
    CaseField("p_front", "Priority of the front", "a finite number", default=1),
    CaseField("p_back", "Priority of the back", "a finite number below p_front", default=0),
    CaseField("booked", "Booked", f'"{_AT_ONCE}" or "{_LATER}"', default=_AT_ONCE),
    CaseField(
        "algorithm.benefit",
        "Benefit function",
        'the name of one, or weights such as {"cpu_s": 2, "data_gb": 3}; else each job gives its benefit',
    ),
    CaseField("jobs", "Jobs", "a list with id, group and benefit (or what the benefit function needs)"),
)
_TOP = tuple(field.name for field in _FIELDS if "." not in field.name)


def fraction_after(received: float, total: float, benefit: float) -> float:
    """(B[g] + b) / (ΣB + b): the group's part of all benefit after this job is booked; 1 if all are 0.

    received: the group's cumulative benefit. total: that of all fair-share groups, received included. benefit: the
    job's. All ≥ 0 in one unit. Source: the SAM note, with the allocation read as a fraction of the whole.
    """
    after = total + benefit
    return (received + benefit) / after if after > 0 else 1.0


def goes_to_front(fraction: float, share: float) -> bool:
    """Whether the group stays below its share with this job; on equality (1e-12 relative) the job goes to the back."""
    return share - fraction > TIE * max(share, fraction)


@dataclass
class Ledger:
    """Benefit received by the fair-share groups so far; `booked`: the part booked in this case.

    shares: fractions of the whole, sum 1 (or all 0). Amounts are multiples of `unit`, so that sums stay finite.
    """

    shares: dict[str, float]
    received: dict[str, float]
    total: float
    unit: float = 1.0
    before: dict[str, float] = field(init=False)
    booked: dict[str, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.before = dict(self.received)

    def decide(self, group: str, benefit: float) -> tuple[bool, float]:
        """Whether the job goes to the front, and the fraction that decided; books nothing.

        Without a share it goes to the back.
        """
        fraction = fraction_after(self.received.get(group, 0.0), self.total, benefit)
        return goes_to_front(fraction, self.shares.get(group, 0.0)), fraction

    def book(self, group: str, benefit: float) -> None:
        self.received[group] = self.received.get(group, 0.0) + benefit
        self.booked[group] = self.booked.get(group, 0.0) + benefit
        self.total += benefit

    def statement(self, *, unit_name: str, is_held: bool) -> dict[str, Any]:
        """Benefit by group in its own unit: before this case, booked by it, after it, and owed.

        fraction: of all benefit, null without any. owed: share · total − after; negative for a group above its share.
        next: the input field of a case that continues from here.
        """
        groups = {group: self._of(group) for group in dict.fromkeys([*self.shares, *self.received])}
        after = {group: each["after"] for group, each in groups.items()}
        return {
            "unit": unit_name,
            "total": self.amount(self.total),
            "groups": groups,
            "next": {"running" if is_held else "benefit": after},
        }

    def _of(self, group: str) -> dict[str, Any]:
        share, after, booked = (table.get(group, 0.0) for table in (self.shares, self.received, self.booked))
        return {
            "share": share,
            "before": self.amount(self.before.get(group, 0.0)),
            "booked": self.amount(booked),
            "after": self.amount(after),
            "fraction": after / self.total if self.total > 0 else None,
            "owed": self.amount(share * self.total - after),
        }

    def amount(self, multiple: float) -> float:
        """The amount in the benefit's own unit; at most the largest double."""
        most = sys.float_info.max / self.unit
        return min(max(multiple, -most), most) * self.unit


def solve(case: Mapping[str, Any]) -> dict[str, Any]:
    """Solve one case: decisions in order, each booked immediately unless `booked` is "later"."""
    refuse_unknown_in_case(case, _TOP)
    classes = _read_classes(case)
    function = _read_function(case)
    shares = _read_weights(case, "shares", classes, is_required=True)
    received = _read_received(case, classes, function)
    is_booked = _read_booking(case)
    jobs = _read_jobs(case, classes, function)
    unit = _unit([*received.values(), *(job.benefit for job in jobs)])
    had = {group: amount / unit for group, amount in received.items()}
    ledger = Ledger(shares=_parts(shares), received=had, total=math.fsum(had.values()), unit=unit)
    answers: dict[str, Any] = {}
    for job in jobs:
        if job.group in classes.groups:
            answers[job.id] = _priority_answer(job.group, classes.groups[job.group])
            continue
        answers[job.id] = _fair_answer(ledger, classes, job, is_booked=is_booked)
        if is_booked:
            ledger.book(job.group, job.benefit / unit)
    statement = ledger.statement(
        unit_name="" if function is None else function.unit, is_held=function is not None and function.is_held
    )
    return {"id": case.get("id"), "jobs": answers, "ledger": statement, "notes": [NO_AGING]}


@dataclass(frozen=True)
class _Job:
    """One arrival. source, parts: how its benefit was computed, if by a function or a weighted sum."""

    id: str
    group: str
    benefit: float
    source: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Classes:
    """Classes of the queue: back < front < the priority groups."""

    back: float
    front: float
    groups: dict[str, float]


def _read_classes(case: Mapping[str, Any]) -> _Classes:
    table = read_table(case, "priority_groups")
    groups = {name: read_number(table, name, "priority_groups") for name in table}
    back, front = read_number(case, "p_back", "", default=0.0), read_number(case, "p_front", "", default=1.0)
    if not back < front:
        raise BadCase(f"{back:g} isn't below p_front, {front:g}; p_back < p_front is required", place="p_back")
    for name, priority in groups.items():
        if not front < priority:
            raise BadCase(
                f"{priority:g} isn't above p_front, {front:g}; priority groups stand before fair share",
                place=f"priority_groups.{name}",
            )
    return _Classes(back, front, groups)


def _read_weights(
    case: Mapping[str, Any], name: str, classes: _Classes, *, is_required: bool = False
) -> dict[str, float]:
    """Numbers ≥ 0 of the fair-share groups; those of priority groups are checked and ignored."""
    table = read_table(case, name, is_required=is_required)
    weights = {group: read_number(table, group, name, minimum=0.0) for group in table}
    return {group: weight for group, weight in weights.items() if group not in classes.groups}


def _read_function(case: Mapping[str, Any]) -> Benefit | None:
    """The benefit function that the case names; None if jobs have a field `benefit`."""
    algorithm = case.get("algorithm") or {}
    refuse_unknown(algorithm, ("name", "benefit"), "algorithm")
    named = algorithm.get("benefit")
    return None if named is None else read_benefit(named)


def _read_received(case: Mapping[str, Any], classes: _Classes, function: Benefit | None) -> dict[str, float]:
    """Benefit that groups have received so far, or hold now if the benefit counts only while a job runs."""
    name, other = ("running", "benefit") if function is not None and function.is_held else ("benefit", "running")
    if case.get(other) is not None:
        what = "counts while jobs run" if name == "running" else "is cumulative"
        raise BadCase(f"can't be used, because the benefit {what}; {name} is allowed in its place", place=other)
    return _read_weights(case, name, classes)


def _read_booking(case: Mapping[str, Any]) -> bool:
    booked = case.get("booked")
    if booked not in (None, _AT_ONCE, _LATER):
        raise BadCase(f'{shown(booked)} can\'t be used; "{_AT_ONCE}" or "{_LATER}" is allowed', place="booked")
    return booked != _LATER


def _read_jobs(case: Mapping[str, Any], classes: _Classes, function: Benefit | None) -> list[_Job]:
    """Every job in order of arrival; a priority job may omit its benefit, which isn't booked."""
    fields = {"id", "group", "benefit", *(need for each in BENEFITS.values() for need in each.needs)}
    jobs: list[_Job] = []
    for job_id, place, job in read_jobs(case):
        refuse_unknown_fields(job, fields, place)
        group = job.get("group")
        if not isinstance(group, str) or not group:
            what = "is missing" if group is None else f"{shown(group)} can't be used"
            raise BadCase(f"{what}; the name of a group is allowed", place=f"{place}.group")
        is_booked = group not in classes.groups or job.get("benefit") is not None
        jobs.append(_read_job(job_id, job, group, place, function) if is_booked else _Job(job_id, group, 0.0))
    return jobs


def _read_job(job_id: str, job: Mapping[str, Any], group: str, place: str, function: Benefit | None) -> _Job:
    """Read a job with its own benefit, or with that of the case's function of the job's fields."""
    if function is None or job.get("benefit") is not None:
        return _Job(job_id, group, float(read_number(job, "benefit", place, minimum=0.0)))
    amounts = {name: float(read_number(job, name, place, minimum=0.0)) for name in function.needs}
    benefit, parts = float(function.of(amounts)), function.parts_of(amounts)
    if not (math.isfinite(benefit) and benefit >= 0):
        raise BadCase(f"{function.formula} gives no finite number ≥ 0", place=f"{place}.benefit")
    fields = ", ".join(f"{name} {plain(value)}" for name, value in amounts.items())
    source = f"benefit {plain(benefit)} ({function.formula}{f'; {fields}' if fields else ''})"
    return _Job(job_id, group, benefit, source, parts)


def _unit(amounts: list[float]) -> float:
    """Divisor of benefits so that no sum overflows: a power of two, 1 unless benefits are huge."""
    return _HUGE_UNIT if max(amounts, default=0.0) > _HUGE else 1.0


def _parts(weights: dict[str, float]) -> dict[str, float]:
    """Shares normalised to sum 1; all 0 if their sum is 0."""
    unit = _unit(list(weights.values()))
    scaled = {group: weight / unit for group, weight in weights.items()}
    whole = math.fsum(scaled.values())
    return {group: weight / whole if whole > 0 else 0.0 for group, weight in scaled.items()}


def _priority_answer(group: str, priority: float) -> dict[str, Any]:
    return {
        "queue": "priority",
        "priority": _number(priority),
        "fraction_after": None,
        "group": group,
        "benefit": None,
        "parts": {},
        "booked": False,
        "explain": [
            f"priority {plain(priority)} ({group} is a priority group, whatever the shares; nothing is booked)"
        ],
    }


def _fair_answer(ledger: Ledger, classes: _Classes, job: _Job, *, is_booked: bool) -> dict[str, Any]:
    group, benefit, unit = job.group, job.benefit, ledger.unit
    is_front, fraction = ledger.decide(group, benefit / unit)
    priority = classes.front if is_front else classes.back
    share = ledger.shares.get(group, 0.0)
    had, whole, more = (
        plain(ledger.amount(multiple)) for multiple in (ledger.received.get(group, 0.0), ledger.total, benefit / unit)
    )
    where = "front: below" if is_front else "back: not below"
    return {
        "queue": "front" if is_front else "back",
        "priority": _number(priority),
        "fraction_after": fraction,
        "group": group,
        "benefit": benefit,
        "parts": dict(job.parts),
        "booked": is_booked,
        "explain": [
            f"fraction after {plain(fraction)} = ({had} + {more}) / ({whole} + {more})"
            if ledger.total + benefit / unit > 0
            else "fraction after 1 (there is no benefit at all yet)",
            f"priority {plain(priority)} ({where} the share of {group}, {plain(share)})",
            *([job.source] if job.source else []),
        ],
    }


def _number(value: float) -> float | int:
    """Whole priorities as integers, others as they are."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


SAM = JobAlgorithm(
    name="sam",
    label="SAM front and back",
    formula="front if (B[g] + b) / (ΣB + b) < share[g], else back; priority groups before both",
    reference="Generic Fair Share Scheduling Using Priority-Based Queuing (SAM, Fermilab)",
    fields=_FIELDS,
    terms=(Term("fraction_after", "Fraction after"),),
    solve=solve,
    condition=NO_AGING,
)
