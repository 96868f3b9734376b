"""Slurm's priority/multifactor: weighted factors, the site factor and nice, as `sprio -l` prints them (22.05)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
from apps.engine.case_fields import read_flag, read_integer, read_number, read_table, refuse_unknown
from apps.engine.errors import BadCase

LOWEST, HIGHEST = 1, 4294967295  # 0 means held; priorities have 32 bits
LABELS = {
    "age": "age",
    "assoc": "association",
    "fairshare": "fairshare",
    "jobsize": "job size",
    "partition": "partition",
    "qos": "QOS",
    "tres": "TRES",
}
FACTORS = tuple(LABELS)  # in the order in which slurmctld adds them, because float sums depend on it
MOST_FACTOR_STEPS = 2147483645  # bounds of the site factor and of nice
MAX_AGE_S = 7 * 24 * 3600.0
_LARGEST_WEIGHT = 1e15  # far beyond 32 bits, but terms are still exact integers


@dataclass(frozen=True)
class Cluster:
    """All CPUs and nodes of the cluster, relative to which job sizes are computed."""

    cpus: float
    nodes: float


def age_factor(age_s: float, max_age_s: float) -> float:
    """min(age / max_age, 1). Source: priority_multifactor.c, 22.05."""
    return age_s / max_age_s if age_s < max_age_s else 1.0


def job_size_factor(cluster: Cluster, *, cpus: float, nodes: float, favors_small: bool) -> float:
    """The mean of the job's part of the nodes and of the CPUs (or of the rest, if small jobs are favoured), 0..1.

    Without CPUs (0) only nodes count. Source: priority_multifactor.c, 22.05; measured: 1 of 1 nodes and 6 of 8 CPUs
    give 0.875.
    """
    of_nodes = (cluster.nodes - nodes if favors_small else nodes) / cluster.nodes
    if not cpus:
        return min(max(of_nodes, 0.0), 1.0)
    of_cpus = (cluster.cpus - cpus if favors_small else cpus) / cluster.cpus
    return min(max((of_nodes + of_cpus) / 2, 0.0), 1.0)


def bound_priority(total: float) -> int:
    """The exact sum truncated to an integer and bounded to 1..4294967295."""
    return int(min(max(total, LOWEST), HIGHEST))


def solve(case: Mapping[str, Any]) -> dict[str, Any]:
    """Solve one case: every job's terms, their sum, and the lines that add up to it."""
    refuse_unknown(case.get("algorithm") or {}, ("name",), "algorithm")
    refuse_unknown_in_case(case, ("weights", "max_age_s", "favor_small", "cluster", "jobs"))
    table = read_table(case, "weights", is_required=True)
    refuse_unknown(table, FACTORS, "weights")
    weights = {
        name: float(read_number(table, name, "weights", default=0.0, minimum=0.0, maximum=_LARGEST_WEIGHT))
        for name in FACTORS
    }
    settings = _Settings(
        weights=weights,
        max_age_s=read_number(case, "max_age_s", "", default=MAX_AGE_S, minimum=0.0),
        favors_small=read_flag(case, "favor_small"),
        cluster=_read_cluster(case),
    )
    return {
        "id": case.get("id"),
        "jobs": {job_id: _answer(settings, job, place) for job_id, place, job in read_jobs(case)},
    }


@dataclass(frozen=True)
class _Settings:
    weights: dict[str, float]
    max_age_s: float
    favors_small: bool
    cluster: Cluster | None


def _read_cluster(case: Mapping[str, Any]) -> Cluster | None:
    if case.get("cluster") is None:
        return None
    table = read_table(case, "cluster")
    refuse_unknown(table, ("cpus", "nodes"), "cluster")
    cpus, nodes = (float(read_number(table, name, "cluster", minimum=1.0)) for name in ("cpus", "nodes"))
    return Cluster(cpus=cpus, nodes=nodes)


@dataclass(frozen=True)
class _Factor:
    """A factor 0..1, and the numbers it was computed from if it wasn't given."""

    value: float
    source: str = ""


def _read_factors(settings: _Settings, job: Mapping[str, Any], place: str) -> dict[str, _Factor]:
    """Factors as given; age and job size otherwise computed from seconds, CPUs and nodes."""
    factors = {name: _Factor(read_number(job, name, place, default=0.0, minimum=0.0, maximum=1.0)) for name in FACTORS}
    if job.get("age") is None and job.get("age_s") is not None:
        age_s = read_number(job, "age_s", place, minimum=0.0)
        source = _age_source(age_s, settings.max_age_s)
        factors["age"] = _Factor(age_factor(age_s, settings.max_age_s), source)
    if job.get("jobsize") is None and (job.get("cpus") is not None or job.get("nodes") is not None):
        factors["jobsize"] = _read_size(settings, job, place)
    return factors


