"""Grid Engine's tickets against a slow twin, and what must hold whatever the jobs are."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.jobs.algorithms.gridengine import solve
from apps.contrib.jobs.algorithms.gridengine.config import AMENDMENTS
from tests.oracles.gridengine import tickets

USERS, PROJECTS, DEPARTMENTS = ("ann", "bob", "cyd", "dan"), ("px", "py"), ("da", "db")
AS_SHIPPED = st.just("8.1.9")
SHARES = st.sampled_from([0, 0, 1, 3, 10, 75, 100])
TREES = (
    {"name": "Root", "shares": 1, "children": [{"name": name, "shares": 10} for name in USERS[:3]]},
    {
        "name": "Root",
        "shares": 1,
        "children": [
            {"name": "g1", "shares": 3, "children": [{"name": "ann", "shares": 60}, {"name": "bob", "shares": 40}]},
            {"name": "g2", "shares": 1, "children": [{"name": "cyd", "shares": 10}, {"name": "dan", "shares": 0}]},
        ],
    },
    {
        "name": "Root",
        "shares": 1,
        "children": [
            {
                "name": "g1",
                "shares": 3,
                "children": [
                    {
                        "name": "g3",
                        "shares": 1,
                        "children": [{"name": "ann", "shares": 60}, {"name": "dan", "shares": 7}],
                    },
                    {"name": "bob", "shares": 40},
                ],
            },
        ],
    },
)


@st.composite
def cases(draw: st.DrawFn, *, variants: st.SearchStrategy[str] = AS_SHIPPED) -> dict[str, Any]:
    """Jobs of a few users, projects and departments under every policy; the older a job, the smaller its number."""
    names = {"users": USERS, "projects": PROJECTS, "departments": DEPARTMENTS}
    owners = {
        plural: [{"name": name, "fshare": draw(SHARES), "oticket": draw(SHARES)} for name in listed]
        for plural, listed in names.items()
    }
    for user in owners["users"]:
        user["usage"] = {"cpu": draw(st.sampled_from([0.0, 0.01, 5.0, 900.0, 30000.0]))}
    n_jobs = draw(st.integers(0, 14))
    jobs = [
        {
            "id": str(index + 1),
            "user": draw(st.sampled_from(USERS)),
            "project": draw(st.sampled_from([None, None, *PROJECTS])),
            "department": draw(st.sampled_from(DEPARTMENTS)),
            "state": draw(st.sampled_from(["pending", "pending", "running"])),
            "override_tickets": draw(SHARES),
            "job_share": draw(SHARES),
            "slots": draw(st.integers(1, 4)),
            "posix_priority": draw(st.integers(-1023, 1024)),
            "submitted_s_ago": n_jobs - index,
        }
        for index in range(n_jobs)
    ]
    config = {
        "weight_user": 0.4,
        "weight_project": 0.3,
        "weight_department": 0.2,
        "weight_job": draw(st.sampled_from([0, 0.1])),
        "weight_tickets_functional": draw(st.sampled_from([0, 1000, 1000000])),
        "weight_tickets_share": draw(st.sampled_from([0, 1000, 700000])),
        "compensation_factor": draw(st.sampled_from([0, 1, 5])),
        "halftime": 0,
        "policy_hierarchy": draw(st.sampled_from(["OFS", "OSF", "FOS", "FSO", "SOF", "SFO", "F", "SO", "FS", "NONE"])),
        "share_functional_shares": draw(st.booleans()),
        "share_override_tickets": draw(st.booleans()),
        "max_functional_jobs_to_schedule": draw(st.sampled_from([0, 1, 3, 200])),
        "urgency": {"slots": draw(st.sampled_from([0, 1000, -5])), "lic": 7, "site": -2},
        "variant": draw(variants),
    }
    tree = draw(st.sampled_from(TREES))
    return {"id": "drawn", "config": config, **owners, "sharetree": tree, "jobs": jobs}


VARIANTS = st.sets(st.sampled_from(AMENDMENTS)).map(lambda names: "+".join(sorted(names)) or "8.1.9")


def without_projects(case: dict[str, Any]) -> dict[str, Any]:
    """The twin's share tree knows users alone."""
    return {**case, "jobs": [{**job, "project": None} for job in case["jobs"]]}


