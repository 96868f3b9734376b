"""What an answer says of all jobs (sums of tickets, jobs beyond the limit), presets by name, and unknown names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from apps.contrib.jobs.algorithms import all_job_algorithms, solve_job_case
from apps.contrib.jobs.algorithms.gridengine import GRID_ENGINE, solve, term_weights
from apps.contrib.jobs.algorithms.gridengine.config import DEFAULTS, OTHER_NAMES, PRESETS
from apps.engine.errors import BadCase
from tests.contrib.jobs.algorithms.gridengine_cases import column, job
from tests.contrib.jobs.algorithms.test_gridengine_properties import cases
from tests.each_case import each_case
from tests.examples import examples

USERS = [{"name": name, "fshare": 100} for name in ("userA", "userB", "userC")]


def many(n_jobs: int, limit: int | None = None, **config: Any) -> dict[str, Any]:
    """userB's pending jobs beside a running job of each user."""
    running = [{"id": f"r{user['name']}", "user": user["name"], "state": "running"} for user in USERS]
    pending = [{"id": f"p{n}", "user": "userB"} for n in range(n_jobs)]
    settings = {"weight_tickets_functional": 1000000, "max_functional_jobs_to_schedule": limit, **config}
    return {"config": settings, "users": USERS, "jobs": [*running, *pending]}


# Sums and limits


@pytest.mark.paper("1.20")
def test_sums_of_tickets_are_those_of_the_worked_example(golden_dir: Path) -> None:
    cases = json.loads((golden_dir / "gridengine/blog_cases.json").read_text())
    (case,) = (case for case in cases if case["id"].startswith("blog07"))
    totals = solve(case)["totals"]
    assert totals["running"]["tckts"] == totals["running"]["ftckt"] == case["totals"]["running"] == 1000000
    assert totals["pending"]["ftckt"] == pytest.approx(215277.78, abs=0.01)  # 215275 where each is cut first
    assert totals["pending"]["stckt"] == totals["pending"]["otckt"] == 0


def test_the_result_lists_jobs_beyond_the_limit() -> None:
    answer = solve(many(1000))
    assert answer["beyond_limit"] == {
        "setting": "max_functional_jobs_to_schedule",
        "limit": 200,
        "n_jobs": 800,
        "jobs": [f"p{n}" for n in range(200, 1000)],
    }
    (note,) = answer["notes"]
    assert all(part in note for part in ("max_functional_jobs_to_schedule", "200", "800", "1000", "p200", "p205"))
    assert "p206" not in note
    beyond = [answer["jobs"][name]["ftckt"] for name in answer["beyond_limit"]["jobs"]]
    assert len(set(beyond)) == 1
    assert beyond[0] == pytest.approx(answer["jobs"]["p199"]["ftckt"], rel=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"limit": 1000},
        {"limit": 1001},
        {"limit": 5, "weight_tickets_functional": 0},
        {"limit": 5, "variant": "even_split"},
    ],
)
def test_without_excess_jobs_none_are_listed(settings: dict[str, Any]) -> None:
    answer = solve(many(1000, **settings))
    assert not {"beyond_limit", "notes"} & answer.keys()


def test_jobs_without_functional_shares_are_not_counted_as_excess() -> None:
    case = many(3, 1)
    case["jobs"].append({"id": "stranger", "user": "nobody"})
    assert solve(case)["beyond_limit"]["jobs"] == ["p1", "p2"]


def test_a_limit_of_zero_excludes_all_jobs_with_a_reason() -> None:
    answer = solve(many(2, 0))
    assert answer["beyond_limit"]["jobs"] == ["p0", "p1"]
    for name in ("p0", "p1"):
        assert answer["jobs"][name]["ftckt"] == 0
        assert any("max_functional_jobs_to_schedule is 0" in line for line in answer["jobs"][name]["explain"])


