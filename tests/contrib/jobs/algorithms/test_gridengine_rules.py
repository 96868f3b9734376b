"""Rule by rule: what each policy of Grid Engine does, what each amendment changes, and what an explanation says."""

from __future__ import annotations

import math
from typing import Any

import pytest

from apps.contrib.jobs.algorithms import solve_job_case
from apps.contrib.jobs.algorithms.gridengine import GRID_ENGINE, solve
from tests.contrib.jobs.algorithms.gridengine_cases import FUNCTIONAL, SHARE_TREE, column, job, solved


def users(*names: str, **same: Any) -> list[dict[str, Any]]:
    return [{"name": name, **same} for name in names]


def tree(*children: dict[str, Any]) -> dict[str, Any]:
    return {"name": "Root", "shares": 1, "children": list(children)}


def node(name: str, shares: float = 1, *children: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "shares": shares, **more, **({"children": list(children)} if children else {})}


# Urgency


@pytest.mark.paper("1.5")
def test_numbers_memory_times_and_booleans_count_per_slot_and_text_once() -> None:
    requests = {"lic": 3, "mem": "2K", "disk": "2k", "h_rt": "1:01:01", "exclusive": "TRUE", "site": "north", "free": 9}
    urgency = {"lic": 1, "mem": 1, "disk": 1, "h_rt": 1, "exclusive": 1, "site": 1, "slots": 1}
    rows = solved(job(1, slots=2, requests=requests, soft_requests={"lic": 50}), config={"urgency": urgency})
    assert rows["1"]["rrcontr"] == 2 + 2 * (3 + 2048 + 2000 + 3661 + 1) + 1


@pytest.mark.parametrize(
    ("text", "value"), [("512", 1), ("3G", 3 * 1024**3), ("1.5g", 1.5e9), ("FALSE", 0), ("1:0", 1)]
)
def test_a_request_value_is_parsed_by_its_form(text: str, value: float) -> None:
    assert solved(job(1, requests={"r": text}), config={"urgency": {"r": 1}})["1"]["rrcontr"] == value


@pytest.mark.paper("1.5")
def test_a_deadline_has_at_least_a_second_left() -> None:
    rows = solved(job(1, deadline_in_s=-5), job(2, deadline_in_s=100), job(3), config={"weight_deadline": 1000})
    assert column(rows, "dlcontr") == [1000, 10, 0]


@pytest.mark.paper("1.9")
def test_the_waiting_time_of_running_jobs_counts_as_that_of_pending_ones() -> None:
    jobs = [job(n, submitted_s_ago=40 * n, state=state) for n, state in enumerate(("pending", "running"), 1)]
    rows = solved(*jobs, config={"weight_waiting_time": 2})
    assert column(rows, "wtcontr") == column(rows, "urg") == [80, 160]


def test_omitted_settings_have_the_installed_defaults() -> None:
    row = solve({"jobs": [job(1, submitted_s_ago=None, wait_time_s=100)]})["jobs"]["1"]
    assert row["wtcontr"] == pytest.approx(27.8)
    assert row["prior"] == 0.5 * 0.5 + 0.5 * 0.5
    assert {name: row[name] for name in ("nurg", "ntckts", "npprior", "tckts")} == {
        "nurg": 0.5,
        "ntckts": 0.5,
        "npprior": 0.5,
        "tckts": 0,
    }


@pytest.mark.paper("1.11")
def test_running_jobs_widen_the_range_and_held_and_suspended_ones_do_not() -> None:
    config = {"urgency": {"slots": 1}}
    jobs = (job(1, slots=1), job(2, slots=3), job(3, slots=5, state="running"))
    others = (job(4, slots=99, state="held"), job(5, slots=99, state="suspended"))
    rows = solved(*jobs, *others, config=config)
    assert column(rows, "nurg") == [0, 0.5, 1, 0, 0]
    for job_id in ("4", "5"):
        (why,) = rows[job_id].pop("explain")
        assert set(rows[job_id].values()) == {0.0}
        assert why.startswith({"4": "held", "5": "suspended"}[job_id])


