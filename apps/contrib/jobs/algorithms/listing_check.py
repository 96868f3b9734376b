"""Check printed listings: priorities against terms, terms against their sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from apps.contrib.jobs.algorithms.base import plain
from apps.contrib.jobs.algorithms.gridengine.config import PRESETS
from apps.contrib.jobs.algorithms.gridengine.priorities import Rules
from apps.contrib.jobs.algorithms.listings import ASIDE, PENDING, RUNNING, Printed, PrintedJob
from apps.contrib.jobs.algorithms.slurm_multifactor import FACTORS, bound_priority
from apps.contrib.jobs.algorithms.slurm_multifactor import LABELS as SLURM_LABELS

_STEP = 5e-6  # half of the last digit of a normalised value
TERMS = (("nurg", "weight_urgency"), ("ntckts", "weight_ticket"), ("npprior", "weight_priority"))
LABELS = {"nurg": "urgency", "ntckts": "tickets", "npprior": "POSIX priority"}
_PARTS = {
    "urg": ("urgency", {"rrcontr": "resources", "wtcontr": "waiting", "dlcontr": "deadline"}),
    "tckts": ("tickets", {"otckt": "override", "ftckt": "functional", "stckt": "share tree"}),
}
PRESET_WEIGHTS = {
    preset: {weight: float(settings[weight]) for _, weight in TERMS} for preset, settings in PRESETS.items()
}
# those that can be computed from printed numbers alone
VARIANTS = ("exclude_running", "default_zero", "linear_urgency")


@dataclass(frozen=True)
class Followed:
    """The breakdown of one job. terms: weighted, by name; values: normalised; doubts: contradictions, in words.

    not_listed: terms with a weight but no column in the listing; left: the part of the printed priority that they
    account for.
    """

    job: PrintedJob
    terms: Mapping[str, float]
    values: Mapping[str, float]
    total: float
    printed: float
    lines: tuple[str, ...]
    doubts: tuple[str, ...] = ()
    not_listed: tuple[str, ...] = ()
    left: float = 0.0


def follow_grid_engine(jobs: Sequence[PrintedJob], weights: Mapping[str, float]) -> list[Followed]:
    """Check prior = Σ weight · printed value, and each value against urgency, tickets and -p if they are printed."""
    rebuilt = normalise(jobs)
    return [_follow_job(job, weights, rebuilt[job.job]) for job in jobs]


def _follow_job(job: PrintedJob, weights: Mapping[str, float], rebuilt: Mapping[str, tuple[float, float]]) -> Followed:
    printed = job.numbers["prior"]
    if job.role == ASIDE:
        doubt = f"priority 0 (state {job.state}: in none of the scheduler's lists)"
        return Followed(job, {}, {}, 0.0, printed, (doubt,))
    values = {
        name: job.numbers.get(name, rebuilt.get(name, (0.0, 0.0))[0])
        for name, _ in TERMS
        if name in job.numbers or name in rebuilt
    }
    terms = {name: weights[weight] * values[name] for name, weight in TERMS if name in values}
    total = sum(terms.values())
    not_listed = tuple(name for name, weight in TERMS if name not in values and weights[weight])
    left = round(printed - total, 5) if not_listed else 0.0
    lines = _lines(job, weights, values, total, not_listed)
    doubts = [*_doubts(job, weights, rebuilt, total), *_doubts_of_rest(job, weights, total, not_listed)]
    return Followed(job, terms, values, total, printed, tuple(lines), tuple(doubts), not_listed, left)


def name_terms(names: Sequence[str]) -> str:
    """Labels of terms, joined for a sentence."""
    return " and ".join(LABELS[name] for name in names)


def _lines(
    job: PrintedJob,
    weights: Mapping[str, float],
    values: Mapping[str, float],
    total: float,
    not_listed: Sequence[str],
) -> list[str]:
    """Lines `name number = calculation`, in the form of explained cases, with printed numbers as they were printed."""
    printed = job.numbers["prior"]
    parts = " + ".join(
        f"{plain(weights[weight])} × {plain(values[name])} ({LABELS[name]})" for name, weight in TERMS if name in values
    )
    if not_listed:
        rest = f"{plain(round(printed - total, 5))} ({name_terms(not_listed)}: not in this listing)"
        first = f"priority {printed:.5f} as printed = {f'{parts} + ' if parts else ''}{rest}"
    else:
        first = f"priority {total:.7g} = {parts or 'nothing that is printed'}; printed {printed:.5f}"
    return [
        first,
        *(
            f"{label} {plain(job.numbers[name])} = "
            + " + ".join(f"{plain(job.numbers[part])} ({word})" for part, word in parts.items())
            + "; as printed, rounded"
            for name, (label, parts) in _PARTS.items()
            if name in job.numbers and all(part in job.numbers for part in parts)
        ),
    ]


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


def _doubts_of_rest(
    job: PrintedJob, weights: Mapping[str, float], total: float, not_listed: Sequence[str]
) -> Iterable[str]:
    """Check the remainder: terms that aren't listed can account for 0 to the sum of their weights."""
    if not not_listed:
        return
    left = job.numbers["prior"] - total
    most = sum(weights[weight] for name, weight in TERMS if name in not_listed)
    unsure = _STEP * (1.0 + sum(map(abs, weights.values()))) + 1e-9
    if not -unsure <= left <= most + unsure:
        yield (
            f"prior is printed as {job.numbers['prior']:.5f}: {left:.5f} of it would be {name_terms(not_listed)}, and "
            f"these weights allow 0 to {plain(most)}: the scheduler has other weights"
        )


