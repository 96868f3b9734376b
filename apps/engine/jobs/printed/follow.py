"""Does what was printed follow from what stands beside it? Priorities from terms, terms from their sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from apps.engine.jobs.printed.rows import ASIDE, PENDING, Printed, PrintedJob
from apps.engine.jobs.reading import plain
from apps.engine.jobs.slurm_multifactor import FACTORS, bound_priority

EMPTY_RANGE = 0.00001  # Grid Engine: a range below this normalises to 0.5
_STEP = 5e-6  # half of the last digit of a normalised value
TERMS = (("nurg", "weight_urgency"), ("ntckts", "weight_ticket"), ("npprior", "weight_priority"))
INSTALLED_WEIGHTS = {"weight_urgency": 0.5, "weight_ticket": 0.5, "weight_priority": 0.0}
VARIANTS = ("exclude_running", "default_zero", "linear_urgency")  # those that need nothing but what is printed


@dataclass(frozen=True)
class Followed:
    """One job taken apart. terms: weighted, by name; values: normalised; doubts: what doesn't follow, in words."""

    job: PrintedJob
    terms: Mapping[str, float]
    values: Mapping[str, float]
    total: float
    printed: float
    lines: tuple[str, ...]
    doubts: tuple[str, ...] = ()


def follow_grid_engine(jobs: Sequence[PrintedJob], weights: Mapping[str, float]) -> list[Followed]:
    """prior = Σ weight · printed value, and each value from urgency, tickets and -p as far as they are printed."""
    rebuilt = normalise(jobs)
    return [_follow_job(job, weights, rebuilt[job.job]) for job in jobs]


def _follow_job(job: PrintedJob, weights: Mapping[str, float], rebuilt: Mapping[str, tuple[float, float]]) -> Followed:
    printed = job.numbers["prior"]
    if job.role == ASIDE:
        told = f"state {job.state}: in none of the scheduler's lists, so it has no priority to take apart"
        return Followed(job, {}, {}, 0.0, printed, (told,))
    values = {
        name: job.numbers.get(name, rebuilt.get(name, (0.0, 0.0))[0])
        for name, _ in TERMS
        if name in job.numbers or name in rebuilt
    }
    terms = {name: weights[weight] * values[name] for name, weight in TERMS if name in values}
    total = sum(terms.values())
    lines = [
        f"{name}: {plain(values[name])} × {plain(weights[weight])} = {terms[name]:.7g}"
        for name, weight in TERMS
        if name in values
    ]
    lines.append(f"sum: {total:.5f}, printed {printed:.5f}")
    return Followed(job, terms, values, total, printed, tuple(lines), tuple(_doubts(job, weights, rebuilt, total)))


def _doubts(
    job: PrintedJob, weights: Mapping[str, float], rebuilt: Mapping[str, tuple[float, float]], total: float
) -> Iterable[str]:
    printed = job.numbers["prior"]
    is_whole = all(name in job.numbers or weights[weight] == 0 for name, weight in TERMS)
    if is_whole and abs(total - printed) > _STEP * (1.0 + sum(map(abs, weights.values()))) + 1e-9:
        yield f"prior is printed as {printed:.5f}, and these weights give {total:.5f}: the scheduler has other weights"
    for name, (value, unsure) in rebuilt.items():
        if name in job.numbers and abs(value - job.numbers[name]) > unsure + _STEP:
            yield (
                f"{name} is printed as {job.numbers[name]:.5f}, and these rows give {value:.5f}: "
                "jobs that aren't listed, or another variant, set the range"
            )


def normalise(jobs: Sequence[PrintedJob], variant: Iterable[str] = ()) -> dict[str, dict[str, tuple[float, float]]]:
    """nurg, ntckts and npprior of each job that takes part, each with how far printed digits leave it unsure.

    Rules of 8.1.9: urgency between the smallest and largest of pending and running jobs, tickets between 0 and the
    largest, -p between −1024 and 1024; an empty range gives 0.5. `variant` holds the amendments wanted.
    """
    amendments = frozenset(variant)
    part = [job for job in jobs if job.role != ASIDE]
    ranged = [job for job in part if job.role == PENDING] if "exclude_running" in amendments else part
    neutral = 0.0 if "default_zero" in amendments else 0.5
    found: dict[str, dict[str, tuple[float, float]]] = {job.job: {} for job in jobs}
    urgencies = [job.numbers["urg"] for job in ranged if "urg" in job.numbers]
    tickets = [job.numbers["tckts"] for job in ranged if "tckts" in job.numbers]
    high = max(urgencies, default=0.0)
    low = 0.0 if "linear_urgency" in amendments else min(urgencies, default=0.0)
    for job in part:
        numbers, values = job.numbers, found[job.job]
        if "urg" in numbers:
            values["nurg"] = _between(numbers["urg"], low, high, neutral, _unsure_urgency(high))
            if "linear_urgency" in amendments and high <= 0:
                values["nurg"] = (0.0, 0.0)
        if "tckts" in numbers:
            values["ntckts"] = _between(numbers["tckts"], 0.0, max(tickets, default=0.0), neutral, 1.0)
        if "ppri" in numbers:
            is_open = "default_zero" in amendments
            values["npprior"] = (numbers["ppri"] / 1024 if is_open else (numbers["ppri"] + 1024) / 2048), 0.0
    return found