def test_held_and_suspended_jobs_take_no_tickets() -> None:
    case: dict[str, Any] = {
        "config": {**FUNCTIONAL, **SHARE_TREE},
        "users": users("ann", fshare=1, oticket=8),
        "sharetree": tree(node("ann")),
    }
    mine = [job(1, user="ann"), job(2, user="ann", state="running")]
    others = [job(3, user="ann", state="held"), job(4, user="ann", state="suspended")]
    assert solved(*mine, **case) == {name: row for name, row in solved(*mine, *others, **case).items() if name in "12"}


def test_hidden_jobs_widen_the_range_and_are_not_in_the_result() -> None:
    rows = solved(job(1, slots=2), config={"urgency": {"slots": 1}}, hidden_jobs=[{"id": "x", "urg": 0}, {"urg": 8}])
    assert column(rows, "nurg") == [0.25]


# Override


def test_shared_override_tickets_are_divided_by_the_jobs_before() -> None:
    jobs = [job(1, user="ann"), job(2, user="ann"), job(3, user="ann", override_tickets=50)]
    rows = solved(*jobs, users=users("ann", oticket=600))
    assert column(rows, "otckt") == [300, 200, 650]
    unshared = solved(*jobs, users=users("ann", oticket=600), config={"share_override_tickets": False})
    assert column(unshared, "otckt") == [600, 600, 650]


def test_running_jobs_divide_override_tickets_evenly_and_pending_ones_come_after() -> None:
    jobs = [job(1, user="ann", state="running"), job(2, user="ann", state="running"), job(3, user="ann")]
    assert column(solved(*jobs, users=users("ann", oticket=600)), "otckt") == [300, 300, 200]


def test_equal_override_tickets_are_ordered_by_earlier_tickets_in_the_hierarchy() -> None:
    jobs = [job(1, user="ann", department="d"), job(2, user="bob", department="d")]
    owners: dict[str, Any] = {
        "users": [{"name": "ann", "fshare": 1}, {"name": "bob", "fshare": 9}],
        "departments": [{"name": "d", "oticket": 100}],
    }
    linked = solved(*jobs, **owners, config={**FUNCTIONAL, "policy_hierarchy": "FO"})
    alone = solved(*jobs, **owners, config={**FUNCTIONAL, "policy_hierarchy": "F"})
    assert (column(linked, "otckt"), column(alone, "otckt")) == ([50, 100], [100, 50])


# Functional


def test_pending_jobs_divide_only_the_shares_seen_so_far() -> None:
    rows = solved(
        *(job(n, user=u) for n, u in enumerate("abc", 1)), users=users("a", "b", "c", fshare=10), config=FUNCTIONAL
    )
    assert column(rows, "ftckt") == pytest.approx([1000, 500, 1000 / 3])


def test_unshared_functional_shares_grow_the_sum_with_every_job() -> None:
    config = {**FUNCTIONAL, "share_functional_shares": False}
    rows = solved(*(job(n, user="a") for n in (1, 2, 3)), users=users("a", fshare=10), config=config)
    assert column(rows, "ftckt") == pytest.approx([1000, 500, 1000 / 3])


def test_jobs_beyond_the_limit_keep_the_last_candidate_value_of_their_group() -> None:
    jobs = [job(n, user=u) for n, u in enumerate("aabb", 1)]
    rows = solved(*jobs, users=users("a", "b", fshare=10), config={**FUNCTIONAL, "max_functional_jobs_to_schedule": 1})
    candidate = 10 * 1000 / 0.001  # no shares in play yet when the only round begins
    assert column(rows, "ftckt") == pytest.approx([1000, candidate, candidate, candidate])
    none = solved(*jobs, users=users("a", "b", fshare=10), config={**FUNCTIONAL, "max_functional_jobs_to_schedule": 0})
    assert column(none, "ftckt") == [0, 0, 0, 0]


