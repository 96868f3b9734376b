"""The fewest changes that give a queue its new order, beside every other set of changes of small queues."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from agent.fewest import IS_SENT, MAY_STAY, STAYS, QueuePlace, fewest_changes

Row = tuple[int, int, int, str]
JOB = st.tuples(
    st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.sampled_from([MAY_STAY] * 5 + [IS_SENT, STAYS])
)


def places(rows: list[Row]) -> list[QueuePlace]:
    """With numbers 8, 9, 10, 11 … so that their order isn't that of their text."""
    return [QueuePlace(str(8 + n), *row) for n, row in enumerate(rows)]


def order_of(queue: list[QueuePlace], points: dict[str, int]) -> list[str]:
    """As Slurm sorts: the higher priority first, of equal ones the lower number."""
    return [each.job for each in sorted(queue, key=lambda each: (-each.base - points[each.job], each.number))]


def after(queue: list[QueuePlace], changes: dict[str, int]) -> dict[str, int]:
    points = {each.job: each.wanted if each.how == STAYS else each.now for each in queue}
    return {**points, **changes}


def has_points(queue: list[QueuePlace], kept: set[str]) -> bool:
    """Whether the other jobs can have any whole points so that the order is the wanted one: those that stay, in the
    wanted order, are apart by at least the turns of numbers between them."""
    order = sorted(queue, key=lambda each: (-each.wanted_total, each.number))
    last: int | None = None
    highest = 0  # of a total, given that all between are as high as they can be
    previous: QueuePlace | None = None
    for each in order:
        if last is not None and previous is not None:
            highest -= previous.number > each.number
        stays = each.how == STAYS or each.job in kept
        total = each.wanted_total if each.how == STAYS else each.total
        if stays:
            if last is not None and total > highest:
                return False
            last = highest = total
        previous = each
    return True


@given(st.lists(JOB, max_size=40), st.integers(1, 5))
def test_the_order_after_the_changes_is_that_after_all_updates(rows: list[Row], spacing: int) -> None:
    queue = places(rows)
    changes = fewest_changes(queue, spacing)
    assert order_of(queue, after(queue, changes)) == order_of(queue, {each.job: each.wanted for each in queue})
    assert {each.job for each in queue if each.how == IS_SENT} <= set(changes)
    assert not {each.job for each in queue if each.how == STAYS} & set(changes)


@given(st.lists(JOB, max_size=9))
def test_no_smaller_set_of_changes_gives_that_order(rows: list[Row]) -> None:
    queue = places(rows)
    movable = [each.job for each in queue if each.how == MAY_STAY]
    n_changed = sum(job in fewest_changes(queue, 1) for job in movable)
    largest = next(
        size
        for size in range(len(movable), -1, -1)
        if any(has_points(queue, set(kept)) for kept in combinations(movable, size))
    )
    assert n_changed == len(movable) - largest


@given(st.lists(JOB, max_size=40), st.integers(1, 5))
def test_points_stay_within_bounds_and_the_order_is_as_wanted(rows: list[Row], spacing: int) -> None:
    queue = places(rows)
    changes = fewest_changes(queue, spacing, 0, 12)
    assert order_of(queue, after(queue, changes)) == order_of(queue, {each.job: each.wanted for each in queue})
    assert all(0 <= points <= 12 for points in changes.values())


@given(st.lists(JOB, max_size=40))
def test_nothing_is_changed_again(rows: list[Row]) -> None:
    queue = places(rows)
    points = after(queue, fewest_changes(queue, 3))
    again = [each._replace(now=points[each.job], how=MAY_STAY) for each in queue]
    assert fewest_changes(again, 3) == {}


def test_a_rank_that_moves_past_others_changes_its_own_jobs_only() -> None:
    """500 jobs of 50 users: one user falls from the first place to the 40th, so that 39 others rise by one."""
    queue = [
        QueuePlace(str(1000 + n), 7 * n % 50, 2000 * (50 - n % 50), 2000 * (50 - _place_after(n % 50)), MAY_STAY)
        for n in range(500)
    ]
    assert sum(each.now != each.wanted for each in queue) == 400
    changes = fewest_changes(queue, 100)
    assert set(changes) == {each.job for each in queue if each.now == 100_000}


def _place_after(user: int) -> int:
    return 39 if user == 0 else user - 1 if user < 40 else user


def test_no_room_between_two_that_stay_changes_one_of_them() -> None:
    queue = [
        QueuePlace("2", 0, 10, 30, MAY_STAY),
        QueuePlace("3", 0, 10, 10, MAY_STAY),
        QueuePlace("9", 0, 0, 20, IS_SENT),
    ]
    changes = fewest_changes(queue, 100)
    assert len(changes) == 2
    assert order_of(queue, after(queue, changes)) == ["2", "9", "3"]
