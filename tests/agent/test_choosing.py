"""The values that a pass sends: the order of the queue after them is that after all, wherever a bound cuts them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent import turns
from agent.choosing import LONGEST_STAY_S, Choice, choose
from agent.orders import Orders, read_orders
from agent.records import Job, ListedPriority
from agent.sending import NOT_SENT
from agent.state import Table
from tests.agent.fakes import ORDERS

STEP = 10
ONE = st.fixed_dictionaries(
    {
        "bases": st.lists(st.integers(302, 360), min_size=1, max_size=2),  # Slurm has no priority below 1
        "now": st.integers(0, 300),
        "wanted": st.integers(0, 300),
        "is_ours": st.booleans(),
        "is_ordered": st.sampled_from([True] * 5 + [False]),
    }
)
ONE_HELD = st.fixed_dictionaries(
    {
        "like": st.integers(0, 19),
        "number": st.integers(0, 19),
        "now": st.integers(0, 300),
        "wanted": st.integers(0, 300),
        "is_ours": st.sampled_from([True, True, False]),
    }
)
Rows = dict[str, dict[str, Any]]


def rows_of(waiting: list[dict[str, Any]], held: list[dict[str, Any]]) -> Rows:
    """By job. Numbers are 8, 10, 12 …; those of held jobs lie between, and each would have the place of one like it."""
    rows = {str(8 + 2 * n): {**row, "user": f"u{n}", "is_held": False} for n, row in enumerate(waiting)}
    for row in held if waiting else ():
        like = row["like"] % len(waiting)
        more = {"bases": waiting[like]["bases"], "user": f"u{like}", "is_held": True, "is_ordered": True}
        rows[str(9 + 2 * row["number"])] = {**row, **more}
    return rows


QUEUE = st.lists(ONE, max_size=30).map(lambda rows: rows_of(rows, []))
HELD = st.builds(rows_of, st.lists(ONE, max_size=20), st.lists(ONE_HELD, max_size=10))


def orders(**changes: Any) -> Orders:
    return read_orders(json.loads(json.dumps({**ORDERS, "weight": 300, "step": STEP, **changes})))


def is_unknown(row: dict[str, Any]) -> bool:
    """Whether it has a value that neither Slurm lists nor the agent set."""
    return bool(row["is_held"]) and not row["is_ours"]


class Queue:
    """Waiting jobs with their values: `now` in the scheduler, `wanted` by the site."""

    def __init__(self, rows: Rows, table: Table) -> None:
        self.rows, self.table, self.is_released = rows, table, False
        table.intend((job, row["now"]) for job, row in self.rows.items() if row["is_ours"])
        table.confirm(self.rows)

    def jobs(self) -> list[Job]:
        return [self._job(job, row) for job, row in self.rows.items()]

    def _job(self, job: str, row: dict[str, Any]) -> Job:
        priorities = tuple(base + row["now"] for base in row["bases"])
        at = ("a", "b")[: len(priorities)]
        several = tuple(map(ListedPriority, at, ("", ""), priorities)) if len(priorities) > 1 else ()
        if row["is_held"] and not self.is_released:  # as Slurm lists it
            return Job(job, None, row["user"], "g", at, "", 1, None, True, "JobHeldUser", 0, None, None)
        return Job(job, None, row["user"], "g", at, "", 1, None, False, "", max(priorities), None, row["now"], several)

    def choose(self, room: float = float("inf"), now: float = 0.0) -> Choice:
        wanted = {job: row["wanted"] for job, row in self.rows.items() if row["is_ordered"]}
        return choose(orders(), self.jobs(), wanted, self.table, room, now, sends_all=False)

    def take(self, choice: Choice, now: float = 0.0) -> None:
        self.table.note_stays(choice.stays, now)
        for job, value in choice.due:
            self.rows[job]["now"] = value
            self.rows[job]["is_ours"] = True
        self.table.intend(choice.due)
        self.table.confirm(dict(choice.due))

    def after_all(self) -> dict[str, int]:
        """Values if all are sent; of several partitions, those that moved by the step."""
        values = {}
        for job, row in self.rows.items():
            is_due = len(set(row["bases"])) == 1 or abs(row["wanted"] - row["now"]) >= STEP or is_unknown(row)
            values[job] = row["wanted"] if is_due and row["is_ordered"] else row["now"]
        return values

    def values(self) -> dict[str, int]:
        return {job: row["now"] for job, row in self.rows.items()}

    def order(self, values: dict[str, int]) -> list[tuple[int, int, str]]:
        """As Slurm sorts: a row for each partition with a priority of its own, as (-priority, number, job)."""
        rows = {(-base - values[job], int(job), job) for job, row in self.rows.items() for base in row["bases"]}
        return sorted(rows)

    def sequence(self, values: dict[str, int]) -> list[tuple[str, int]]:
        """Jobs in order, with which of their partitions it is."""
        rows = [
            (-base - values[job], int(job), job, base) for job, row in self.rows.items() for base in set(row["bases"])
        ]
        return [(job, base) for _priority, _number, job, base in sorted(rows)]


@given(QUEUE | HELD)
def test_the_order_after_the_updates_of_a_pass_is_that_after_all(rows: Rows) -> None:
    queue = Queue(rows, Table("unused"))
    wanted = queue.after_all()
    n_moved = sum(row["now"] != wanted[job] or is_unknown(row) for job, row in rows.items())
    choice = queue.choose()
    queue.take(choice)
    assert queue.sequence(queue.values()) == queue.sequence(wanted)
    assert choice.n_later == 0
    assert len(choice.due) <= n_moved
    assert queue.choose().due == [], "nothing is sent again"
    queue.is_released = True
    assert queue.choose().due == [], "nor at the release of held jobs"


@given(QUEUE | HELD, st.integers(0, 20))
def test_the_front_of_the_queue_is_in_order_wherever_the_bound_cuts(rows: Rows, room: int) -> None:
    queue = Queue(rows, Table("unused"))
    before = queue.values()
    every = dict(queue.choose().due)
    choice = queue.choose(room)
    assert len(choice.due) + choice.n_later == len(every)
    assert len(choice.due) <= room
    queue.take(choice)
    unsent = [
        max(queue.rows[job]["bases"]) + max(before[job], value)
        for job, value in every.items()
        if job not in dict(choice.due)
    ]
    edge = max(unsent, default=-1)
    in_full = queue.order({**before, **every})
    assert [row for row in queue.order(queue.values()) if -row[0] > edge] == [row for row in in_full if -row[0] > edge]


@given(HELD, st.integers(0, 30))
def test_held_jobs_come_after_all_others(rows: Rows, room: int) -> None:
    queue = Queue(rows, Table("unused"))
    every, choice = dict(queue.choose().due), queue.choose(room)
    held = {job for job, row in rows.items() if row["is_held"]}
    if held & set(dict(choice.due)):
        assert every.keys() - held <= dict(choice.due).keys()


@given(QUEUE | HELD, st.integers(1, 5))
def test_values_that_stayed_are_set_without_a_job_that_passes_another(rows: Rows, room: int) -> None:
    queue = Queue(rows, Table("unused"))
    queue.take(queue.choose())
    for n in range(1, len(rows) + 2):
        before = queue.sequence(queue.values())
        queue.take(queue.choose(room, n * LONGEST_STAY_S), n * LONGEST_STAY_S)
        assert queue.sequence(queue.values()) == before
    assert all(abs(row["wanted"] - row["now"]) < STEP for row in queue.rows.values() if row["is_ordered"])


def test_values_that_stayed_are_spread_over_half_an_hour() -> None:
    rows = [{"bases": [5], "now": 3 * n, "wanted": 3 * n + 10, "is_ours": True, "is_ordered": True} for n in range(90)]
    queue = Queue(rows_of(rows, []), Table("unused"))
    queue.take(queue.choose())
    numbers = []
    for n in range(1, 121):
        choice = queue.choose(now=30.0 * n)
        queue.take(choice, 30.0 * n)
        numbers.append(len(choice.due))
    assert numbers[:59] == [0] * 59
    assert max(numbers) == 2
    assert sum(numbers) == 90
    assert queue.choose().stays == []


def test_what_failed_before_takes_no_other_jobs_room() -> None:
    one = {"bases": [500], "now": 0, "is_ours": False, "is_ordered": True}
    queue = Queue(
        rows_of([{**one, "wanted": 300}, {**one, "wanted": 200}, {**one, "wanted": 100}], []), Table("unused")
    )
    assert [job for job, _ in queue.choose(room=1).due] == ["8"]
    turns.note(queue.table, NOT_SENT, ["8"], [])
    assert [job for job, _ in queue.choose(room=1).due] == ["10"]
    assert queue.choose(room=1).n_later == 2


@given(st.integers(2, 50), st.integers(1, 30), st.integers(1, 60))
def test_what_failed_has_a_turn_although_there_are_always_others(room: int, n_failed: int, n_more: int) -> None:
    """All others need a new value in each pass, as if the site's orders changed each time."""
    one = {"bases": [500], "now": 0, "wanted": 300, "is_ours": False, "is_ordered": True}
    queue = Queue(rows_of([one] * (n_failed + room + n_more), []), Table("unused"))
    failed = [job for job, _ in queue.choose().due[:n_failed]]
    turns.note(queue.table, NOT_SENT, failed, [])
    tried: set[str] = set()
    for _ in range(n_failed):
        due = [job for job, _ in queue.choose(room).due]
        again = [job for job in due if job in failed]
        assert len(due) == room
        assert 1 <= len(again) <= max(room // 10, 1)
        turns.note(queue.table, NOT_SENT, again, [])
        tried.update(again)
    assert tried == set(failed)


def test_what_ended_is_forgotten_in_one_reading() -> None:
    """Ended ones come as an iterator, which can be read once."""
    table = Table("unused")
    turns.note(table, NOT_SENT, ["1", "2", "3"], [])
    turns.note(table, NOT_SENT, [], iter(["1", "3"]))
    assert list(table.facts[NOT_SENT]) == ["2"]