def normalise(jobs: Sequence[PrintedJob], variant: Iterable[str] = ()) -> dict[str, dict[str, tuple[float, float]]]:
    """nurg, ntckts and npprior of each job that takes part, each with the uncertainty of the printed digits.

    By the scheduler's rules, or by those of the amendments in `variant` that need printed numbers only.
    """
    rules = Rules(frozenset(variant))
    normalised: dict[str, dict[str, tuple[float, float]]] = {job.job: {} for job in jobs}
    part = [job for job in jobs if job.role != ASIDE]
    urgency = rules.urgency_scale(_of(part, "urg", PENDING), _of(part, "urg", RUNNING))
    tickets = rules.ticket_scale(_of(part, "tckts", PENDING), _of(part, "tckts", RUNNING))
    # Urgencies are printed as rounded integers, from a million on with three digits; tickets are truncated to integers.
    steps = {"urg": 1.0 if urgency.high < 1e6 else 0.01 * urgency.high, "tckts": 1.0}
    for job in part:
        for name, source, scale in (("nurg", "urg", urgency), ("ntckts", "tckts", tickets)):
            if source in job.numbers:
                value = scale.normalise(job.numbers[source], is_running=job.role == RUNNING).value
                span = scale.high - scale.low
                # Numbers that are printed alike may differ by less than a digit, which matters if the range is as
                # small.
                unsure = min(steps[source] / span, 1.0) if span else float(scale.high != 0)
                normalised[job.job][name] = value, unsure
        if "ppri" in job.numbers:
            normalised[job.job]["npprior"] = rules.posix(int(job.numbers["ppri"])).value, 0.0
    return normalised


def _of(jobs: Sequence[PrintedJob], name: str, role: str) -> list[float]:
    return [job.numbers[name] for job in jobs if job.role == role and name in job.numbers]


def priorities(jobs: Sequence[PrintedJob], weights: Mapping[str, float], variant: Iterable[str]) -> dict[str, float]:
    """prior of each job by a variant's rules, from the printed numbers; 0 for jobs that take no part."""
    normalised = normalise(jobs, variant)
    return {
        job.job: sum(weights[weight] * normalised[job.job].get(name, (0.0, 0.0))[0] for name, weight in TERMS)
        for job in jobs
    }


