"""Users whom Grid Engine registers and deletes automatically: the settings `auto_user_…`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.jobs.algorithms.gridengine import solve
from apps.engine.errors import BadCase
from tests.contrib.jobs.algorithms.gridengine_cases import FUNCTIONAL, SHARE_TREE, column, job, solved
from tests.contrib.jobs.algorithms.test_gridengine_properties import USERS, cases
from tests.examples import examples

TREE = {
    "name": "Root",
    "shares": 1,
    "children": [
        {"name": "ann", "shares": 1},
        {"name": "group", "shares": 1, "children": [{"name": "bob", "shares": 1}, {"name": "eve", "shares": 1}]},
    ],
}


def functional(*jobs: dict[str, Any], users: list[dict[str, Any]], **config: Any) -> list[float]:
    return column(solved(*jobs, users=users, config={**FUNCTIONAL, **config}), "ftckt")


@pytest.mark.parametrize("users", [[], [{"name": name} for name in ("userA", "userB", "userC")]])
@pytest.mark.paper("1.23")
def test_the_worked_example_of_2011_needs_no_shares_by_hand(golden_dir: Path, users: list[dict[str, Any]]) -> None:
    cases = json.loads((golden_dir / "gridengine/blog_cases.json").read_text())
    (case,) = (case for case in cases if case["id"].startswith("blog07"))
    automatic = {**case, "users": users, "config": {**case["config"], "auto_user_fshare": 100}}
    rows = solve(automatic)["jobs"]
    assert {name: row["ftckt"] for name, row in rows.items()} == {
        name: row["ftckt"] for name, row in solve(case)["jobs"].items()
    }
    assert int(rows["jobB2"]["ftckt"]) == case["expected"]["jobB2"]["ftckt"] == 41666


@pytest.mark.paper("1.23")
def test_automatic_users_have_no_shares_unless_they_are_configured() -> None:
    assert functional(job(1, user="ann"), users=[]) == [0]


def test_configured_shares_are_kept_including_zero() -> None:
    users = [{"name": "ann", "fshare": 0}, {"name": "bob", "fshare": 300}]
    jobs = [job(n, user=name, state="running") for n, name in enumerate(("ann", "bob", "cyd"), 1)]
    assert functional(*jobs, users=users, auto_user_fshare=100) == [0, 750, 250]


def test_automatic_users_get_override_tickets() -> None:
    rows = solved(
        job(1, user="ann"), job(2, user="bob"), users=[{"name": "bob", "oticket": 7}], config={"auto_user_oticket": 60}
    )
    assert column(rows, "otckt") == [60, 7]


def test_projects_and_departments_are_never_registered() -> None:
    config = {**FUNCTIONAL, "weight_project": 1, "weight_department": 1, "auto_user_fshare": 100}
    rows = solved(job(1, project="px", department="d"), config=config)
    assert column(rows, "ftckt") == [0]


@pytest.mark.parametrize(
    ("idle_s", "delete_time", "is_deleted"),
    [(86400, 86400, True), (86399, 86400, False), (1e9, 0, False), (86400, None, True), (86399, None, False)],
)
@pytest.mark.paper("1.23")
def test_an_idle_automatic_user_is_deleted_with_shares_and_usage(
    idle_s: float, delete_time: float | None, is_deleted: bool
) -> None:
    eve = {"name": "eve", "fshare": 50, "usage": {"cpu": 900}, "idle_s": idle_s}
    config = {**SHARE_TREE, "auto_user_delete_time": delete_time}
    rows = solved(
        job(1, user="ann"),
        job(2, user="bob"),
        users=[{"name": "ann", "usage": {"cpu": 100}}, {"name": "bob", "usage": {"cpu": 100}}, eve],
        sharetree=TREE,
        config=config,
    )
    group_usage = 100 if is_deleted else 1000
    weights = [0.25 / 100, 0.25 / group_usage]
    assert column(rows, "stckt") == pytest.approx([1000 * weight / sum(weights) for weight in weights])


def test_a_deleted_user_who_submits_again_is_new() -> None:
    eve = {"name": "eve", "fshare": 900, "oticket": 5, "usage": {"cpu": 900}, "idle_s": 7}
    config = {**FUNCTIONAL, **SHARE_TREE, "auto_user_fshare": 100, "auto_user_delete_time": 7}
    jobs = [job(1, user="eve", state="running"), job(2, user="bob", state="running")]
    case = {"jobs": jobs, "users": [eve, {"name": "bob", "fshare": 100}], "config": config}
    answer = solve(case)
    assert column(answer["jobs"], "ftckt") == [500, 500]
    assert column(answer["jobs"], "otckt") == [0, 0]
    deleted, registered = sorted(answer["notes"], key=lambda note: "registered" in note)
    assert "eve" in deleted and "7 s" in deleted  # noqa: PT018 - who, and after how long
    assert "eve" in registered and "100 functional shares" in registered  # noqa: PT018


def test_a_user_with_two_entries_is_refused_even_where_one_is_deleted() -> None:
    users = [{"name": "eve", "idle_s": 1e6}, {"name": "eve"}]
    with pytest.raises(BadCase) as refused:
        solve({"users": users, "jobs": []})
    assert refused.value.place == "users[1].name"


@pytest.mark.parametrize("name", ["auto_user_fshare", "auto_user_oticket", "auto_user_delete_time"])
def test_settings_of_automatic_users_are_numbers_from_zero(name: str) -> None:
    with pytest.raises(BadCase) as refused:
        solve({"config": {name: -1}, "jobs": []})
    assert refused.value.place == f"config.{name}"


def test_a_project_or_department_is_never_idle() -> None:
    for kind in ("projects", "departments"):
        with pytest.raises(BadCase, match="idle_s"):
            solve({kind: [{"name": "x", "idle_s": 1}], "jobs": []})


@examples(80)
@given(cases(), st.sets(st.sampled_from(USERS)), st.sampled_from([0, 1, 10]), st.sampled_from([0, 7]))
def test_automatic_users_are_users_with_these_shares_and_tickets(
    case: dict[str, Any], automatic: set[str], fshare: float, oticket: float
) -> None:
    written = [
        {**user, "fshare": fshare, "oticket": oticket, "usage": {}} if user["name"] in automatic else user
        for user in case["users"]
    ]
    listed = [user for user in case["users"] if user["name"] not in automatic]
    config = {**case["config"], "auto_user_fshare": fshare, "auto_user_oticket": oticket}
    found = solve({**case, "users": listed, "config": config})["jobs"]
    assert found == solve({**case, "users": written})["jobs"]


@examples(80)
@given(cases(), st.sets(st.sampled_from(USERS)), st.sampled_from([0, 10]))
def test_a_deleted_user_is_one_without_an_entry(case: dict[str, Any], deleted: set[str], fshare: float) -> None:
    config = {**case["config"], "auto_user_fshare": fshare, "auto_user_delete_time": 60}
    idle = [{**user, "idle_s": 60 if user["name"] in deleted else 59} for user in case["users"]]
    kept = [user for user in case["users"] if user["name"] not in deleted]
    found = solve({**case, "users": idle, "config": config})
    assert found["jobs"] == solve({**case, "users": kept, "config": config})["jobs"]
    for name in deleted:
        assert any(name in note for note in found["notes"])