def test_category_weights_are_rescaled_for_running_jobs_and_not_for_pending_ones() -> None:
    config = {"weight_tickets_functional": 1000}
    rows = solved(job(1, user="a", state="running"), job(2, user="b"), users=users("a", "b", fshare=5), config=config)
    assert column(rows, "ftckt") == pytest.approx([1000, 0.25 * 1000 * 5 / 10])


@pytest.mark.paper("1.17")
def test_the_oldest_of_equal_jobs_is_first() -> None:
    jobs = [job(1, user="a", submitted_s_ago=5), job(2, user="b", submitted_s_ago=50)]
    rows = solved(*jobs, users=users("a", "b", fshare=1), config=FUNCTIONAL)
    assert column(rows, "ftckt") == pytest.approx([500, 1000])


def test_jobs_without_shares_get_no_tickets_and_come_last() -> None:
    rows = solved(job(1, user="a"), job(2, user="b"), job(3), users=users("a", fshare=1), config=FUNCTIONAL)
    assert column(rows, "ntckts") == [1, 0, 0]


# Share tree


def test_shares_of_idle_nodes_go_to_the_others_and_their_usage_still_counts_above() -> None:
    case: dict[str, Any] = {
        "config": SHARE_TREE,
        "users": [*users("a", "b", "c"), {"name": "idle", "usage": {"cpu": 100}}],
    }
    group = node("g", 10, node("a", 5), node("b", 5), node("idle", 90))
    rows = solved(job(1, user="a"), job(2, user="c"), sharetree=tree(group, node("c", 10)), **case)
    busy, free = 10 * 10 / 100, 10 * 10 / 0.5  # usage below its long-term part counts as that
    assert column(rows, "stckt") == pytest.approx([1000 * busy / (busy + free), 1000 * free / (busy + free)])


def test_a_user_without_a_node_gets_a_copy_of_default_with_own_usage() -> None:
    case: dict[str, Any] = {
        "config": SHARE_TREE,
        "users": [{"name": "a", "usage": {"cpu": 4}}, {"name": "b", "usage": {"cpu": 1}}],
    }
    rows = solved(job(1, user="a"), job(2, user="b"), sharetree=tree(node("default", 10)), **case)
    assert column(rows, "stckt") == pytest.approx([200, 800])
    none = solved(job(1, user="a"), job(2, user="b"), sharetree=tree(node("b", 10)), **case)
    assert column(none, "stckt") == [0, 1000]


def test_a_job_with_a_project_uses_only_the_subtree_of_the_project() -> None:
    shares = tree(node("px", 10, node("ann", 1), type="project"), node("py", 10, type="project"), node("bob", 10))
    jobs = [job(1, user="ann", project="px"), job(2, user="ann", project="py"), job(3, user="ann")]
    jobs += [job(4, user="bob", project="px"), job(5, user="bob", project="pz"), job(6, user="bob")]
    projects = [{"name": name} for name in ("px", "py", "pz")]
    rows = solved(*jobs, users=users("ann", "bob"), projects=projects, sharetree=shares, config=SHARE_TREE)
    assert [value > 0 for value in column(rows, "stckt")] == [True, True, False, False, False, True]


def test_below_a_project_only_its_usage_counts() -> None:
    shares = tree(node("px", 1, node("ann", 1), node("default", 1), type="project"))
    people = [
        {"name": "ann", "usage": {"cpu": 999}, "project_usage": {"px": {"cpu": 1}, "py": {"cpu": 999}}},
        {"name": "bob", "project_usage": {"px": {"cpu": 3}}},
    ]
    jobs = [job(1, user="ann", project="px"), job(2, user="bob", project="px")]
    rows = solved(*jobs, users=people, projects=[{"name": "px"}], sharetree=shares, config=SHARE_TREE)
    assert column(rows, "stckt") == pytest.approx([750, 250])


