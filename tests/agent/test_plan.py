"""Which job gets which value: pure, on jobs and factors made for a test."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import first_values, turns
from agent.checks import check_names
from agent.orders import Orders, read_orders
from agent.plan import Plan, in_scope, make_plan, minutes_text, unknown_partitions
from agent.records import Answer, Job, LookUp, Problem, Queue
from agent.sending import MOST_CHARACTERS, MOST_FAILED_AGAIN, MOST_JOBS, NOT_SENT, groups, send_all, send_in_turns
from agent.state import Table
from tests.agent.fakes import ORDERS


def orders(**changes: Any) -> Orders:
    return read_orders(json.loads(json.dumps({**ORDERS, **changes})))


def job(number: int = 1, user: str = "ann", **changes: Any) -> Job:
    made = Job(str(number), None, user, "physics", ("batch",), "normal", 1, None, False, "", 1000, None, None)
    return made._replace(**changes)


def plan(jobs: list[Job], table: Table, accepts: bool = False, age_s: float = 1.0, **changes: Any) -> Plan:
    queue = Queue(jobs, frozenset(each.id for each in jobs), {}, [], 0)
    answers = {
        ("ann", "physics", "batch"): Answer("/physics/ann", 0.25, None),
        ("ann", "physics", "gpu"): Answer("/physics/ann:gpu", 0.75, None),
        ("bob", "physics", "batch"): Answer("/physics/bob", 0.5, None),
        ("paul", "physics", "batch"): Answer("/physics", 0.125, "no_own_entry"),
    }
    answers |= {each.asked: Answer(None, 0.5, "unmapped") for each in jobs if each.asked not in answers}
    return make_plan(orders(**changes), queue, LookUp(812, age_s, answers), table, accepts)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(str(tmp_path))


@pytest.mark.parametrize(
    ("current", "is_due"), [(None, True), (25000, False), (25099, False), (24901, False), (25100, True), (0, True)]
)
def test_a_value_is_due_if_unknown_or_a_step_away(table: Table, current: int | None, is_due: bool) -> None:
    assert plan([job(current=current)], table).due == [("1", 25000)] * is_due


def test_confirmed_table_values_are_used_if_the_scheduler_lists_none(table: Table) -> None:
    table.intend([("1", 25000)])
    assert plan([job()], table).due == [("1", 25000)]
    table.confirm(["1"])
    assert plan([job()], table).due == []
    assert plan([job(current=0)], table).due == [("1", 25000)], "the scheduler knows better"


def test_a_priority_computed_by_the_scheduler_is_not_ours(table: Table) -> None:
    reckoned = job(current=25001, priority=25001)
    assert plan([reckoned], table, knob="priority").due == [("1", 25001)]
    table.intend([("1", 25001)])
    assert plan([reckoned], table, knob="priority").due == []


def test_a_held_job_gets_a_site_factor_and_no_priority(table: Table) -> None:
    held = job(is_held=True)
    assert plan([held], table).due == [("1", 25000)]
    assert plan([held], table, knob="priority").due == []


def test_jobs_are_sent_by_value_then_number(table: Table) -> None:
    jobs = [job(10, "bob"), job(9, "bob"), job(100), job(20)]
    assert plan(jobs, table).due == [("20", 25000), ("100", 25000), ("9", 50000), ("10", 50000)]


def test_a_job_has_the_value_of_its_partitions_association(table: Table) -> None:
    jobs = [job(1), job(2, partitions=("gpu",)), job(3, partitions=("batch", "long"))]
    assert plan(jobs, table).values == {"1": 25000, "2": 75000, "3": 25000}


def test_a_user_without_an_entry_counts_as_unmapped_and_is_named_with_the_remedy(table: Table) -> None:
    found = plan([job(1), job(2, "paul")], table)
    assert (found.values, found.n_mapped, found.n_unmapped) == ({"1": 25000, "2": 12500}, 1, 1)
    assert found.frozen is not None
    assert found.frozen.code == "too_many_unmapped"
    check = check_names(orders(), found)
    assert (check.code, check.severity) == ("names_unmapped", "error")
    assert "paul in physics" in check.found
    assert "Import the scheduler's accounts" in check.remedy


@pytest.mark.parametrize(
    ("now", "until", "is_used"),
    [(8, None, True), (907, None, True), (908, None, False), (8, 8.0, True), (9, 8.0, False), (5_000, 6_000.0, True)],
)
def test_a_submit_script_finds_the_value_of_a_partition_beside_that_of_the_account(
    tmp_path: Path, now: int, until: float | None, is_used: bool
) -> None:
    file = tmp_path / "first-values"
    limit = [] if until is None else [f"# until {until:.0f}"]
    values = {("ann", "physics", "batch"): 25, ("ann", "physics", "gpu"): 75, ("ann", "physics", "long"): 25}
    first_values.write(str(file), {**values, ("bob", "physics", "batch"): 50}, 7.0, until)
    assert file.read_text().splitlines() == ["# 7", *limit, "ann|physics|25", "ann|physics|gpu|75", "bob|physics|50"]
    lua = shutil.which("lua5.3") or shutil.which("lua")
    if lua is None:
        pytest.skip("lua5.3 is not installed")
    script = (
        Path("docs/examples/slurm/job_submit.lua").read_text().replace("/run/fairshare-agent/first-values", str(file))
    )
    jobs = [("ann", None), ("ann", "gpu"), ("ann", "gpu,long"), ("ann", "long"), ("bob", "gpu"), ("eve", "gpu")]
    parts = "{gpu = {flag_default = 0}, batch = {flag_default = 1}}"
    calls = "".join(
        f'job = {{user_name = "{user}", account = "physics", partition = {json.dumps(partition)}}}'.replace(
            "null", "nil"
        )
        + f' slurm_job_submit(job, {parts}, 0) print(job.site_factor or "-")\n'
        for user, partition in jobs
    )
    driven = tmp_path / "driven.lua"
    driven.write_text(
        f"os.time = function() return {now} end\nslurm = {{SUCCESS = 0}}\n"
        + script.removesuffix("return slurm.SUCCESS\n")
        + calls
    )
    out = subprocess.run([lua, str(driven)], capture_output=True, check=True, text=True).stdout.split()
    assert out == (["25", "75", "75", "25", "50", "-"] if is_used else ["-"] * 6)


def test_scope_matches_any_partition_of_a_job(table: Table) -> None:
    jobs = [job(1), job(2, partitions=("batch", "gpu")), job(3, partitions=("gpu",))]
    assert [each.id for each in in_scope(orders(partitions=["gpu"]), jobs)] == ["2", "3"]
    found = plan(jobs, table, mode="canary", canary_partition="gpu")
    assert ([number for number, _ in found.due], sorted(found.values)) == (["2", "3"], ["1", "2", "3"])


def test_a_missing_partition_freezes_the_agent() -> None:
    assert unknown_partitions(orders(partitions=["a"]), ["a", "b"]) is None
    frozen = unknown_partitions(orders(partitions=["a", "c"], canary_partition="d", mode="canary"), ["a", "b"])
    assert frozen is not None
    assert "no partition c, d: it has a, b" in frozen.detail


def test_a_small_queue_can_change_completely(table: Table) -> None:
    jobs = [job(n, current=0) for n in range(1, 20)]
    table.intend([(each.id, 0) for each in jobs])
    assert plan(jobs, table).frozen is None
    jobs.append(job(20, current=0))
    table.intend([("20", 0)])
    frozen = plan(jobs, table).frozen
    assert frozen is not None
    assert frozen.code == "too_many_changes"
    assert plan(jobs, table, accepts=True).frozen is None


def test_new_jobs_are_not_changes(table: Table) -> None:
    table.intend([(str(n), 25000) for n in range(1, 31)])
    jobs = [job(n, current=25000 if n <= 30 else 0) for n in range(1, 1000)]
    assert plan(jobs, table).frozen is None


@given(
    st.lists(st.tuples(st.integers(1, 10**10 - 1), st.integers(0, 3)), unique_by=lambda each: each[0], max_size=2000)
)
def test_groups_are_bounded_and_complete(numbers: list[tuple[int, int]]) -> None:
    due = sorted(((str(number), value) for number, value in numbers), key=lambda each: each[1])
    found = groups(due)
    assert [(number, value) for value, jobs in found for number in jobs] == due
    assert all(len(jobs) <= MOST_JOBS and len(",".join(jobs)) <= MOST_CHARACTERS for _, jobs in found)


@given(st.sets(st.integers(1, 300)), st.integers(1, 300))
def test_a_failing_job_does_not_block_others_of_its_group(bad: set[int], size: int) -> None:
    def send(value: int, jobs: Any) -> Problem | None:
        return Problem("job_gone", "gone") if bad & set(map(int, jobs)) else None

    sent = send_all([(str(n), 5) for n in range(1, size + 1)], send)
    here = bad & set(range(1, size + 1))
    if not sent.problems.get("refused"):  # else the bound on retries was reached
        assert set(map(int, sent.gone)) == here
        assert set(map(int, sent.done)) == set(range(1, size + 1)) - here
    n_named = sum(n for n, _ in sent.problems.values())
    assert len(sent.done) + n_named == size


def test_a_hanging_scheduler_is_abandoned_after_two_calls() -> None:
    calls = []

    def send(value: int, jobs: Any) -> Problem:
        calls.append(jobs)
        return Problem("timeout", "late")

    sent = send_all([(str(n), n) for n in range(1, 50)], send)
    assert (len(calls), sent.problems) == (2, {"timeout": (49, "late")})


REFUSED = Problem("refused", "Invalid job")


@pytest.mark.parametrize("n_refused", [1, 250, 3_000])
def test_refused_jobs_at_the_head_keep_no_other_from_its_turn(table: Table, n_refused: int) -> None:
    """All have low values, so that they are sent first, and each pass has a bound on calls that search for them."""
    refused = {str(n) for n in range(1, n_refused + 1)}
    good = [str(10_000 + n) for n in range(50)]
    calls = 0

    def send(value: int, jobs: Sequence[str]) -> Problem | None:
        nonlocal calls
        calls += 1
        return REFUSED if refused & set(jobs) else None

    done: set[str] = set()
    left = [*((job, 1) for job in sorted(refused, key=int)), *((job, 2) for job in good)]
    table.intend(left)
    passes = 0
    while not done >= set(good):
        room = 1_000
        due = turns.sort(table, NOT_SENT, left, lambda each: each[0])[:room]
        sent = send_in_turns(table, sorted(due, key=lambda each: each[1]), lambda some: send_all(some, send))
        assert len(sent.done) + len(sent.gone) + sent.n_failed == len(due)
        done.update(sent.done)
        left = [each for each in left if each[0] not in done]
        passes += 1
        assert passes <= 1 + n_refused / 50
    calls = 0
    n_known = len(table.facts[NOT_SENT])
    send_in_turns(table, [each for each in left if each[0] in table.facts[NOT_SENT]], lambda some: send_all(some, send))
    assert calls == min(n_known, MOST_FAILED_AGAIN), "each by itself, a few in each pass"
    refused.clear()
    while left:
        sent = send_in_turns(table, left, lambda some: send_all(some, send))
        assert sent.done
        left = [each for each in left if each[0] not in sent.done]
    assert NOT_SENT not in table.facts, "nothing is kept of what was mended"


@pytest.mark.parametrize(
    ("seconds", "text"), [(15.0, "0.25"), (2_000.0, "33.3"), (5_999.0, "100"), (59_970.0, "1000"), (1e7, "166667")]
)
def test_minutes_are_never_a_power_of_ten(seconds: float, text: str) -> None:
    assert minutes_text(seconds) == f"{text} min"
