"""Benefits of SAM's queue: weighted sums, and processes that run at once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.jobs.algorithms import get_job_algorithm, solve_job_case
from apps.contrib.jobs.algorithms.benefits import BENEFITS, read_benefit
from apps.engine.errors import EngineError
from tests.examples import examples
from tests.oracles.jobs import sam_queue

CASE: dict[str, Any] = {"shares": {"g1": 0.5, "g2": 0.5}, "jobs": []}
AMOUNTS = st.integers(min_value=0, max_value=1000)


def solved(benefit: object, /, *jobs: dict[str, Any], **case: Any) -> dict[str, Any]:
    given = {**CASE, **case, "algorithm": {"name": "sam", "benefit": benefit}, "jobs": list(jobs)}
    found: dict[str, Any] = solve_job_case(given)
    return found


def refused_at(benefit: object, /, *jobs: dict[str, Any], **case: Any) -> str:
    with pytest.raises(EngineError) as refused:
        solved(benefit, *jobs, **case)
    return refused.value.place


def job(name: str = "j", group: str = "g1", **fields: Any) -> dict[str, Any]:
    return {"id": name, "group": group, **fields}


@pytest.mark.paper("3.11")
def test_data_is_booked_by_its_gigabytes() -> None:
    solution = solved("data_gb", job("a", data_gb=5, mem_gb=900), benefit={"g1": 23, "g2": 73})
    assert solution["jobs"]["a"]["fraction_after"] == 28 / 101
    assert (solution["ledger"]["unit"], solution["ledger"]["groups"]["g1"]["booked"]) == ("GB", 5)


# Weighted sums


@pytest.mark.paper("3.9")
def test_a_weighted_sum_adds_each_benefit_times_its_weight() -> None:
    one = job(cpus=2, run_s=3, data_gb=5)
    answer = solved({"cpu_s": 2, "data_gb": 3}, one, benefit={"g1": 23, "g2": 73})["jobs"]["j"]
    assert answer["fraction_after"] == (23 + 27) / (96 + 27)
    assert answer["explain"][-1].startswith("benefit 27 (")
    assert "2 · (cpus · run_s) + 3 · (data_gb)" in answer["explain"][-1]


def test_a_sum_of_one_benefit_with_weight_one_is_that_benefit() -> None:
    jobs = [job(str(n), "g1" if n % 2 else "g2", cpus=n, run_s=10 + n) for n in range(6)]
    named, summed = (solved(benefit, *jobs)["jobs"] for benefit in ("cpu_s", {"cpu_s": 1}))
    assert [each["fraction_after"] for each in named.values()] == [each["fraction_after"] for each in summed.values()]


def test_fields_of_a_benefit_without_weight_are_not_required() -> None:
    assert solved({"jobs": 1, "gpu_s": 0}, job())["jobs"]["j"]["queue"] == "back"
    assert refused_at({"jobs": 1, "gpu_s": 1}, job()) == "jobs.j.gpus"


@pytest.mark.parametrize(
    ("benefit", "place"),
    [
        ({}, "algorithm.benefit"),
        ({"cpu_s": 0}, "algorithm.benefit"),
        ({"cpu_s": -1}, "algorithm.benefit.cpu_s"),
        ({"cpu_s": "2"}, "algorithm.benefit.cpu_s"),
        ({"cpu_s": True}, "algorithm.benefit.cpu_s"),
        ({"cpu_s": float("nan")}, "algorithm.benefit.cpu_s"),
        ({"cpu_s": {"g1": 1}}, "algorithm.benefit.cpu_s"),
        ({"cpu": 1}, "algorithm.benefit.cpu"),
        ({"cpu_s": 1, "processes": 1}, "algorithm.benefit.processes"),
        (["cpu_s"], "algorithm.benefit"),
        (7, "algorithm.benefit"),
    ],
)
def test_invalid_weights_are_rejected_with_their_location(benefit: object, place: str) -> None:
    assert refused_at(benefit, job(cpus=1, run_s=1, processes=1)) == place


def test_a_sum_beyond_the_largest_number_is_refused() -> None:
    assert refused_at({"cpu_s": 1e308, "wall_s": 1}, job(cpus=9, run_s=9)) == "jobs.j.benefit"


@examples(60)
@given(
    weights=st.tuples(AMOUNTS, AMOUNTS).filter(any),
    arrivals=st.lists(st.tuples(st.sampled_from("ab"), AMOUNTS, AMOUNTS), max_size=8),
    shares=st.tuples(AMOUNTS, AMOUNTS),
)
def test_the_oracle_in_fractions_agrees(
    weights: tuple[int, int], arrivals: list[tuple[str, int, int]], shares: tuple[int, int]
) -> None:
    jobs = [job(str(n), group, run_s=run_s, data_gb=data_gb) for n, (group, run_s, data_gb) in enumerate(arrivals)]
    parts = dict(zip("ab", shares, strict=True))
    found = solved(dict(zip(("wall_s", "data_gb"), weights, strict=True)), *jobs, shares=parts)["jobs"]
    worth = [(group, weights[0] * run_s + weights[1] * data_gb) for group, run_s, data_gb in arrivals]
    expected = sam_queue(parts, {}, set(), worth, is_booked=True)
    assert [each["queue"] for each in found.values()] == [queue for queue, _ in expected]
    for each, (_, exact) in zip(found.values(), expected, strict=True):
        assert Fraction(each["fraction_after"]).limit_denominator(10**12) == pytest.approx(exact)


# Processes that run at once


@pytest.mark.paper("3.10")
def test_processes_are_compared_with_those_that_run_now() -> None:
    jobs = [job("a", processes=2), job("b", "g2", processes=2), job("c", processes=8)]
    found = solved("processes", *jobs, running={"g1": 2, "g2": 8})["jobs"]
    assert [each["queue"] for each in found.values()] == ["front", "back", "back"]
    assert found["a"]["fraction_after"] == 4 / 12
    assert found["b"]["fraction_after"] == 10 / 14
    assert found["c"]["fraction_after"] == 12 / 22


def test_ended_processes_no_longer_count_but_their_usage_does() -> None:
    """One history, once as running jobs and once as all jobs."""
    cumulative = solved("jobs", job(), benefit={"g1": 1000, "g2": 10})["jobs"]["j"]
    at_once = solved("processes", job(processes=1), running={"g1": 0, "g2": 10})["jobs"]["j"]
    assert (cumulative["queue"], at_once["queue"]) == ("back", "front")


def test_cumulative_and_running_benefits_are_separate() -> None:
    assert refused_at("processes", job(processes=1), benefit={"g1": 1}) == "benefit"
    assert refused_at("jobs", job(), running={"g1": 1}) == "running"
    assert refused_at(None, job(benefit=1), running={"g1": 1}) == "running"
    assert refused_at("processes", job(processes=1), running={"g1": -1}) == "running.g1"
    assert refused_at("processes", job()) == "jobs.j.processes"


# Every function


def test_each_function_can_be_weighted() -> None:
    for name, function in BENEFITS.items():
        twos = dict.fromkeys(function.needs, 2.0)
        assert read_benefit({name: 3}).of(twos) == 3 * function.of(twos)


def test_a_function_that_a_package_brought_to_an_earlier_version_is_named() -> None:
    assert refused_at({"cpu_s": 1, "energy": 2}, job(cpus=1, run_s=1)) == "algorithm.benefit.energy"
    with pytest.raises(EngineError, match='unknown benefit "energy"; allowed are cpu_s, '):
        solved("energy", job(cpus=1, run_s=1))


# The queue


@pytest.mark.paper("3.3")
def test_the_result_requires_a_queue_without_job_aging() -> None:
    (note,) = solve_job_case({**CASE, "algorithm": {"name": "sam"}})["notes"]
    assert note == get_job_algorithm("sam").condition
    assert "job ageing" in note
