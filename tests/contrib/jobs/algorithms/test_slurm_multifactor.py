"""Slurm's multifactor priority against what a running controller printed, and what the contract refuses."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.jobs.algorithms import solve_job_case
from apps.contrib.jobs.algorithms.slurm_multifactor import FACTORS, LABELS, Cluster, age_factor, job_size_factor
from apps.engine.errors import EngineError
from tests.each_case import each_case
from tests.oracles.jobs import slurm_priority

WEIGHTS = {"age": 1000, "fairshare": 100000, "jobsize": 100, "partition": 500, "qos": 2000}


def solved(*jobs: dict[str, Any], **case: Any) -> dict[str, Any]:
    numbered = [{"id": str(i), **job} for i, job in enumerate(jobs)]
    given_case = {"algorithm": {"name": "slurm-multifactor"}, "weights": WEIGHTS, "jobs": numbered, **case}
    found: dict[str, Any] = solve_job_case(given_case)["jobs"]
    return found


def columns(path: Path) -> list[dict[str, str]]:
    """Rows of what sprio printed, by its header; later columns of one name win, as PARTITION's factor should."""
    header, *rows = path.read_text().splitlines()
    return [dict(zip(header.split(), row.split(), strict=False)) for row in rows]


@pytest.mark.paper("4.25")
def test_weights_and_factors_of_sprio_give_its_rows(golden_dir: Path) -> None:
    samples = golden_dir / "slurm/samples"
    (printed,) = columns(samples / "sprio-w.txt")
    assert printed["JOBID"] == "Weights"
    header = (samples / "sprio-w.txt").read_text().splitlines()[0].split()[3:]  # site and the factors
    numbers = (samples / "sprio-w.txt").read_text().splitlines()[1].split()[1:]
    weights = {name.lower(): int(number) for name, number in zip(header, numbers, strict=True) if name != "SITE"}
    factors = {row["JOBID"]: row for row in columns(samples / "sprio-n-l.txt")}
    expected = columns(samples / "sprio-l.txt")
    assert len(expected) == 3
    jobs = [
        {"id": row["JOBID"], "site": int(row["SITE"]), "nice": int(row["NICE"])}
        | {name: float(factors[row["JOBID"]][name.upper()]) for name in ("age", "assoc", "fairshare", "jobsize")}
        | {name: float(factors[row["JOBID"]][name.upper()]) for name in ("partition", "qos")}
        for row in expected
    ]
    case = {"algorithm": {"name": "slurm-multifactor"}, "weights": weights, "jobs": jobs}
    found = solve_job_case(case)["jobs"]
    for row in expected:
        answer = found[row["JOBID"]]
        names = ("PRIORITY", "SITE", "AGE", "ASSOC", "FAIRSHARE", "JOBSIZE", "PARTITION", "QOS", "NICE")
        assert [answer[name.lower()] for name in names] == [int(row[name]) for name in names]


def test_the_example_of_the_contract() -> None:
    answer = solved({"site": 4321, "fairshare": 0.6, "jobsize": 0.875, "partition": 1})["0"]
    lines = answer.pop("explain")
    assert answer == {
        "priority": 64908,
        "site": 4321,
        "age": 0,
        "assoc": 0,
        "fairshare": 60000,
        "jobsize": 88,
        "partition": 500,
        "qos": 0,
        "tres": 0,
        "nice": 0,
    }
    assert lines[:2] == [
        "priority 64908 (the sum without its fraction)",
        "sum 64908.5 = 4321 (site) + 0 (age) + 0 (association) + 60000 (fairshare) + 87.5 (job size) + 500 (partition)"
        " + 0 (QOS) + 0 (TRES) − 0 (nice)",
    ]
    assert "job size 87.5 = 0.875 × 100 (weight)" in lines


@pytest.mark.parametrize(
    ("site", "nice", "priority"),
    [
        (7000, 0, 107587),
        (-7000, 0, 93587),
        (-100400, 0, 187),
        (-2000000, 0, 1),
        (2147483645, 0, 2147584232),
        (2147483645, -2147483645, 4294967295),
        (0, 500, 100087),
        (0, -2000, 102587),
        (0, 2147483645, 1),
        (123, 5, 100705),
    ],
)
def test_site_and_nice_move_the_priority_as_measured(site: int, nice: int, priority: int) -> None:
    answer = solved({"fairshare": 1, "jobsize": 0.875, "partition": 1, "site": site, "nice": nice})["0"]
    assert (answer["priority"], answer["site"], answer["nice"]) == (priority, site, nice)


@pytest.mark.parametrize(("cpus", "factor"), [(6, 0.875), (3, 0.6875), (8, 1.0)])
def test_job_size_is_the_mean_of_its_node_and_cpu_fractions(cpus: int, factor: float) -> None:
    cluster = {"cpus": 8, "nodes": 1}
    answer = solved({"cpus": cpus, "nodes": 1}, weights={"jobsize": 10**9}, cluster=cluster)["0"]
    assert answer["jobsize"] == factor * 10**9
    assert f"job size factor {factor:g} = (1/1 + {cpus}/8) / 2" in answer["explain"]


def test_favouring_small_jobs_inverts_the_size_factor() -> None:
    jobs = solved(
        {"cpus": 2, "nodes": 1},
        {"nodes": 3},
        {"cpus": 9, "nodes": 9},
        weights={"jobsize": 1000},
        cluster={"cpus": 8, "nodes": 4},
        favor_small=True,
    )
    assert [job["jobsize"] for job in jobs.values()] == [750, 250, 0]


