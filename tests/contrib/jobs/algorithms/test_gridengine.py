"""Grid Engine's priorities against what a running 8.1.9 printed and what the blog of 2011 works out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apps.contrib.jobs.algorithms import solve_job_case
from apps.contrib.jobs.algorithms.gridengine import decay_factor, solve
from apps.contrib.jobs.algorithms.gridengine.case import read_case
from apps.contrib.jobs.algorithms.gridengine.functional import rescaled
from apps.contrib.jobs.algorithms.gridengine.sharetree import build_share_tree
from tests.contrib.jobs.algorithms.gridengine_cases import ROUNDED, differences


def vectors(golden_dir: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((golden_dir / "gridengine" / name).read_text())
    return found


def is_looked_at(job: dict[str, Any]) -> bool:
    """Held and suspended jobs keep stale numbers in print; we answer 0."""
    return job["state"] in ("pending", "running")


def test_every_real_job_set_equals_qstat(golden_dir: Path) -> None:
    cases = vectors(golden_dir, "cases.json")
    assert len(cases) == 42
    for case in cases:
        rows = solve_job_case(case)["jobs"]
        tolerance = case.get("tolerance", {})
        wrong = {
            job["id"]: problems
            for job in case["jobs"]
            if is_looked_at(job) and (problems := differences(case["expected"][job["id"]], rows[job["id"]], tolerance))
        }
        assert not wrong, (case["id"], wrong)
        assert rows.keys() == case["expected"].keys()


def test_pending_jobs_have_the_order_of_qstat(golden_dir: Path) -> None:
    for case in vectors(golden_dir, "cases.json"):
        assert solve(case)["pending_order"] == case["pending_order"], case["id"]


def test_only_held_and_suspended_jobs_are_excluded_from_the_comparison(golden_dir: Path) -> None:
    left_out = {
        case["id"] for case in vectors(golden_dir, "cases.json") if not all(is_looked_at(job) for job in case["jobs"])
    }
    assert left_out == {"ge34_held", "ge35_suspended"}


def test_usage_of_share_tree_nodes_equals_the_share_monitor(golden_dir: Path) -> None:
    compared = 0
    for case in vectors(golden_dir, "cases.json"):
        read = read_case(case)
        tree = build_share_tree(read, read.jobs)
        if tree is None:
            continue
        ours = {node.path: usage for node, usage in tree.usage.items()}
        for row in case["expected_sharetree"]:
            path = row["node_name"].replace("/default", "") or "/"
            if "/default" not in row["node_name"] and path in ours:
                assert ours[path] == pytest.approx(row["usage"], rel=2e-4, abs=0.2), (case["id"], path)
                compared += 1
    assert compared > 60


@pytest.mark.paper("1.3", "1.7", "1.8", "1.13", "1.18", "1.19", "1.31", "1.10")
def test_job_sets_of_the_blog_have_its_digits(golden_dir: Path) -> None:
    sets = [case for case in vectors(golden_dir, "blog_cases.json") if "jobs" in case]
    assert [case["id"][:6] for case in sets] == ["blog01", "blog02", "blog03", "blog04", "blog07"]
    for case in sets:
        rows = solve(case)["jobs"]
        tolerance = {name: width for name, width in case["tolerance"].items() if not isinstance(width, str)}
        for job_id, expected in case["expected"].items():
            assert not differences(expected, rows[job_id], tolerance), (case["id"], job_id)


def test_totals_of_the_worked_example_equal_the_blog(golden_dir: Path) -> None:
    (case,) = (case for case in vectors(golden_dir, "blog_cases.json") if case["id"].startswith("blog07"))
    rows = solve(case)["jobs"]
    for state, total in case["totals"].items():
        dealt = sum(int(rows[job["id"]]["ftckt"]) for job in case["jobs"] if job["state"] == state)
        assert dealt == total


@pytest.mark.paper("1.15")
def test_each_category_has_a_quarter_and_each_user_a_third_of_it(golden_dir: Path) -> None:
    split, portion = (case for case in vectors(golden_dir, "blog_cases.json") if case["id"][:6] in ("blog05", "blog06"))
    config = split["config"]
    weights = {kind: config[f"weight_{kind}"] for kind in ("user", "project", "department", "job")}
    parts = {
        kind: weight * config["weight_tickets_functional"] for kind, weight in rescaled(weights, set(weights)).items()
    }
    assert parts == pytest.approx(split["expected"], abs=split["tolerance"])
    shares = {user["name"]: user["fshare"] for user in portion["users"]}
    each = {name: int(parts["user"] * share / sum(shares.values())) for name, share in shares.items()}
    assert each == portion["expected"]


@pytest.mark.paper("1.21", "1.30")
def test_many_pending_jobs_of_one_user_exceed_the_total(golden_dir: Path) -> None:
    (case,) = (case for case in vectors(golden_dir, "blog_cases.json") if case["kind"] == "harmonic_sum")
    users = [{"name": name, "fshare": 100} for name in "ABC"]
    running = [{"id": f"r{name}", "user": name, "state": "running"} for name in "ABC"]
    inputs, expected = case["inputs"], case["expected"]
    for n_pending, total in ((inputs["pending_small"], "sum_small"), (inputs["pending_large"], "sum_large")):
        jobs = running + [{"id": f"p{index}", "user": "B"} for index in range(n_pending)]
        config = {**case["config"], "max_functional_jobs_to_schedule": n_pending}
        rows = solve({"config": config, "users": users, "jobs": jobs})["jobs"]
        assert sum(int(row["ftckt"]) for name, row in rows.items() if name[0] == "p") == expected[total]


def test_usage_is_almost_halved_after_a_half_life(golden_dir: Path) -> None:
    assert decay_factor(86400, 86400) == pytest.approx(0.49992, abs=5e-6)
    assert decay_factor(3 * 3600, 0) == decay_factor(0, 3600) == 1.0
    assert decay_factor(3600, 30) == 0.0  # the line through one minute is below zero
    (case,) = (case for case in vectors(golden_dir, "cases.json") if case["id"] == "ge47_decay_list")
    root = case["expected_sharetree"][0]
    assert decay_factor(case["usage_age_s"], 1440 * 60) * 4100 == pytest.approx(root["usage"], abs=ROUNDED)