def _unsure_urgency(high: float) -> float:
    """Printed urgencies are rounded integers, from a million on three digits."""
    return 1.0 if high < 1e6 else 0.01 * high


def _between(value: float, low: float, high: float, neutral: float, step: float) -> tuple[float, float]:
    """Its place in the range, kept within 0..1, and how much of that rounded digits may shift it."""
    span = high - low
    if span < EMPTY_RANGE:
        return neutral, 1.0 if step and low else 0.0  # what prints alike may differ by less than a digit
    return min(max((value - low) / span, 0.0), 1.0), step / span


def priorities(jobs: Sequence[PrintedJob], weights: Mapping[str, float], variant: Iterable[str]) -> dict[str, float]:
    """prior of each job by a variant's rules, from what the rows say; jobs that take no part have 0."""
    found = normalise(jobs, variant)
    return {
        job.job: sum(weights[weight] * found[job.job].get(name, (0.0, 0.0))[0] for name, weight in TERMS)
        for job in jobs
    }


def fitting_weights(jobs: Sequence[PrintedJob]) -> dict[str, float] | None:
    """The weights from which all printed priorities follow, where rows enough differ to tell them; else None."""
    rows = [job.numbers for job in jobs if job.role != ASIDE and all(name in job.numbers for name, _ in TERMS)]
    if len(rows) < len(TERMS):
        return None
    values = np.array([[row[name] for name, _ in TERMS] for row in rows])
    wanted = np.array([row["prior"] for row in rows])
    weights, _, rank, scales = np.linalg.lstsq(values, wanted, rcond=None)
    is_told = rank == len(TERMS) and scales[-1] > 0.01
    if not is_told or float(np.abs(values @ weights - wanted).max()) > 1e-4:
        return None
    return {weight: round(float(found), 3) for (_, weight), found in zip(TERMS, weights, strict=True)}


def follow_slurm(printed: Printed) -> list[Followed]:
    """PRIORITY = SITE + Σ terms − NICE as printed, and each term from weight and factor where both are there."""
    return [_follow_slurm_job(job, printed.weights, printed.factors.get(job.job, {})) for job in printed.jobs]


def _follow_slurm_job(job: PrintedJob, weights: Mapping[str, float], factors: Mapping[str, float]) -> Followed:
    numbers = job.numbers
    exact = {name: weights[name] * factors[name] for name in FACTORS if name in weights and name in factors}
    terms = {name: exact.get(name, numbers.get(name, 0.0)) for name in FACTORS if name in numbers or name in exact}
    site, nice = numbers.get("site", 0.0), numbers.get("nice", 0.0)
    total = sum(terms.values()) + site - nice
    unsure = 1.0 + sum(5e-8 * weights[name] for name in exact) + 0.5 * (len(terms) - len(exact))
    lines = [
        f"{name}: {plain(factors[name])} × {plain(weights[name])} = {plain(exact[name])}"
        if name in exact
        else f"{name}: {plain(term)} as printed"
        for name, term in terms.items()
    ]
    lines += [f"site: + {plain(site)}", f"nice: − {plain(nice)}", f"sum: {plain(total)} → {bound_priority(total)}"]
    printed, doubts = numbers["priority"], []
    if abs(bound_priority(total) - printed) > unsure and not _is_set_by_hand(terms, site):
        doubts.append(f"PRIORITY is printed as {plain(printed)}, and the terms give {plain(total)}")
    doubts += [
        f"{name} is printed as {plain(numbers[name])}, and weight and factor give {plain(term)}"
        for name, term in exact.items()
        if name in numbers and abs(term - numbers[name]) > 0.5 + 5e-8 * weights[name] + 1e-9
    ]
    if _is_set_by_hand(terms, site) and printed > 1:
        lines.append(f"all terms are 0: the priority was set to {plain(printed)} by hand, or nothing has a weight")
    return Followed(job, {**terms, "site": site, "nice": nice}, factors, total, printed, tuple(lines), tuple(doubts))


def _is_set_by_hand(terms: Mapping[str, float], site: float) -> bool:
    """`scontrol update priority=` drops all factors: sprio prints zeros beside the priority."""
    return not any(terms.values()) and site == 0