def test_a_single_populated_branch_is_cut_down_level_by_level() -> None:
    shares = tree(node("g", 1, node("h", 1, node("a", 3), node("b", 1))), node("idle", 99))
    rows = solved(job(1, user="a"), job(2, user="b"), users=users("a", "b"), sharetree=shares, config=SHARE_TREE)
    weights = [9 / 0.75, 1 / 0.25]
    assert column(rows, "stckt") == pytest.approx([1000 * weight / sum(weights) for weight in weights])


def test_wide_and_running_jobs_lower_later_ones() -> None:
    shares = tree(node("a", 1), node("b", 1))
    jobs = [job(1, user="a", slots=4, state="running"), job(2, user="a", slots=2), job(3, user="a"), job(4, user="b")]
    rows = solved(*jobs, users=users("a", "b"), sharetree=shares, config=SHARE_TREE)
    assert column(rows, "stckt") == pytest.approx([1000, 500 / 5, 500 / 7, 500])


def test_running_jobs_are_measured_by_the_nodes_with_running_jobs_and_divide_by_job_share() -> None:
    shares = tree(node("a", 1), node("b", 1))
    jobs = [
        job(1, user="a", state="running", job_share=2),
        job(2, user="a", state="running", job_share=1),
        job(3, user="b"),
    ]
    rows = solved(*jobs, users=users("a", "b"), sharetree=shares, config=SHARE_TREE)
    assert column(rows, "stckt") == [666, 333, 500]
    assert rows["1"]["ntckts"] == 1


def test_compensation_limits_owners_above_their_share() -> None:
    case: dict[str, Any] = {
        "users": [{"name": "a"}, {"name": "b", "usage": {"cpu": 1000}}],
        "sharetree": tree(node("a", 1), node("b", 1)),
    }
    free = solved(job(1, user="a"), job(2, user="b"), config=SHARE_TREE, **case)
    held = solved(job(1, user="a"), job(2, user="b"), config={**SHARE_TREE, "compensation_factor": 1}, **case)
    assert held["1"]["stckt"] < free["1"]["stckt"]
    assert free["1"]["stckt"] == pytest.approx(1000 * 2 / 2.001)
    weight = 2 / ((2 / 2.001) / 0.5)
    assert held["1"]["stckt"] == pytest.approx(1000 * weight / (weight + 0.001))


def test_usage_is_weighted_by_resource_and_decays_by_its_half_life() -> None:
    people = [{"name": "a", "usage": {"cpu": 100, "mem": 100}}, {"name": "b", "usage": {"cpu": 100}}]
    config = {**SHARE_TREE, "usage_weight_list": "cpu=0.5,mem=0.5", "halflife_decay_list": "mem=1440"}
    case: dict[str, Any] = {"users": people, "sharetree": tree(node("a", 1), node("b", 1)), "usage_age_s": 86400}
    rows = solved(job(1, user="a"), job(2, user="b"), config=config, **case)
    left = (1 - math.log(2) / 1440) ** 1440  # 0.49992
    used = [(100 + 100 * left) / 2, 50.0]
    assert column(rows, "stckt") == pytest.approx([1000 / use / sum(1 / u for u in used) for use in used])


# Amendments


@pytest.mark.paper("1.25")
def test_values_of_running_jobs_outside_the_range_are_clamped() -> None:
    jobs = [job(1, slots=1), job(2, slots=3), job(3, slots=9, state="running", override_tickets=50)]
    jobs += [job(4, slots=2, override_tickets=10)]
    as_shipped = solved(*jobs, config={"urgency": {"slots": 1}})
    amended = solved(*jobs, config={"urgency": {"slots": 1}, "variant": "exclude_running"})
    assert column(as_shipped, "nurg") == [0, 0.25, 1, 0.125]
    assert column(amended, "nurg") == [0, 1, 1, 0.5]
    assert (column(as_shipped, "ntckts"), column(amended, "ntckts")) == ([0, 0, 1, 0.2], [0, 0, 1, 1])


