"""HTCondor's effective user priority: what each submitter used, faded by half-lives, times its priority factor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.contrib.jobs.algorithms.base import (
    CaseField,
    JobAlgorithm,
    Term,
    plain,
    read_jobs,
    refuse_unknown_fields,
    refuse_unknown_in_case,
)
from apps.engine.case_fields import read_integer, read_number, refuse_repeated, refuse_unknown
from apps.engine.case_text import shown
from apps.engine.errors import BadCase

FloatArray = npt.NDArray[np.float64]

LEAST_REAL = 0.5  # of a submitter that never used anything too (MinPriority in Accountant.cpp)
LEAST_FACTOR = 1.0  # HTCondor takes no smaller one
DEFAULT_FACTOR = 1000.0
HALF_LIFE_S = 86400.0
_LARGEST = 1e15  # of factors, cores and priorities; products stay finite
_LEAST_PRIO, _MOST_PRIO = -(2**31), 2**31 - 1
# In the order in which the schedd compares them (prio_compar in qmgmt.cpp), larger ones first.
JOB_PRIOS = ("pre_job_prio1", "pre_job_prio2", "job_prio", "post_job_prio1", "post_job_prio2")
_JOB_ID = re.compile(r"(0|[1-9]\d{0,9})(?:\.(0|[1-9]\d{0,9}))?", re.ASCII)
_LONGEST_SUBMITTER = 400
_SUBMITTER_FIELDS = ("name", "real", "effective", "factor", "cores", "uncharged_core_s")
CONDITION = (
    "The negotiator serves submitters in this order, each up to its slice of the cores. Jobs of a submitter are in the "
    "order of their priorities, then of their ids. Groups with quotas are served by those first."
)
TIE = "Submitters have the same effective priority. HTCondor takes the more starved first; here they stand by name."


def decay(passed_s: float, half_life_s: float) -> float:
    """β = 0.5^(δt / h), 0..1: the part of a real priority that is left after δt; h ≥ 1.

    Source: HTCondor manual, "Priority Calculation"; AgingFactor in Accountant.cpp.
    """
    return float(0.5 ** (passed_s / half_life_s))


def real_priorities(before: FloatArray, cores: FloatArray, beta: float) -> FloatArray:
    """π_r(t) = β · π_r(t − δt) + (1 − β) · ρ, at least 0.5; both arrays by submitter, cores ρ ≥ 0.

    Source: HTCondor manual, "Priority Calculation"; UpdateOnePriority in Accountant.cpp has the bound.
    """
    return np.maximum(before * beta + cores * (1.0 - beta), LEAST_REAL)


def effective_priorities(real: FloatArray, factors: FloatArray) -> FloatArray:
    """π_e = π_r · f: the smaller, the better. Source: HTCondor manual, "Priority Calculation"."""
    return real * factors


def slices(effective: FloatArray) -> FloatArray:
    """Part of the pool that each submitter may get, sum 1: inverse to its effective priority (> 0).

    Of those with a waiting or a running job: so measured with 23.9 (SubmitterShare of condor_userprio).

    Source: HTCondor manual, "Effective User Priority"; calculateNormalizationFactor in matchmaker.cpp.
    """
    if not effective.size:
        return effective
    inverse: FloatArray = float(effective.min()) / effective
    return inverse / float(inverse.sum())


@dataclass(frozen=True)
class _Settings:
    half_life_s: float
    passed_s: float
    default_factor: float

    @property
    def beta(self) -> float:
        return decay(self.passed_s, self.half_life_s)


@dataclass(frozen=True)
class _Submitter:
    """before: real priority at the last update. cores: in use since, ended claims included. sources: lines.

    is_active: it uses cores now, so that it has a slice of the pool without a waiting job too.
    """

    name: str
    before: float
    factor: float
    cores: float
    sources: tuple[str, ...] = ()
    is_active: bool = False


@dataclass(frozen=True)
class _Job:
    id: str
    submitter: str
    prios: tuple[int, ...]  # as JOB_PRIOS
    key: tuple[int, int]  # cluster, process


def solve(case: Mapping[str, Any]) -> dict[str, Any]:
    """Solve one case: priorities of submitters, and the order in which their jobs are considered."""
    refuse_unknown(case.get("algorithm") or {}, ("name",), "algorithm")
    refuse_unknown_in_case(case, ("half_life_s", "passed_s", "default_factor", "submitters", "jobs"))
    settings = _Settings(
        half_life_s=float(read_number(case, "half_life_s", "", default=HALF_LIFE_S, minimum=1.0)),
        passed_s=_read_passed(case),
        default_factor=float(
            read_number(case, "default_factor", "", default=DEFAULT_FACTOR, minimum=LEAST_FACTOR, maximum=_LARGEST)
        ),
    )
    submitters = _read_submitters(case, settings)
    jobs = _read_queue(case)
    for job in jobs:
        if job.submitter not in submitters:
            new = f"real priority before {plain(LEAST_REAL)} (a new submitter)"
            submitters[job.submitter] = _Submitter(job.submitter, LEAST_REAL, settings.default_factor, 0.0, (new,))
    return {"id": case.get("id"), **_answer(settings, list(submitters.values()), jobs)}


def _read_passed(case: Mapping[str, Any]) -> float:
    passed_s = float(read_number(case, "passed_s", "", default=0.0, minimum=0.0))
    if not passed_s.is_integer():
        raise BadCase(f"{shown(case['passed_s'])} can't be used; whole seconds ≥ 0 are allowed", place="passed_s")
    return passed_s


def _read_submitters(case: Mapping[str, Any], settings: _Settings) -> dict[str, _Submitter]:
    entries = case.get("submitters")
    if entries is None:
        return {}
    if not isinstance(entries, list):
        raise BadCase(f"{shown(entries)} can't be used; a list of submitters is allowed", place="submitters")
    submitters: dict[str, _Submitter] = {}
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            message = f"{shown(entry)} can't be used; an object with a name is allowed"
            raise BadCase(message, place=f"submitters[{index}]")
        name = _read_name(entry, "name", f"submitters[{index}]")
        place = f"submitters.{name}"
        refuse_repeated(entry, place)
        refuse_unknown_fields(entry, _SUBMITTER_FIELDS, place)
        if name in submitters:
            raise BadCase(f"two submitters are {shown(name)}; names must differ", place=place)
        submitters[name] = _read_submitter(entry, name, place, settings)
    return submitters


def _read_name(entry: Mapping[str, Any], name: str, place: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_SUBMITTER:
        what = "is missing" if value is None else f"{shown(value)} can't be used"
        raise BadCase(f"{what}; the name of a submitter such as ann@example.org is allowed", place=f"{place}.{name}")
    return value


def _read_submitter(entry: Mapping[str, Any], name: str, place: str, settings: _Settings) -> _Submitter:
    factor = float(
        read_number(entry, "factor", place, default=settings.default_factor, minimum=LEAST_FACTOR, maximum=_LARGEST)
    )
    before, source = _read_before(entry, factor, place)
    cores, uncharged = (
        float(read_number(entry, field, place, default=0.0, minimum=0.0, maximum=_LARGEST))
        for field in ("cores", "uncharged_core_s")
    )
    sources, is_active = [source] if source else [], cores > 0
    if uncharged:
        if not settings.passed_s:
            raise BadCase("can't be used without passed_s, in which they were used", place=f"{place}.uncharged_core_s")
        passed = settings.passed_s
        used = cores + uncharged / passed
        sources.append(
            f"cores in use {plain(used)} = {plain(cores)} + {plain(uncharged)} / {plain(passed)} "
            "(core seconds of claims that ended, by the seconds)"
        )
        cores = used
    return _Submitter(name, before, factor, cores, tuple(sources), is_active)


def _read_before(entry: Mapping[str, Any], factor: float, place: str) -> tuple[float, str]:
    """Real priority at the last update, and the line that says where it comes from ("" if it was typed)."""
    real, effective = (
        read_number(entry, field, place, default=None, minimum=0.0, maximum=most)
        for field, most in (("real", _LARGEST), ("effective", _LARGEST * _LARGEST))
    )
    if real is not None and effective is not None:
        raise BadCase("can't be used beside real; one of them is allowed", place=f"{place}.effective")
    if real is None and effective is None:
        return LEAST_REAL, f"real priority before {plain(LEAST_REAL)} (a new submitter)"
    if real is None:
        value = float(effective) / factor
        source = f"real priority before {plain(value)} = {plain(float(effective))} / {plain(factor)} (factor)"
    else:
        value, source = float(real), ""
    if value < LEAST_REAL:
        return LEAST_REAL, f"real priority before {plain(LEAST_REAL)} (the least, as {plain(value)} is below it)"
    return value, source


def _read_queue(case: Mapping[str, Any]) -> list[_Job]:
    jobs: list[_Job] = []
    for job_id, place, job in read_jobs(case):
        refuse_unknown_fields(job, ("id", "submitter", *JOB_PRIOS), place)
        match = _JOB_ID.fullmatch(job_id)
        if not match:
            message = f"{shown(job_id)} can't be used; a cluster and process such as 12.0 is allowed"
            raise BadCase(message, place=f"{place}.id")
        prios = tuple(
            read_integer(job, name, place, default=0, minimum=_LEAST_PRIO, maximum=_MOST_PRIO) for name in JOB_PRIOS
        )
        process = -1 if match[2] is None else int(match[2])
        jobs.append(_Job(job_id, _read_name(job, "submitter", place), prios, (int(match[1]), process)))
    return jobs


def _in_line(job: _Job) -> tuple[Any, ...]:
    """Larger priorities of jobs first, then the older cluster and process."""
    return tuple(-prio for prio in job.prios), job.key


def _answer(settings: _Settings, submitters: Sequence[_Submitter], jobs: Sequence[_Job]) -> dict[str, Any]:
    beta = settings.beta
    before, cores, factors = (
        np.array([getattr(each, name) for each in submitters], dtype=np.float64)
        for name in ("before", "cores", "factor")
    )
    real = real_priorities(before, cores, beta) if settings.passed_s else before
    effective = effective_priorities(real, factors)
    own: dict[str, list[_Job]] = {}
    for job in jobs:
        own.setdefault(job.submitter, []).append(job)
    served = [at for at, each in enumerate(submitters) if each.name in own or each.is_active]
    parts = dict(zip(served, slices(effective[served]).tolist(), strict=True))
    order = sorted(range(len(submitters)), key=lambda at: (float(effective[at]), submitters[at].name))
    answers: dict[str, dict[str, Any]] = {}
    rows: dict[str, dict[str, Any]] = {}
    for at in order:
        each, part = submitters[at], parts.get(at)
        numbers = {"real": float(real[at]), "factor": each.factor, "effective": float(effective[at]), "slice": part}
        rows[each.name] = numbers
        line = sorted(own.get(each.name, ()), key=_in_line)
        of_submitter = _lines(settings, each, numbers)
        for place, job in enumerate(line, start=1):
            last = f"number {place} of the submitter's {len(line)} ({_place_text(job)})"
            answers[job.id] = {
                "submitter": each.name,
                **numbers,
                "job_prio": job.prios[JOB_PRIOS.index("job_prio")],
                "explain": [*of_submitter, last],
            }
    pending = list(answers)
    compared = [float(effective[at]) for at, each in enumerate(submitters) if each.name in own]
    return {
        "jobs": {job.id: answers[job.id] for job in jobs},
        "pending_order": pending,
        "submitters": rows,
        "notes": [TIE] if len(set(compared)) < len(compared) else [],
    }


def _place_text(job: _Job) -> str:
    typed = [f"{name} {prio}" for name, prio in zip(JOB_PRIOS, job.prios, strict=True) if prio or name == "job_prio"]
    return f"{', '.join(typed)}; then by id"


def _lines(settings: _Settings, each: _Submitter, numbers: Mapping[str, Any]) -> list[str]:
    """`what number = calculation`, words in parentheses; from the effective priority down to what it comes from."""
    real, beta = float(numbers["real"]), settings.beta
    lines = [
        f"effective priority {plain(float(numbers['effective']))} = {plain(real)} (real priority) × "
        f"{plain(each.factor)} (factor)",
    ]
    if settings.passed_s:
        mixed = each.before * beta + each.cores * (1.0 - beta)
        calculation = f"{plain(beta)} × {plain(each.before)} + (1 − {plain(beta)}) × {plain(each.cores)} (cores in use)"
        if mixed < LEAST_REAL:
            lines.append(f"real priority {plain(LEAST_REAL)} (the least)")
            lines.append(f"real priority without the least {plain(mixed)} = {calculation}")
        else:
            lines.append(f"real priority {plain(real)} = {calculation}")
        lines.append(
            f"decay {plain(beta)} = 0.5 ^ ({plain(settings.passed_s)} / {plain(settings.half_life_s)}) "
            "(seconds since the last update, half-life)"
        )
    return [*lines, *each.sources]


HTCONDOR = JobAlgorithm(
    name="htcondor",
    label="HTCondor user priority",
    formula="EUP = max(0.5, β · RUP + (1 − β) · cores) · factor, β = 0.5^(seconds / half-life); the smallest first",
    reference='HTCondor manual, "User Priorities and Negotiation"; measured with 23.9',
    fields=(
        CaseField("half_life_s", "PRIORITY_HALFLIFE", "a number ≥ 1", default=HALF_LIFE_S, unit="s"),
        CaseField("passed_s", "Since the last update", "whole seconds ≥ 0; 0: none is due", default=0, unit="s"),
        CaseField("default_factor", "DEFAULT_PRIO_FACTOR", "a number from 1 to 1e15", default=DEFAULT_FACTOR),
        CaseField(
            "submitters",
            "Submitters",
            "a list with name, real (0.5 for a new one) or effective, factor, cores in use and uncharged_core_s of "
            "claims that ended since",
            default=[],
        ),
        CaseField("jobs", "Jobs", f"a list with id (cluster.process), submitter and {', '.join(JOB_PRIOS)} (integers)"),
    ),
    terms=(
        Term("real", "Real priority"),
        Term("factor", "Factor"),
        Term("slice", "Slice of the pool"),
        Term("job_prio", "Job priority"),
    ),
    solve=solve,
    condition=CONDITION,
)