@examples(120)
@given(cases())
def test_the_limit_counts_only_jobs_with_shares(case: dict[str, Any]) -> None:
    """And those that it doesn't cut have the tickets that they have without it."""
    limit = case["config"]["max_functional_jobs_to_schedule"]
    answer = solve(case)
    without = solve({**case, "config": {**case["config"], "max_functional_jobs_to_schedule": 10**6}})
    assert "beyond_limit" not in without
    beyond = answer["beyond_limit"]["jobs"] if "beyond_limit" in answer else []
    pending = [each["id"] for each in case["jobs"] if each["state"] == "pending"]
    sharing = [name for name in pending if without["jobs"][name]["ftckt"] > 0]
    assert len(beyond) == max(0, len(_with_shares(case, pending)) - limit)
    assert set(sharing) <= set(_with_shares(case, pending))
    for name in set(pending) - set(beyond):
        assert answer["jobs"][name]["ftckt"] == without["jobs"][name]["ftckt"]


def _with_shares(case: dict[str, Any], pending: list[str]) -> list[str]:
    """Pending jobs that have functional shares by any category, where the policy has tickets."""
    if case["config"]["weight_tickets_functional"] == 0:
        return []
    shares = {
        (kind, owner["name"]): owner["fshare"]
        for kind, plural in (("user", "users"), ("project", "projects"), ("department", "departments"))
        for owner in case[plural]
    }
    return [
        each["id"]
        for each in case["jobs"]
        if each["id"] in pending
        and (
            each["job_share"] > 0
            or any(shares.get((kind, each[kind]), 0) > 0 for kind in ("user", "project", "department"))
        )
    ]


# Presets


@pytest.mark.paper("1.2")
def test_the_weights_of_6_2_are_those_after_its_installation() -> None:
    assert term_weights({"config": {"preset": "6.2"}}) == {
        "config.weight_urgency": 0.1,
        "config.weight_ticket": 0.01,
        "config.weight_priority": 1.0,
    }


@pytest.mark.paper("1.4")
def test_without_policies_the_defaults_of_6_2_give_0_555() -> None:
    rows = solve({"config": {"preset": "6.2"}, "jobs": [job(1), job(2)]})["jobs"]
    assert column(rows, "prior") == pytest.approx([0.555, 0.555], abs=1e-15)


@pytest.mark.paper("1.13")
def test_the_preset_gives_the_table_of_posix_priorities(golden_dir: Path) -> None:
    cases = json.loads((golden_dir / "gridengine/blog_cases.json").read_text())
    (case,) = (case for case in cases if case["id"].startswith("blog04"))
    named = {**case, "config": {**{k: v for k, v in case["config"].items() if k == "urgency"}, "preset": "6.2"}}
    rows = solve(named)["jobs"]
    assert len(case["expected"]) == 32
    for name, expected in case["expected"].items():
        assert rows[name]["prior"] == pytest.approx(expected["prior"], abs=6e-6)


@pytest.mark.paper("1.6")
def test_urgency_of_slots_is_1000_in_6_2_and_waiting_counts_nothing() -> None:
    jobs = [job(1, slots=8, submitted_s_ago=500)]
    row = solve({"config": {"preset": "6.2"}, "jobs": jobs})["jobs"]["1"]
    assert (row["rrcontr"], row["wtcontr"]) == (8000, 0)
    installed = solve({"config": {"preset": "8.1.9"}, "jobs": jobs})
    assert installed == solve({"config": {}, "jobs": jobs})
    assert installed["jobs"]["1"]["rrcontr"] == 0


def test_case_values_override_the_preset() -> None:
    config = {"preset": "6.2", "weight_priority": 0, "urgency": {"slots": 1}}
    row = solve({"config": config, "jobs": [job(1)]})["jobs"]["1"]
    assert row["prior"] == pytest.approx(0.055)
    assert row["rrcontr"] == 1


@pytest.mark.parametrize("value", ["6.1", "", 6.2, [], True])
def test_an_unknown_preset_is_rejected_with_the_available_ones(value: object) -> None:
    with pytest.raises(BadCase) as refused:
        solve({"config": {"preset": value}, "jobs": []})
    assert refused.value.place == "config.preset"
    assert all(name in refused.value.message for name in PRESETS)


