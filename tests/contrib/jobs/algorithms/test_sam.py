"""SAM's decision against the captured table, a slow twin in fractions, and what the contract refuses."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.jobs.algorithms import solve_job_case
from apps.contrib.jobs.algorithms.benefits import BENEFITS, Benefit
from apps.contrib.jobs.algorithms.sam import fraction_after, goes_to_front
from apps.engine.errors import EngineError
from tests.each_case import each_case
from tests.oracles.jobs import sam_queue

CASE: dict[str, Any] = {
    "id": "two-jobs",
    "algorithm": {"name": "sam"},
    "shares": {"g1": 0.5, "g2": 0.5},
    "benefit": {"g1": 23, "g2": 26},
    "priority_groups": {"raw-data": 10},
    "p_front": 1,
    "p_back": 0,
    "jobs": [{"id": "j1", "group": "g1", "benefit": 1}, {"id": "j2", "group": "g1", "benefit": 2.5}],
}


CPU_S = {"name": "sam", "benefit": "cpu_s"}


def solved(**changed: Any) -> dict[str, Any]:
    jobs: dict[str, Any] = solve_job_case({**CASE, **changed})["jobs"]
    return jobs


@pytest.mark.paper("3.1", "3.2", "3.4")
def test_every_decision_equals_the_table(golden_dir: Path) -> None:
    examples = json.loads((golden_dir / "sam/sam.json").read_text())["decisions"]["examples"]
    assert len(examples) == 10
    for example in examples:
        job = {"id": "j", "group": example["group"], "benefit": example["benefit"]}
        answer = solved(shares=example["share"], benefit=example["B"], jobs=[job])["j"]
        assert answer["queue"] == example["queue"], example
        assert answer["fraction_after"] == pytest.approx(example["fraction_after"], rel=1e-12)


@pytest.mark.paper("3.6")
def test_front_and_back_have_the_two_given_priorities() -> None:
    jobs = solved(p_front=7.5, p_back=3)
    assert {job["queue"]: job["priority"] for job in jobs.values()} == {"front": 7.5, "back": 3}


def test_a_job_is_booked_before_the_next_is_decided() -> None:
    jobs = solved()
    assert (jobs["j1"]["queue"], jobs["j1"]["priority"], jobs["j1"]["fraction_after"]) == ("front", 1, 0.48)
    assert (jobs["j2"]["queue"], jobs["j2"]["priority"]) == ("back", 0)
    assert jobs["j2"]["fraction_after"] == pytest.approx(26.5 / 52.5, rel=1e-12)


def test_deferred_booking_decides_each_job_by_the_same_ledger() -> None:
    jobs = solved(booked="later", jobs=[{"id": i, "group": "g1", "benefit": 1} for i in "abc"])
    assert [job["fraction_after"] for job in jobs.values()] == [0.48, 0.48, 0.48]


def test_priority_jobs_are_neither_booked_nor_counted() -> None:
    jobs = solved(
        benefit={"g1": 23, "g2": 26, "raw-data": 1e9},
        jobs=[
            {"id": "p", "group": "raw-data"},
            {"id": "q", "group": "raw-data", "benefit": 1e9},
            {"id": "f", "group": "g1", "benefit": 1},
        ],
    )
    assert (jobs["p"]["queue"], jobs["p"]["priority"], jobs["p"]["fraction_after"]) == ("priority", 10, None)
    assert jobs["f"]["fraction_after"] == 0.48


def test_with_no_benefit_at_all_the_fraction_is_one() -> None:
    jobs = solved(benefit={}, jobs=[{"id": "a", "group": "g1", "benefit": 0}, {"id": "b", "group": "g1", "benefit": 2}])
    assert [(job["queue"], job["fraction_after"]) for job in jobs.values()] == [("back", 1.0), ("back", 1.0)]


def test_a_group_in_neither_table_has_no_share_and_goes_to_the_back() -> None:
    assert solved(jobs=[{"id": "a", "group": "stranger", "benefit": 0}])["a"]["queue"] == "back"


def test_shares_count_by_their_proportion_only() -> None:
    by_parts, by_percent = solved(shares={"g1": 0.3, "g2": 0.7}), solved(shares={"g1": 30, "g2": 70})
    assert by_parts == by_percent


@pytest.mark.paper("3.4")
def test_equality_in_decimals_goes_to_the_back() -> None:
    answer = solved(
        shares={"a": 0.3, "b": 0.7}, benefit={"a": 0.1, "b": 0.7}, jobs=[{"id": "j", "group": "a", "benefit": 0.2}]
    )
    assert answer["j"]["queue"] == "back"


def test_huge_and_tiny_benefits_stay_finite() -> None:
    jobs = solved(benefit={"g1": 1e308, "g2": 1.7e308}, jobs=[{"id": "a", "group": "g1", "benefit": 1.7e308}])
    assert jobs["a"]["fraction_after"] == pytest.approx(2.7 / 4.4)
    jobs = solved(benefit={"g1": 1e-300, "g2": 3e-300}, jobs=[{"id": "a", "group": "g1", "benefit": 0}])
    assert (jobs["a"]["queue"], jobs["a"]["fraction_after"]) == ("front", 0.25)


@pytest.mark.paper("3.15")
def test_the_explanation_has_the_deciding_numbers() -> None:
    first, second = solved()["j1"]["explain"]
    assert first == "fraction after 0.48 = (23 + 1) / (49 + 1)"
    assert second == "priority 1 (front: below the share of g1, 0.5)"


@pytest.mark.paper("3.8")
def test_the_case_names_a_benefit_function_of_job_fields() -> None:
    jobs = solved(
        algorithm={"name": "sam", "benefit": "cpu_s"},
        jobs=[{"id": "a", "group": "g1", "cpus": 2, "run_s": 0.5}, {"id": "b", "group": "g1", "benefit": 1}],
    )
    assert jobs["a"]["fraction_after"] == 0.48
    assert jobs["b"]["fraction_after"] == pytest.approx(25 / 51)


def test_every_benefit_function_is_described_and_monotonic() -> None:
    for benefit in BENEFITS.values():
        assert isinstance(benefit, Benefit)
        assert benefit.label and benefit.formula and benefit.unit  # noqa: PT018 - all three or the page has a gap
        twos, threes = (benefit.of(dict.fromkeys(benefit.needs, n)) for n in (2.0, 3.0))
        assert (threes > twos) == bool(benefit.needs)


@each_case(
    ("changed", "place"),
    [
        ({"p_back": 1}, "p_back"),
        ({"p_front": 10}, "priority_groups.raw-data"),
        ({"p_front": float("inf")}, "p_front"),
        ({"shares": {"g1": -1}}, "shares.g1"),
        ({"shares": {"g1": float("nan")}}, "shares.g1"),
        ({"shares": None}, "shares"),
        ({"shares": [0.5]}, "shares"),
        ({"benefit": {"g1": 10**400}}, "benefit.g1"),
        ({"benefit": {"g1": "7"}}, "benefit.g1"),
        ({"priority_groups": {"x": True}}, "priority_groups.x"),
        ({"booked": "never"}, "booked"),
        ({"algorithm": {"name": "sam", "operator": "relative"}}, "algorithm"),
        ({"algorithm": {"name": "sam", "benefit": "love"}}, "algorithm.benefit"),
        ({"algorithm": CPU_S, "jobs": [{"id": "a", "group": "g1", "cpus": 1}]}, "jobs.a.run_s"),
        ({"jobs": None}, "jobs"),
        ({"jobs": [7]}, "jobs[0]"),
        ({"jobs": [{"group": "g1", "benefit": 1}]}, "jobs[0].id"),
        ({"jobs": [{"id": "a", "benefit": 1}]}, "jobs.a.group"),
        ({"jobs": [{"id": "a", "group": "g1"}]}, "jobs.a.benefit"),
        ({"jobs": [{"id": "a", "group": "g1", "benefit": -1}]}, "jobs.a.benefit"),
        ({"jobs": [{"id": "a", "group": "g1", "benefit": 1}, {"id": "a", "group": "g1", "benefit": 1}]}, "jobs[1].id"),
    ],
)
def test_invalid_sam_input_is_rejected_with_its_location(changed: dict[str, Any], place: str) -> None:
    with pytest.raises(EngineError) as refused:
        solved(**changed)
    assert refused.value.place == place


AMOUNTS = st.integers(min_value=0, max_value=1000)


@given(
    shares=st.dictionaries(st.sampled_from("abcd"), AMOUNTS, min_size=1),
    benefit=st.dictionaries(st.sampled_from("abcd"), AMOUNTS),
    jobs=st.lists(st.tuples(st.sampled_from("abcdep"), AMOUNTS), max_size=12),
    is_booked=st.booleans(),
)
def test_the_oracle_in_fractions_agrees(
    shares: dict[str, int], benefit: dict[str, int], jobs: list[tuple[str, int]], is_booked: bool
) -> None:
    arrivals = [{"id": str(i), "group": group, "benefit": amount} for i, (group, amount) in enumerate(jobs)]
    booked = "at_once" if is_booked else "later"
    case = {"shares": shares, "benefit": benefit, "booked": booked, "priority_groups": {"p": 10}, "jobs": arrivals}
    expected = sam_queue(shares, benefit, {"p"}, jobs, is_booked=is_booked)
    found = [(job["queue"], job["fraction_after"]) for job in solved(**case).values()]
    assert [queue for queue, _ in found] == [queue for queue, _ in expected]
    for (_, fraction), (_, exact) in zip(found, expected, strict=True):
        assert fraction is exact is None or fraction == pytest.approx(float(exact or 0), rel=1e-12, abs=0)


@given(received=AMOUNTS, others=AMOUNTS, benefit=AMOUNTS)
def test_more_benefit_never_lowers_the_fraction(received: int, others: int, benefit: int) -> None:
    before = fraction_after(received, received + others, benefit)
    assert fraction_after(received + 1, received + others + 1, benefit) >= before - 1e-15 or received + others == 0
    assert not goes_to_front(before, float(Fraction(before)))