def fitting_weights(jobs: Sequence[PrintedJob]) -> dict[str, float] | None:
    """The weights from which all printed priorities follow, if enough rows differ to derive them; else None."""
    rows = [job.numbers for job in jobs if job.role != ASIDE and all(name in job.numbers for name, _ in TERMS)]
    if len(rows) < len(TERMS):
        return None
    values = np.array([[row[name] for name, _ in TERMS] for row in rows])
    wanted = np.array([row["prior"] for row in rows])
    weights, _, rank, scales = np.linalg.lstsq(values, wanted, rcond=None)
    is_determined = rank == len(TERMS) and scales[-1] > 0.01
    if not is_determined or float(np.abs(values @ weights - wanted).max()) > 1e-4:
        return None
    return {weight: round(float(value), 3) for (_, weight), value in zip(TERMS, weights, strict=True)}


def fitting_preset(jobs: Sequence[PrintedJob]) -> str:
    """The preset whose weights explain most rows; 8.1.9 if no other explains more."""
    doubted = {
        preset: sum(bool(each.doubts) for each in follow_grid_engine(jobs, weights))
        for preset, weights in PRESET_WEIGHTS.items()
    }
    return min(doubted, key=lambda preset: doubted[preset])


def follow_slurm(printed: Printed) -> list[Followed]:
    """Check PRIORITY = SITE + Σ terms − NICE as printed, and each term against weight and factor if both are shown."""
    return [_follow_slurm_job(job, printed.weights, printed.factors.get(job.job, {})) for job in printed.jobs]


def _follow_slurm_job(job: PrintedJob, weights: Mapping[str, float], factors: Mapping[str, float]) -> Followed:
    numbers = job.numbers
    exact = {name: weights[name] * factors[name] for name in FACTORS if name in weights and name in factors}
    terms = {name: exact.get(name, numbers.get(name, 0.0)) for name in FACTORS if name in numbers or name in exact}
    site, nice = numbers.get("site", 0.0), numbers.get("nice", 0.0)
    total = sum(terms.values()) + site - nice
    unsure = 1.0 + sum(5e-8 * weights[name] for name in exact) + 0.5 * (len(terms) - len(exact))
    parts = " + ".join(f"{plain(term)} ({SLURM_LABELS[name]})" for name, term in terms.items())
    lines = [
        f"priority {bound_priority(total)}; printed {plain(numbers['priority'])}",
        f"sum {plain(total)} = {plain(site)} (site) + {parts} − {plain(nice)} (nice)",
        *(
            f"{SLURM_LABELS[name]} {plain(exact[name])} = {plain(factors[name])} × {plain(weights[name])} (weight)"
            if name in exact
            else f"{SLURM_LABELS[name]} {plain(term)} (as printed, rounded)"
            for name, term in terms.items()
        ),
    ]
    printed, doubts = numbers["priority"], []
    if abs(bound_priority(total) - printed) > unsure and not _is_set_by_hand(terms, site):
        doubts.append(f"PRIORITY is printed as {plain(printed)}, and the terms give {plain(total)}")
    doubts += [
        f"{name} is printed as {plain(numbers[name])}, and weight and factor give {plain(term)}"
        for name, term in exact.items()
        if name in numbers and abs(term - numbers[name]) > 0.5 + 5e-8 * weights[name] + 1e-9
    ]
    if _is_set_by_hand(terms, site) and printed > 1:
        lines.append(f"all terms are 0 (the priority was set to {plain(printed)} by hand, or nothing has a weight)")
    return Followed(job, {**terms, "site": site, "nice": nice}, factors, total, printed, tuple(lines), tuple(doubts))


def _is_set_by_hand(terms: Mapping[str, float], site: float) -> bool:
    """Whether the priority was set by `scontrol update priority=`: sprio then prints zeros for all factors."""
    return not any(terms.values()) and site == 0
