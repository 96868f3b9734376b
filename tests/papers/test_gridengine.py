"""Numbers that the text on Grid Engine's job priorities prints, beside ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.contrib.jobs.algorithms.gridengine import solve
from tests.papers_by_claim import PaperValue

Printed = Callable[[str], dict[str, Any]]


@pytest.fixture
def printed(golden_dir: Path) -> Printed:
    """A job set of the text, by the beginning of its name, with the numbers that are printed."""
    cases = json.loads((golden_dir / "gridengine/blog_cases.json").read_text())
    return lambda name: next(case for case in cases if case["id"].startswith(name))


@pytest.mark.paper("1.4")
def test_without_any_policy(printed: Printed, paper_value: PaperValue) -> None:
    case = printed("blog01")
    priorities = {row["prior"] for row in solve(case)["jobs"].values()}
    assert len(priorities) == 1
    assert max(priorities) == pytest.approx(0.555, abs=1e-12)
    paper_value("1.4", "priority", priorities.pop(), 0.555)


@pytest.mark.paper("1.7", "1.8", "1.13")
@pytest.mark.parametrize(
    ("claim", "name", "n_jobs"), [("1.7", "blog02", 9), ("1.8", "blog03", 9), ("1.13", "blog04", 32)]
)
def test_every_printed_priority(claim: str, name: str, n_jobs: int, printed: Printed, paper_value: PaperValue) -> None:
    case = printed(name)
    rows = solve(case)["jobs"]
    same = [rows[job]["prior"] == pytest.approx(row["prior"], abs=1.1e-5) for job, row in case["expected"].items()]
    paper_value(claim, "priorities that agree to five digits", sum(same), n_jobs)
    assert len(same) == n_jobs == sum(same)


@pytest.mark.paper("1.15", "1.16", "1.18", "1.19", "1.20")
def test_the_worked_example(printed: Printed, paper_value: PaperValue) -> None:
    case = printed("blog07")
    result = solve(case)
    for job, row in case["expected"].items():
        ours = result["jobs"][job]
        claim = "1.16" if "ntckts" not in row else "1.18"
        paper_value(claim, f"{job}, tickets cut to whole ones", int(ours["ftckt"]), row["ftckt"])
        assert int(ours["ftckt"]) == row["ftckt"]
        if "ntckts" in row:
            paper_value("1.19", job, ours["ntckts"], row["ntckts"])
            assert ours["ntckts"] == pytest.approx(row["ntckts"], abs=1.1e-5)
    totals = result["totals"]
    paper_value("1.20", "running", totals["running"]["ftckt"], case["totals"]["running"])
    paper_value("1.20", "pending", totals["pending"]["ftckt"], case["totals"]["pending"])
    assert abs(totals["pending"]["ftckt"] - case["totals"]["pending"]) < len(case["expected"])  # each is cut there
    running = sum(result["jobs"][job["id"]]["ftckt"] for job in case["jobs"] if job["state"] == "running")
    paper_value("1.15", "tickets of all running jobs", running, 1_000_000)


@pytest.mark.paper("1.21")
def test_a_thousand_pending_jobs_of_one_user(printed: Printed, paper_value: PaperValue) -> None:
    case = printed("blog08")
    n_pending = case["inputs"]["pending_large"]
    running = [{"id": f"r{name}", "user": name, "state": "running"} for name in "ABC"]
    pending = [{"id": f"p{number}", "user": "B"} for number in range(n_pending)]
    users = [{"name": name, "fshare": 100} for name in "ABC"]
    for limit, name in (
        (n_pending, "without a limit of jobs"),
        (200, "with the limit of 200 jobs that is the default"),
    ):
        config = {**case["config"], "max_functional_jobs_to_schedule": limit}
        jobs = solve({"config": config, "users": users, "jobs": running + pending})["jobs"]
        total = sum(int(row["ftckt"]) for job, row in jobs.items() if job[0] == "p")
        paper_value("1.21", f"{name}, each cut to whole tickets", total, 540_051 if limit == n_pending else None)
        assert (total == 540_051) == (limit == n_pending)
