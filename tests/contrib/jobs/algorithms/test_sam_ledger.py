"""SAM's books: what groups have before and after a case, against fractions; and cases that continue one another."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.jobs.algorithms import solve_job_case
from tests.examples import examples

GROUPS = ("a", "b", "c")
AMOUNTS = st.integers(min_value=0, max_value=1000)
RECEIVED = st.dictionaries(st.sampled_from(GROUPS), AMOUNTS)
JOBS = st.lists(st.tuples(st.sampled_from((*GROUPS, "data-taking", "stranger")), AMOUNTS), max_size=12)
CASE: dict[str, Any] = {
    "algorithm": {"name": "sam"},
    "shares": {"a": 5, "b": 3, "c": 2},
    "priority_groups": {"data-taking": 9},
}


def solved(jobs: list[tuple[str, int]], **more: Any) -> dict[str, Any]:
    given = [{"id": str(n), "group": group, "benefit": benefit} for n, (group, benefit) in enumerate(jobs)]
    found: dict[str, Any] = solve_job_case({**CASE, **more, "jobs": given})
    return found


@examples(100)
@given(RECEIVED, JOBS, st.booleans())
@pytest.mark.paper("3.12")
def test_the_ledger_equals_exact_fractions(
    received: dict[str, int], jobs: list[tuple[str, int]], is_later: bool
) -> None:
    ledger = solved(jobs, benefit=received, booked="later" if is_later else "at_once")["ledger"]
    fair = [] if is_later else [(group, benefit) for group, benefit in jobs if group != "data-taking"]
    total = sum(received.values()) + sum(benefit for _group, benefit in fair)
    assert ledger["total"] == total
    assert set(ledger["groups"]) == {*CASE["shares"], *(group for group, _benefit in fair)}
    for group, found in ledger["groups"].items():
        booked = sum(benefit for each, benefit in fair if each == group)
        after = received.get(group, 0) + booked
        share = Fraction(CASE["shares"].get(group, 0), 10)
        assert (found["before"], found["booked"], found["after"]) == (received.get(group, 0), booked, after)
        assert found["fraction"] == (None if not total else pytest.approx(float(Fraction(after, total)), rel=1e-12))
        assert found["owed"] == pytest.approx(float(share * total - after), rel=1e-12, abs=1e-9)
    assert ledger["next"] == {"benefit": {group: each["after"] for group, each in ledger["groups"].items()}}


@examples(60)
@given(RECEIVED, JOBS)
def test_one_call_per_job_decides_like_one_call_for_all(received: dict[str, int], jobs: list[tuple[str, int]]) -> None:
    whole = solved(jobs, benefit=received)
    books: dict[str, Any] = {"benefit": received}
    for n, job in enumerate(jobs):
        answer = solved([job], **books)
        books = answer["ledger"]["next"]
        assert answer["jobs"]["0"] == whole["jobs"][str(n)]
    if jobs:
        assert books == whole["ledger"]["next"]


def test_each_job_lists_its_group_and_the_benefit_of_each_function() -> None:
    jobs = [
        {"id": "j1", "group": "a", "cpus": 2, "run_s": 3, "data_gb": 5},
        {"id": "j2", "group": "data-taking"},
        {"id": "j3", "group": "b", "benefit": 4},
    ]
    case = {**CASE, "algorithm": {"name": "sam", "benefit": {"cpu_s": 2, "data_gb": 3}}, "jobs": jobs}
    answer = solve_job_case(case)
    found = {
        name: (each["group"], each["benefit"], each["booked"], each["parts"]) for name, each in answer["jobs"].items()
    }
    assert found == {
        "j1": ("a", 27, True, {"cpu_s": 12, "data_gb": 15}),
        "j2": ("data-taking", None, False, {}),
        "j3": ("b", 4, True, {}),
    }
    assert answer["ledger"]["unit"] == "weighted units"
    later = solve_job_case({**case, "booked": "later"})
    assert [each["booked"] for each in later["jobs"].values()] == [False, False, False]


def test_a_ledger_of_running_benefits_continues_as_running() -> None:
    case = {**CASE, "algorithm": {"name": "sam", "benefit": "processes"}, "running": {"a": 4, "b": 4, "c": 2}}
    answer = solve_job_case({**case, "jobs": [{"id": "j", "group": "c", "processes": 3}]})
    assert answer["ledger"]["next"] == {"running": {"a": 4, "b": 4, "c": 5}}
    assert answer["ledger"]["unit"] == "processes"


def test_huge_benefits_keep_the_ledger_finite() -> None:
    huge = 1.7e308
    jobs = [{"id": str(n), "group": "a", "benefit": huge} for n in range(3)]
    answer = solve_job_case({**CASE, "benefit": {"b": huge}, "jobs": jobs})
    ledger = answer["ledger"]
    numbers = [ledger["total"], *(each[name] for each in ledger["groups"].values() for name in ("after", "owed"))]
    assert all(math.isfinite(number) for number in numbers)
    assert ledger["groups"]["a"]["fraction"] == pytest.approx(0.75)
    assert not any("inf" in line for job in answer["jobs"].values() for line in job["explain"])


def test_the_worked_example_of_the_documentation_is_correct() -> None:
    folder = Path(__file__).parents[4]
    case = json.loads((folder / "apps/contrib/jobs/pages/examples/sam-weighted.json").read_text())
    answer = solve_job_case(case)
    text = (folder / "docs/sam.md").read_text()
    for group, each in answer["ledger"]["groups"].items():
        row = f"| `{group}` | {each['share']:g} | {each['before']:g} | {each['booked']:g} | {each['after']:g} |"
        row += f" {each['fraction']:.4f} | {each['owed']:g} |"
        assert row in text
    for name, each in answer["jobs"].items():
        parts = " + ".join(f"{part:g}" for part in each["parts"].values())
        assert (
            f"| `{name}` | `{each['group']}` | {parts} = {each['benefit']:g} | {each['fraction_after']:.4f} |" in text
        )
