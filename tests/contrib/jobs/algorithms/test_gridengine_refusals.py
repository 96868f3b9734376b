"""What can't be a Grid Engine case is refused with the place and what is allowed, never with a traceback."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.jobs.algorithms import solve_job_case
from apps.contrib.jobs.algorithms.gridengine import solve
from apps.engine.case_text import read_cases
from apps.engine.errors import BadCase, EngineError
from tests.each_case import each_case
from tests.examples import examples

GOOD: dict[str, Any] = {
    "id": "good",
    "config": {
        "weight_tickets_functional": 1000,
        "weight_tickets_share": 500,
        "urgency": {"slots": 1000},
        "halflife_decay_list": "none",
        "usage_weight_list": {"cpu": 1},
        "policy_hierarchy": "OFS",
    },
    "users": [{"name": "ann", "fshare": 1, "usage": {"cpu": 1}, "project_usage": {"px": {"cpu": 1}}}, {"name": "bob"}],
    "projects": [{"name": "px", "fshare": 3}],
    "departments": [{"name": "da"}],
    "usage_age_s": 60,
    "sharetree": {
        "name": "Root",
        "shares": 1,
        "children": [{"name": "ann", "shares": 10}, {"name": "bob", "shares": 1}],
    },
    "hidden_jobs": [{"urg": 1}],
    "jobs": [{"id": "1", "user": "ann", "requests": {"mem": "1G"}}, {"id": "2", "user": "bob", "project": "px"}],
}


def changed(path: str, value: object) -> dict[str, Any]:
    """The good case with one value replaced."""
    case = copy.deepcopy(GOOD)
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    at: Any = case
    for step in way:
        at = at[step]
    at[last] = value
    return case


def refusal(case: dict[str, Any]) -> BadCase:
    with pytest.raises(BadCase) as caught:
        solve(case)
    assert "allowed" in caught.value.message or "must differ" in caught.value.message
    return caught.value


def test_the_base_case_is_valid() -> None:
    assert list(solve(GOOD)["jobs"]) == ["1", "2"]


NEVER_A_NUMBER: list[object] = [-1, math.nan, math.inf, "7", True, [1], {"a": 1}, 10**400]


@each_case("value", NEVER_A_NUMBER, ids=str)
@each_case(
    ("path", "place"),
    [
        ("config.weight_ticket", "config.weight_ticket"),
        ("config.weight_tickets_functional", "config.weight_tickets_functional"),
        ("config.halftime", "config.halftime"),
        ("config.compensation_factor", "config.compensation_factor"),
        ("config.max_functional_jobs_to_schedule", "config.max_functional_jobs_to_schedule"),
        ("config.usage_weight_list.cpu", "config.usage_weight_list.cpu"),
        ("usage_age_s", "usage_age_s"),
        ("users.0.fshare", "users.ann.fshare"),
        ("users.0.oticket", "users.ann.oticket"),
        ("users.0.usage.cpu", "users.ann.usage.cpu"),
        ("users.0.project_usage.px.cpu", "users.ann.project_usage.px.cpu"),
        ("projects.0.fshare", "projects.px.fshare"),
        ("sharetree.shares", "sharetree.shares"),
        ("sharetree.children.1.shares", "sharetree.children[1].shares"),
        ("jobs.0.override_tickets", "jobs.1.override_tickets"),
        ("jobs.0.job_share", "jobs.1.job_share"),
        ("jobs.0.slots", "jobs.1.slots"),
        ("jobs.0.submitted_s_ago", "jobs.1.submitted_s_ago"),
        ("jobs.0.wait_time_s", "jobs.1.wait_time_s"),
    ],
)
def test_invalid_numbers_are_rejected_with_their_location(path: str, place: str, value: object) -> None:
    assert refusal(changed(path, value)).place == place


@each_case(
    ("path", "value", "place"),
    [
        ("config", [], "config"),
        ("config.urgency", 5, "config.urgency"),
        ("config.urgency.slots", math.nan, "config.urgency.slots"),
        ("config.variant", "9.0", "config.variant"),
        ("config.variant", "even_split+", "config.variant"),
        ("config.variant", "even_split+even_split", "config.variant"),
        ("config.variant", ["even_split"], "config.variant"),
        ("config.policy_hierarchy", "OOF", "config.policy_hierarchy"),
        ("config.policy_hierarchy", "OFX", "config.policy_hierarchy"),
        ("config.policy_hierarchy", 3, "config.policy_hierarchy"),
        ("config.share_functional_shares", 1, "config.share_functional_shares"),
        ("config.share_override_tickets", "yes", "config.share_override_tickets"),
        ("config.share_override_tickets", [], "config.share_override_tickets"),
        ("config.halflife_decay_list", "cpu", "config.halflife_decay_list"),
        ("config.halflife_decay_list", "cpu=nan", "config.halflife_decay_list"),
        ("config.halflife_decay_list", "cpu=1,cpu=2", "config.halflife_decay_list"),
        ("config.usage_weight_list", "cpu=-1", "config.usage_weight_list"),
        ("config.usage_weight_list", 1, "config.usage_weight_list"),
        ("users", {"ann": 1}, "users"),
        ("users.0", "ann", "users[0]"),
        ("users.0.name", None, "users[0].name"),
        ("users.0.name", "", "users[0].name"),
        ("users.0.name", "bob", "users[1].name"),
        ("users.0.usage", [], "users.ann.usage"),
        ("users.0.project_usage", 1, "users.ann.project_usage"),
        ("users.0.project_usage.px", 1, "users.ann.project_usage.px"),
        ("sharetree", [], "sharetree"),
        ("sharetree.shares", None, "sharetree.shares"),
        ("sharetree.children", {}, "sharetree.children"),
        ("sharetree.children.0.name", None, "sharetree.children[0].name"),
        ("sharetree.children.0.name", "bob", "sharetree.children[1]"),
        ("sharetree.children.0.type", "queue", "sharetree.children[0].type"),
        ("hidden_jobs", 1, "hidden_jobs"),
        ("hidden_jobs.0", 1, "hidden_jobs[0]"),
        ("hidden_jobs.0.urg", None, "hidden_jobs[0].urg"),
        ("hidden_jobs.0.urg", math.inf, "hidden_jobs[0].urg"),
        ("jobs", None, "jobs"),
        ("jobs", {"1": {}}, "jobs"),
        ("jobs.0", "1", "jobs[0]"),
        ("jobs.0.id", None, "jobs[0].id"),
        ("jobs.0.id", "", "jobs[0].id"),
        ("jobs.0.id", 2, "jobs[1].id"),
        ("jobs.0.user", 5, "jobs.1.user"),
        ("jobs.1.project", "pq", "jobs.2.project"),
        ("jobs.0.state", "Eqw", "jobs.1.state"),
        ("jobs.0.state", [], "jobs.1.state"),
        ("jobs.0.slots", 0, "jobs.1.slots"),
        ("jobs.0.slots", 1.5, "jobs.1.slots"),
        ("jobs.0.posix_priority", -1024, "jobs.1.posix_priority"),
        ("jobs.0.posix_priority", 1025, "jobs.1.posix_priority"),
        ("jobs.0.posix_priority", 0.5, "jobs.1.posix_priority"),
        ("jobs.0.deadline_in_s", math.nan, "jobs.1.deadline_in_s"),
        ("jobs.0.requests", [], "jobs.1.requests"),
        ("jobs.0.requests.mem", None, "jobs.1.requests.mem"),
        ("jobs.0.requests.mem", -1, "jobs.1.requests.mem"),
        ("jobs.0.requests.mem", "9" * 40 + "G", "jobs.1.requests.mem"),
    ],
)
def test_invalid_input_is_rejected_with_its_location(path: str, value: object, place: str) -> None:
    assert refusal(changed(path, value)).place == place


@pytest.mark.paper("1.12")
def test_posix_priorities_are_integers_from_minus_1023_to_1024() -> None:
    for value in (-1023, 1024):
        assert solve(changed("jobs.0.posix_priority", value))["jobs"]
    for value in (-1024, 1025):
        message = refusal(changed("jobs.0.posix_priority", value)).message
        assert "-1023 to 1024" in message


def test_an_unknown_project_is_rejected_only_if_projects_are_listed() -> None:
    assert "px" in refusal(changed("jobs.1.project", "pq")).message
    case = changed("jobs.1.project", "pq")
    del case["projects"]
    assert solve(case)["pending_order"]


def test_an_unknown_grid_engine_parameter_is_rejected() -> None:
    case = {**GOOD, "algorithm": {"name": "gridengine", "variant": "even_split"}}
    with pytest.raises(BadCase, match="variant") as caught:
        solve_job_case(case)
    assert caught.value.place == "algorithm"


def test_an_unbounded_tree_is_rejected() -> None:
    at: dict[str, Any] = {"name": "leaf", "shares": 1}
    for depth in range(200):
        at = {"name": f"n{depth}", "shares": 1, "children": [at]}
    assert "64 levels" in refusal({**GOOD, "sharetree": at}).message


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"config": {"weight_ticket": 1, "weight_ticket": 2}, "jobs": []}', "config.weight_ticket"),
        ('{"config": {"weight_ticket": 1}, "jobs": [{"id": "1", "slots": 1, "slots": 2}]}', "jobs.1.slots"),
        ('{"config": {"weight_ticket": 1, "urgency": {"a": 1, "a": 2}}, "jobs": []}', "config.urgency.a"),
        (
            '{"config": {"weight_ticket": 1, "usage_weight_list": {"a": 1, "a": 2}}, "jobs": []}',
            "config.usage_weight_list.a",
        ),
        ('{"config": {"weight_ticket": 1}, "users": [{"name": "a", "name": "b"}], "jobs": []}', "users[0].name"),
        (
            '{"config": {"weight_ticket": 1}, "jobs": [], "sharetree": {"name": "R", "shares": 1, "shares": 2}}',
            "sharetree.shares",
        ),
    ],
)
def test_duplicate_input_is_rejected(text: str, place: str) -> None:
    (case,) = read_cases(text)
    with pytest.raises(BadCase, match="given twice") as caught:
        solve_job_case(case)
    assert caught.value.place == place


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PATHS = st.sampled_from(
    [
        *GOOD,
        *(f"config.{name}" for name in GOOD["config"]),
        "users.0",
        "users.0.usage",
        "sharetree.children",
        "jobs.0",
        "jobs.0.id",
        "jobs.0.requests",
        "jobs.0.requests.mem",
        "jobs.0.state",
        "config.variant",
        "jobs.1.submitted_s_ago",
    ]
)


@examples(300)
@given(PATHS, ANYTHING)
def test_any_field_value_gives_a_result_or_an_error(path: str, value: object) -> None:
    try:
        answer = solve(changed(path, value))
    except EngineError:
        return
    for row in answer["jobs"].values():
        assert all(math.isfinite(number) for name, number in row.items() if name != "explain")