@pytest.mark.paper("1.24")
def test_zero_defaults_disable_an_empty_policy() -> None:
    jobs = [job(1, posix_priority=0), job(2, posix_priority=-1023), job(3, posix_priority=1024)]
    rows = solved(*jobs, config={"variant": "default_zero"})
    assert column(rows, "nurg") == column(rows, "ntckts") == [0, 0, 0]
    assert column(rows, "npprior") == [0, -1023 / 1024, 1]


@pytest.mark.paper("1.26")
def test_linear_urgency_is_a_fraction_of_the_largest() -> None:
    config = {"urgency": {"slots": 10}, "variant": "linear_urgency"}
    assert column(solved(job(1, slots=1), job(2, slots=4), config=config), "nurg") == [0.25, 1]
    assert column(solved(job(1), job(2), config=config), "nurg") == [1, 1]
    below = {"urgency": {"slots": -10}, "variant": "linear_urgency"}
    assert column(solved(job(1), job(2, slots=2), config=below), "nurg") == [0, 0]


@pytest.mark.paper("1.27")
def test_an_even_split_divides_an_owners_part_by_all_the_owners_jobs() -> None:
    jobs = [job(1, user="a", state="running"), job(2, user="a"), job(3, user="a"), job(4, user="b"), job(5)]
    people = [*users("a", "b", fshare=30), {"name": "idle", "fshare": 500}]
    rows = solved(*jobs, users=people, config={"weight_tickets_functional": 1200, "variant": "even_split"})
    assert column(rows, "ftckt") == pytest.approx([1200, 200, 200, 600, 0])


def test_amendments_can_be_combined() -> None:
    jobs = [job(1, slots=2), job(2, slots=4), job(3, slots=40, state="running")]
    variant = "exclude_running+linear_urgency+default_zero"
    rows = solved(*jobs, config={"urgency": {"slots": 1}, "variant": variant})
    assert column(rows, "nurg") == [0.5, 1, 1]
    assert column(rows, "ntckts") == [0, 0, 0]


def test_every_declared_variant_can_be_computed() -> None:
    for variant in GRID_ENGINE.variants:
        case = {"algorithm": {"name": "gridengine"}, "config": {"variant": variant.setting}, "jobs": [job(1)]}
        assert solve_job_case(case)["pending_order"] == ["1"]


# The answer


def test_a_case_with_grid_engines_weights_needs_no_algorithm() -> None:
    for weight in ("weight_ticket", "weight_tickets_functional"):
        assert solve_job_case({"id": "x", "config": {weight: 1}, "jobs": []}) == {
            "id": "x",
            "jobs": {},
            "pending_order": [],
        }


def test_the_queue_is_ordered_by_priority_age_and_number_with_held_jobs_last() -> None:
    jobs = [job(1, posix_priority=-5), job(2, submitted_s_ago=7), job(10, submitted_s_ago=7), job(9, submitted_s_ago=8)]
    jobs += [job(3, state="held", submitted_s_ago=9999), job(4, state="running"), job(5, state="suspended")]
    answer = solve({"config": {"weight_priority": 1, "weight_waiting_time": 0}, "jobs": jobs})
    assert answer["pending_order"] == ["9", "2", "10", "1", "3"]


def test_an_explanation_names_owner_node_and_position() -> None:
    case: dict[str, Any] = {"users": users("ann", fshare=2, oticket=6), "sharetree": tree(node("ann", 1))}
    rows = solved(job(1, user="ann"), job(2, user="ann"), config={**FUNCTIONAL, **SHARE_TREE}, **case)
    lines = rows["2"]["explain"]
    assert lines[0].startswith("priority ")
    assert "override tickets 3 = 6 / 2 (user ann, jobs before it counted)" in lines
    assert "functional tickets 500 = 1 × 1000 × 2 / 2 / 2 (user ann, jobs before it counted)" in lines
    assert "share-tree tickets 500 = 1 / 2 × 1000 (position 2 in node /ann)" in lines