def test_a_job_has_one_node_by_default() -> None:
    assert job_size_factor(Cluster(8, 4), cpus=8, nodes=1, favors_small=False) == 0.625
    answer = solved({"cpus": 8}, weights={"jobsize": 1000}, cluster={"cpus": 8, "nodes": 4})["0"]
    assert answer["jobsize"] == 625


def test_age_is_limited_to_the_maximum() -> None:
    jobs = solved({"age_s": 124}, {"age_s": 604800}, {"age_s": 10**9}, weights={"age": 10**6})
    assert [job["age"] for job in jobs.values()] == [205, 10**6, 10**6]
    assert age_factor(0.0, 0.0) == 1.0
    assert solved({"age_s": 30}, weights={"age": 100}, max_age_s=60)["0"]["age"] == 50


def test_a_given_factor_overrides_a_computed_one() -> None:
    answer = solved({"jobsize": 0.5, "cpus": 8, "nodes": 1, "age": 0.25, "age_s": 604800})["0"]
    assert (answer["jobsize"], answer["age"]) == (50, 250)


def test_lines_add_up_from_seconds_and_cores_too() -> None:
    job = {"age_s": 124, "cpus": 6, "nodes": 2, "fairshare": 0.3, "site": -7000, "nice": -5}
    for favors_small in (False, True):
        case = {"cluster": {"cpus": 8, "nodes": 4}, "favor_small": favors_small}
        assert_lines_add_up(solved(job, **case)["0"]["explain"])


def test_terms_are_rounded_half_to_even_as_sprio_prints() -> None:
    jobs = solved({"jobsize": 0.625}, {"jobsize": 0.875}, {"jobsize": 0.6875}, weights={"jobsize": 100})
    assert [job["jobsize"] for job in jobs.values()] == [62, 88, 69]


@each_case(
    ("case", "job", "place"),
    [
        ({"weights": None}, {}, "weights"),
        ({"weights": {"fare": 1}}, {}, "weights"),
        ({"weights": {"age": -1}}, {}, "weights.age"),
        ({"weights": {"age": float("inf")}}, {}, "weights.age"),
        ({"weights": {"age": True}}, {}, "weights.age"),
        ({"max_age_s": -1}, {}, "max_age_s"),
        ({"favor_small": "yes"}, {}, "favor_small"),
        ({"cluster": {"cpus": 0, "nodes": 1}}, {}, "cluster.cpus"),
        ({"cluster": {"cpus": 8}}, {}, "cluster.nodes"),
        ({"algorithm": {"name": "slurm-multifactor", "k": 1}}, {}, "algorithm"),
        ({}, {"fairshare": 1.5}, "jobs.0.fairshare"),
        ({}, {"fairshare": float("nan")}, "jobs.0.fairshare"),
        ({}, {"age_s": -1}, "jobs.0.age_s"),
        ({}, {"cpus": 4}, "cluster"),
        ({}, {"site": 2147483646}, "jobs.0.site"),
        ({}, {"nice": 0.5}, "jobs.0.nice"),
        ({}, {"nice": 10**400}, "jobs.0.nice"),
    ],
)
def test_invalid_sam_input_is_rejected_with_its_location(case: dict[str, Any], job: dict[str, Any], place: str) -> None:
    with pytest.raises(EngineError) as refused:
        solved(job, **case)
    assert refused.value.place == place


SIXTEENTHS = st.integers(min_value=0, max_value=16).map(lambda n: Fraction(n, 16))


@given(
    weights=st.dictionaries(st.sampled_from(FACTORS), st.integers(min_value=0, max_value=2**32 - 1)),
    factors=st.dictionaries(st.sampled_from(FACTORS), SIXTEENTHS),
    site=st.integers(min_value=-2147483645, max_value=2147483645),
    nice=st.integers(min_value=-2147483645, max_value=2147483645),
)
def test_the_oracle_in_fractions_agrees_and_the_lines_add_up(
    weights: dict[str, int], factors: dict[str, Fraction], site: int, nice: int
) -> None:
    job = {name: float(factor) for name, factor in factors.items()} | {"site": site, "nice": nice}
    answer = solved(job, weights=weights)["0"]
    assert answer["priority"] == slurm_priority(weights, factors, site, nice)
    assert_lines_add_up(answer["explain"])


def assert_lines_add_up(lines: list[str]) -> None:
    """Every calculation gives the number before it, and the terms of the sum are those of their own lines."""
    found = {}
    for line in lines:
        result, is_calculated, calculation = re.sub(r" \([A-Za-z][^()]*\)", "", line).partition(" = ")
        label, _, number = result.rpartition(" ")
        found[label] = float(number)
        if is_calculated:
            assert evaluate(calculation) == pytest.approx(float(number), rel=1e-12, abs=1e-12), line
    factors = [found[label] for label in LABELS.values()]
    site = float(lines[1].split(" = ")[1].split(" (site)")[0])
    nice = float(lines[1].split(" − ")[1].split(" (nice)")[0])
    assert sum(factors) + site - nice == found["sum"]


def evaluate(calculation: str) -> float:
    """Numbers with + − × / and parentheses."""
    plain = calculation.replace("×", "*").replace("−", "-")
    assert re.fullmatch(r"[-+*/() 0-9.e]+", plain), calculation
    return float(eval(plain))  # noqa: S307 - only digits and signs of calculation get here