@given(cases())
@pytest.mark.paper("1.22")
def test_functional_and_override_tickets_equal_the_oracle(case: dict[str, Any]) -> None:
    case = {**case, "config": {**case["config"], "weight_tickets_share": 0}}
    rows, expected = solve(case)["jobs"], tickets(case)
    for job_id, parts in expected.items():
        for name in ("otckt", "ftckt"):
            assert rows[job_id][name] == pytest.approx(parts[name], rel=1e-12, abs=1e-12), (job_id, name)


@given(cases().map(without_projects))
def test_share_tree_tickets_equal_the_oracle_under_every_hierarchy(case: dict[str, Any]) -> None:
    rows, expected = solve(case)["jobs"], tickets(case)
    for job_id, parts in expected.items():
        for name, value in parts.items():
            assert rows[job_id][name] == pytest.approx(value, rel=1e-12, abs=1e-12), (job_id, name)


@given(cases(variants=VARIANTS), st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_nothing(case: dict[str, Any], shuffler: random.Random) -> None:
    mixed = {**case, **{name: list(case[name]) for name in ("jobs", "users", "projects", "departments")}}
    for name in ("jobs", "users", "projects", "departments"):
        shuffler.shuffle(mixed[name])
    found, expected = solve(mixed), solve(case)
    assert found["pending_order"] == expected["pending_order"]
    for job_id, row in expected["jobs"].items():
        numbers = {name: value for name, value in row.items() if name != "explain"}
        assert {name: found["jobs"][job_id][name] for name in numbers} == pytest.approx(numbers, rel=1e-12, abs=1e-15)


@given(cases(variants=VARIANTS))
@pytest.mark.paper("1.1", "1.14", "1.5")
def test_parts_add_up_and_normalised_values_stay_in_range(case: dict[str, Any]) -> None:
    config = case["config"]
    rows = solve(case)["jobs"]
    linear = "linear_urgency" in config["variant"]
    lowest_posix = -1 if "default_zero" in config["variant"] else 0
    for row in rows.values():
        assert row["tckts"] == pytest.approx(row["otckt"] + row["ftckt"] + row["stckt"], rel=1e-12)
        assert row["urg"] == pytest.approx(row["rrcontr"] + row["wtcontr"] + row["dlcontr"], rel=1e-12)
        assert row["prior"] == pytest.approx(0.5 * row["nurg"] + 0.5 * row["ntckts"], rel=1e-12)
        assert 0 <= row["ntckts"] <= 1
        assert row["nurg"] <= 1
        assert linear or row["nurg"] >= 0
        assert lowest_posix <= row["npprior"] <= 1
    for state in ("pending", "running"):
        shares = [rows[job["id"]]["share"] for job in case["jobs"] if job["state"] == state]
        assert sum(shares) == pytest.approx(1.0) or not any(shares)


@given(cases())
@pytest.mark.paper("1.16")
def test_running_jobs_get_all_functional_tickets_or_none(case: dict[str, Any]) -> None:
    rows = solve(case)["jobs"]
    dealt = sum(rows[job["id"]]["ftckt"] for job in case["jobs"] if job["state"] == "running")
    assert dealt == 0 or dealt == pytest.approx(case["config"]["weight_tickets_functional"])


@given(cases(variants=st.just("even_split")))
def test_an_even_split_never_exceeds_the_total_and_treats_jobs_of_an_owner_alike(case: dict[str, Any]) -> None:
    rows = solve(case)["jobs"]
    pending = [job for job in case["jobs"] if job["state"] == "pending"]
    assert sum(rows[job["id"]]["ftckt"] for job in pending) <= case["config"]["weight_tickets_functional"] * (1 + 1e-9)
    alike: dict[tuple[Any, ...], set[float]] = {}
    for job in pending:
        key = (job["user"], job["project"], job["department"], job["job_share"])
        alike.setdefault(key, set()).add(rows[job["id"]]["ftckt"])
    assert all(len(values) == 1 for values in alike.values())


def evaluated(text: str) -> float:
    """A line's right side reckoned again: words in parentheses go, signs become operators."""
    text = re.sub(r" \([a-zA-Z][^()]*\)", "", text).replace("×", "*").replace("−", "-")
    assert re.fullmatch(r"[0-9e+\-*/. ()]*(floor\([0-9e+\-*/. ]*\))?[0-9e+\-*/. ()]*", text), text
    return float(eval(text, {"__builtins__": {}}, {"floor": math.floor}))  # noqa: S307 - digits and operators alone


LABELS = {
    "priority": "prior",
    "normalised urgency": "nurg",
    "normalised tickets": "ntckts",
    "normalised POSIX priority": "npprior",
    "urgency": "urg",
    "resources": "rrcontr",
    "waiting": "wtcontr",
    "deadline": "dlcontr",
    "tickets": "tckts",
    "override tickets": "otckt",
    "functional tickets": "ftckt",
    "share-tree tickets": "stckt",
    "share of tickets": "share",
}


@given(cases(variants=VARIANTS))
def test_every_line_of_an_explanation_adds_up(case: dict[str, Any]) -> None:
    case["jobs"].append({"id": "99", "deadline_in_s": 60, "requests": {"lic": 2, "site": "north"}, "state": "pending"})
    for row in solve(case)["jobs"].values():
        collected = {}
        for line in row["explain"]:
            left, right = line.split(" = ", 1)
            label, number = left.rsplit(" ", 1)
            collected[LABELS[label]] = float(number)
            assert evaluated(right) == pytest.approx(float(number), rel=1e-9, abs=1e-9), line
        assert collected == {name: value for name, value in row.items() if name != "explain"}


HUGE = st.sampled_from([0, 5e-324, 1e-300, 1e-9, 1, 1e9, 1e15])


@given(cases(variants=VARIANTS), st.data())
def test_every_number_is_finite_for_any_magnitudes(case: dict[str, Any], data: st.DataObject) -> None:
    for plural in ("users", "projects", "departments"):
        for owner in case[plural]:
            owner["fshare"], owner["oticket"] = data.draw(HUGE), data.draw(HUGE)
    for user in case["users"]:
        user["usage"] = {"cpu": data.draw(st.sampled_from([0, 5e-324, 1e-300, 1, 1e300])), "mem": 1e300}
    for entry in case["jobs"]:
        entry["job_share"], entry["submitted_s_ago"] = data.draw(HUGE), data.draw(HUGE)
        entry["deadline_in_s"] = data.draw(st.sampled_from([None, -1e15, 0, 5e-324, 1e15]))
    for name in ("weight_user", "weight_job", "weight_tickets_functional", "weight_tickets_share", "halftime"):
        case["config"][name] = data.draw(HUGE)
    case["config"] |= {
        "compensation_factor": data.draw(HUGE),
        "usage_weight_list": {"cpu": data.draw(HUGE), "mem": 0.5},
    }
    tree = {
        "name": "Root",
        "shares": 0,
        "children": [
            {
                "name": "g",
                "shares": data.draw(HUGE),
                "children": [{"name": "ann", "shares": data.draw(HUGE)}, {"name": "bob", "shares": data.draw(HUGE)}],
            },
            {"name": "cyd", "shares": data.draw(HUGE)},
        ],
    }
    rows = solve({**case, "sharetree": tree, "usage_age_s": data.draw(HUGE)})["jobs"]
    for row in rows.values():
        assert all(math.isfinite(value) for name, value in row.items() if name != "explain")