def test_a_case_with_a_preset_is_a_grid_engine_case() -> None:
    assert solve_job_case({"config": {"preset": "6.2"}, "jobs": []})["pending_order"] == []


# Unknown names

GRID: dict[str, Any] = {"algorithm": {"name": "gridengine"}, "jobs": [{"id": "1"}]}
SLURM: dict[str, Any] = {"algorithm": {"name": "slurm-multifactor"}, "weights": {"age": 1}, "jobs": [{"id": "1"}]}
SAM: dict[str, Any] = {
    "algorithm": {"name": "sam"},
    "shares": {"g": 1},
    "jobs": [{"id": "1", "group": "g", "benefit": 1}],
}


@each_case(
    ("case", "place", "name", "nearest"),
    [
        ({**GRID, "config": {"weight_tiket": 1}}, "config", "weight_tiket", "weight_ticket"),
        ({**GRID, "config": {"auto_user_fshares": 1}}, "config", "auto_user_fshares", "auto_user_fshare"),
        ({**GRID, "config": {"functional_jobs": 1}}, "config", "functional_jobs", "max_functional_jobs_to_schedule"),
        ({**GRID, "config": {"zzz": 1}}, "config", "zzz", "weight_ticket"),
        ({**GRID, "user": []}, "case", "user", "users"),
        ({**GRID, "share_tree": None}, "case", "share_tree", "sharetree"),
        ({**GRID, "users": [{"name": "a", "fshares": 1}]}, "users.a", "fshares", "fshare"),
        ({**GRID, "projects": [{"name": "a", "project_usage": {}}]}, "projects.a", "project_usage", "usage"),
        ({**GRID, "departments": [{"name": "a", "otickets": 1}]}, "departments.a", "otickets", "oticket"),
        ({**GRID, "jobs": [{"id": "1", "priority": 5}]}, "jobs.1", "priority", "posix_priority"),
        ({**GRID, "hidden_jobs": [{"urgency": 5}]}, "hidden_jobs[0]", "urgency", "urg"),
        ({**GRID, "sharetree": {"name": "R", "shares": 1, "childs": []}}, "sharetree", "childs", "children"),
        ({**SLURM, "max_age": 1}, "case", "max_age", "max_age_s"),
        ({**SLURM, "cluster": {"cpu": 1, "cpus": 1, "nodes": 1}}, "cluster", "cpu", "cpus"),
        ({**SLURM, "jobs": [{"id": "1", "fair_share": 1}]}, "jobs.1", "fair_share", "fairshare"),
        ({**SAM, "benefits": {}}, "case", "benefits", "benefit"),
        ({**SAM, "jobs": [{"id": "1", "grup": "g", "group": "g", "benefit": 1}]}, "jobs.1", "grup", "group"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(
    case: dict[str, Any], place: str, name: str, nearest: str
) -> None:
    with pytest.raises(BadCase) as refused:
        solve_job_case(case)
    assert refused.value.place == place
    assert f'"{name}"' in refused.value.message
    assert nearest in refused.value.message


@pytest.mark.parametrize("case", [GRID, SLURM, SAM])
def test_notes_of_a_case_are_ignored(case: dict[str, Any]) -> None:
    remarks = {
        "description": "x",
        "note": "y",
        "source": "z",
        "weights_note": "w",
        "expected": {},
        "expected_order": [],
    }
    jobs = [{**each, "note": "the first"} for each in case["jobs"]]
    assert solve_job_case({**case, **remarks, "jobs": jobs}) == solve_job_case(case)


def test_scheduler_settings_without_effect_on_priority_are_accepted() -> None:
    pasted = {"schedule_interval": "0:0:15", "load_formula": "np_load_avg", "report_pjob_tickets": True}
    assert solve({**GRID, "config": pasted}) == solve(GRID)


def test_every_setting_that_is_read_is_declared() -> None:
    declared = {field.name.removeprefix("config.") for field in GRID_ENGINE.fields if field.name.startswith("config.")}
    assert declared == {*DEFAULTS, *OTHER_NAMES}
    assert all(algorithm.fields for algorithm in all_job_algorithms().values())