def _age_source(age_s: float, max_age_s: float) -> str:
    if age_s < max_age_s:
        return f"{plain(age_s)} / {plain(max_age_s)} (seconds, of those that count)"
    return f"1 (no older than {plain(max_age_s)} seconds counts)"


def _read_size(settings: _Settings, job: Mapping[str, Any], place: str) -> _Factor:
    cpus = read_number(job, "cpus", place, default=0.0, minimum=0.0)
    nodes = read_number(job, "nodes", place, default=1.0, minimum=0.0)
    cluster = settings.cluster
    if cluster is None:
        raise BadCase('is missing; a job\'s size is measured by it: {"cpus": …, "nodes": …}', place="cluster")
    value = job_size_factor(cluster, cpus=cpus, nodes=nodes, favors_small=settings.favors_small)
    parts = [_part(nodes, cluster.nodes, settings.favors_small)]
    parts += [_part(cpus, cluster.cpus, settings.favors_small)] if cpus else []
    return _Factor(value, parts[0] if len(parts) == 1 else f"({' + '.join(parts)}) / 2")


def _part(amount: float, whole: float, favors_small: bool) -> str:
    amount_text = f"({plain(whole)} − {plain(amount)})" if favors_small else plain(amount)
    return f"{amount_text}/{plain(whole)}"


def _answer(settings: _Settings, job: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Terms rounded as `sprio -l` prints them (half to even), and the priority from the exact terms."""
    refuse_unknown_fields(job, ("id", *FACTORS, "age_s", "cpus", "nodes", "site", "nice"), place)
    factors = _read_factors(settings, job, place)
    site, nice = (
        read_integer(job, name, place, default=0, minimum=-MOST_FACTOR_STEPS, maximum=MOST_FACTOR_STEPS)
        for name in ("site", "nice")
    )
    terms = {name: factors[name].value * settings.weights[name] for name in FACTORS}
    total = sum(terms.values()) + site - nice
    priority = bound_priority(total)
    rounded = {name: round(term) for name, term in terms.items()}
    lines = _lines(settings, factors, terms, site, nice, total)
    return {"priority": priority, "site": site, **rounded, "nice": nice, "explain": lines}


def _lines(
    settings: _Settings, factors: Mapping[str, _Factor], terms: Mapping[str, float], site: int, nice: int, total: float
) -> list[str]:
    """`what number = calculation`, words in parentheses; from the sum down to what a factor was worked out from."""
    parts = " + ".join(f"{plain(terms[name])} ({label})" for name, label in LABELS.items())
    lines = [
        f"priority {bound_priority(total)} ({_cut(total)})",
        f"sum {plain(total)} = {site} (site) + {parts} − {nice} (nice)",
    ]
    for name, label in LABELS.items():
        factor = factors[name]
        lines.append(f"{label} {plain(terms[name])} = {plain(factor.value)} × {plain(settings.weights[name])} (weight)")
        if factor.source:
            lines.append(f"{label} factor {plain(factor.value)} = {factor.source}")
    return lines


def _cut(total: float) -> str:
    if total < LOWEST:
        return f"the sum is below {LOWEST}, and 0 would hold the job"
    return "the sum without its fraction" if total < HIGHEST + 1 else "the most that 32 bits hold"


SLURM_MULTIFACTOR = JobAlgorithm(
    name="slurm-multifactor",
    label="Slurm multifactor",
    formula="priority = Σ weight · factor + site − nice, cut to an integer within 1..4294967295",
    reference="Slurm 22.05, priority/multifactor; measured",
    fields=(
        CaseField("weights", "Weights", f"an object of numbers from 0 to 1e15: {', '.join(FACTORS)}"),
        CaseField("max_age_s", "Age counted at most", "a number ≥ 0", default=MAX_AGE_S, unit="s"),
        CaseField("favor_small", "Small jobs first", "true or false", default=False),
        CaseField("cluster", "Cluster", "an object with cpus and nodes, each ≥ 1; where jobs give cpus or nodes"),
        CaseField("jobs", "Jobs", "a list with id, factors 0..1 or age_s, cpus and nodes; site and nice are integers"),
    ),
    terms=(
        Term("site", "Site"),
        *(Term(name, label[:1].upper() + label[1:], weight=f"weights.{name}") for name, label in LABELS.items()),
        Term("nice", "Nice"),
    ),
    solve=solve,
)
