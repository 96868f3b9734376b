"""Starts of all waiting jobs by conservative backfill: each at the earliest instant that delays none before it.

What jobs take is in columns: the processors of a partition, its GPUs, its GPUs of one type. A job has one choice or
several (partitions that it may run in), each a list of parts: an amount of a column. In their order, each job starts at

    min t ≥ begin such that free(column, u) ≥ amount for every part and every u in [t, t + length)

of the choice where that is earliest, and takes its parts until then. Running jobs take theirs until their limit,
reservations and drains in their span. Nothing is drawn at random, and no run time is guessed: jobs that end early make
the plan wrong, and calibration learns by how much.

Seconds count from the plan's instant. Compiled and plain kernels give the same bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apps.engine import fast
from apps.engine.fast import compiled

NEVER_S = math.inf
TOLERANCE = 1e-6  # of an amount: sums of tenths of a processor are no whole numbers
Numbers = NDArray[np.float64]
Places = NDArray[np.int64]
Steps = tuple[Numbers, Numbers]


class Taken(NamedTuple):
    """Parts of running jobs and reservations: amounts of columns in a span, each of length m. to_s: inf without end."""

    column: Places
    amount: Numbers
    from_s: Numbers
    to_s: Numbers


class Waiting(NamedTuple):
    """n waiting jobs with their choices and parts.

    begin_s: none starts before it. length_s: time that it asks for, inf without end. Choices of job i are
    `first_choice[i]` to `first_choice[i + 1]`, parts of choice c are `first_part[c]` to `first_part[c + 1]`.
    """

    begin_s: Numbers
    length_s: Numbers
    first_choice: Places
    first_part: Places
    column: Places
    amount: Numbers


class FreeSteps(NamedTuple):
    """Steps of all columns in one array: instants, free amounts, where each column begins, how many steps it has."""

    times: Numbers
    amounts: Numbers
    begins: Places
    n_steps: Places


def plan_starts(capacity: Numbers, taken: Taken, waiting: Waiting, order: Places) -> tuple[Numbers, Places]:
    """Seconds to the start of each job, and the choice that it starts with.

    capacity: what each column has while nothing runs. order: places of the jobs that are planned, the first one first;
    others take nothing. NEVER_S: the job asks for more than there ever is; NaN: it isn't in the order. Choice -1: none.
    """
    steps = _steps(capacity, taken)
    kinds, n_kinds = _kinds(waiting)
    starts = np.full(len(waiting.begin_s), np.nan)
    choices = np.full(len(waiting.begin_s), -1, np.int64)
    results = order, kinds, np.zeros(n_kinds), starts, choices
    if not (fast.is_on() and fast.attempt(_plan, _in_one(steps, waiting), waiting, *results)):
        _plan_plain(steps, waiting, *results)
    return starts, choices


def _steps(capacity: Numbers, taken: Taken) -> list[Steps]:
    """For each column the instants at which its free amount changes, from 0 on, and the amount from each on."""
    steps = []
    by_column = np.argsort(taken.column, kind="stable")
    bounds = np.searchsorted(taken.column[by_column], np.arange(len(capacity) + 1))
    for amount, low, high in zip(capacity, bounds[:-1], bounds[1:], strict=True):
        of_column = by_column[low:high]
        of_column = of_column[taken.to_s[of_column] > np.maximum(taken.from_s[of_column], 0.0)]
        at_s = np.concatenate([[0.0], np.maximum(taken.from_s[of_column], 0.0), taken.to_s[of_column]])
        change = np.concatenate([[amount], -taken.amount[of_column], taken.amount[of_column]])
        is_ever = at_s < np.inf
        instants, place = np.unique(at_s[is_ever], return_inverse=True)
        steps.append((instants, np.cumsum(np.bincount(place, change[is_ever]), dtype=np.float64)))
    return steps


def _kinds(waiting: Waiting) -> tuple[Places, int]:
    """For each choice the number of its kind: choices of one kind ask for the same amounts and time.

    Free amounts only shrink while jobs are planned, so one of a kind starts no earlier than the one planned before it.
    """
    n_parts = np.diff(waiting.first_part)
    job = np.repeat(np.arange(len(waiting.begin_s)), np.diff(waiting.first_choice))
    width = int(n_parts.max(initial=0))
    table = np.full((len(n_parts), 1 + 2 * width), -1.0)
    table[:, 0] = waiting.length_s[job]
    choice = np.repeat(np.arange(len(n_parts)), n_parts)
    place = np.arange(len(waiting.column)) - waiting.first_part[choice]
    table[choice, 1 + 2 * place] = waiting.column
    table[choice, 2 + 2 * place] = waiting.amount
    order = np.lexsort(table.T)
    is_new = np.any(table[order[1:]] != table[order[:-1]], axis=1)
    kinds = np.zeros(len(table), np.int64)
    kinds[order[1:]] = np.cumsum(is_new)
    return kinds, int(is_new.sum()) + 1


def _in_one(steps: list[Steps], waiting: Waiting) -> FreeSteps:
    """Each column has room for two more steps of each part of it that is planned."""
    n_steps = np.array([len(instants) for instants, _free in steps], np.int64)
    room = n_steps + 2 * np.bincount(waiting.column, minlength=len(steps))
    begins = np.cumsum(room) - room
    times, free = np.zeros(room.sum()), np.zeros(room.sum())
    for begin, (instants, amounts) in zip(begins, steps, strict=True):
        times[begin : begin + len(instants)] = instants
        free[begin : begin + len(instants)] = amounts
    return FreeSteps(times, free, begins.astype(np.int64), n_steps)


@compiled
def _step_at(times: Numbers, begin: int, end: int, at_s: float) -> int:
    """The last step that begins at an instant or before it; the first one if all begin later."""
    while end - begin > 1:
        middle = (begin + end) // 2
        if times[middle] <= at_s:
            begin = middle
        else:
            end = middle
    return begin


@compiled
def _earliest(
    times: Numbers, free: Numbers, begin: int, end: int, from_s: float, amount: float, length_s: float
) -> float:
    """First instant from `from_s` on from which an amount is free for a time; infinity without one."""
    start_s = from_s
    for step in range(_step_at(times, begin, end, from_s), end):
        if free[step] < amount - TOLERANCE:
            if step == end - 1:
                break
            start_s = times[step + 1]
        elif step == end - 1 or times[step + 1] >= start_s + length_s:
            return start_s
    return math.inf


@compiled
def _split(times: Numbers, free: Numbers, begin: int, n_steps: Places, column: int, at_s: float) -> int:
    """The step of a column that begins at an instant, inserted if there is none."""
    end = begin + n_steps[column]
    before = _step_at(times, begin, end, at_s)
    if times[before] == at_s:
        return before
    for step in range(end, before + 1, -1):
        times[step] = times[step - 1]
        free[step] = free[step - 1]
    times[before + 1] = at_s
    free[before + 1] = free[before]
    n_steps[column] += 1
    return before + 1


@compiled
def _plan(
    free: FreeSteps,
    waiting: Waiting,
    order: Places,
    kinds: Places,
    not_before: Numbers,
    starts: Numbers,
    choices: Places,
) -> bool:
    """Write starts and choices; returns True."""
    for job in order:
        best_s, best = math.inf, -1
        for choice in range(waiting.first_choice[job], waiting.first_choice[job + 1]):
            kind = kinds[choice]
            start_s = max(waiting.begin_s[job], not_before[kind])
            is_first_of_kind = waiting.begin_s[job] <= not_before[kind]
            is_moved = True
            while is_moved and start_s < math.inf:
                is_moved = False
                for part in range(waiting.first_part[choice], waiting.first_part[choice + 1]):
                    begin, end = (
                        free.begins[waiting.column[part]],
                        free.begins[waiting.column[part]] + free.n_steps[waiting.column[part]],
                    )
                    at_s = _earliest(
                        free.times, free.amounts, begin, end, start_s, waiting.amount[part], waiting.length_s[job]
                    )
                    is_moved = is_moved or at_s > start_s
                    start_s = at_s
            if is_first_of_kind:
                not_before[kind] = start_s
            if start_s < best_s:
                best_s, best = start_s, choice
        starts[job], choices[job] = best_s, best
        if best < 0:
            continue
        end_s = best_s + waiting.length_s[job]
        for part in range(waiting.first_part[best], waiting.first_part[best + 1]):
            begin = free.begins[waiting.column[part]]
            first = _split(free.times, free.amounts, begin, free.n_steps, waiting.column[part], best_s)
            last = begin + free.n_steps[waiting.column[part]]
            if end_s < math.inf:
                last = _split(free.times, free.amounts, begin, free.n_steps, waiting.column[part], end_s)
            for step in range(first, last):
                free.amounts[step] -= waiting.amount[part]
    return True


def _plan_plain(
    steps: list[Steps],
    waiting: Waiting,
    order: Places,
    kinds: Places,
    not_before: Numbers,
    starts: Numbers,
    choices: Places,
) -> None:
    """Without machine code: on whole columns at once, which is what numpy does fast."""
    for job in order.tolist():
        begin_s, length_s = max(float(waiting.begin_s[job]), 0.0), float(waiting.length_s[job])
        best_s, best = math.inf, -1
        for choice in range(waiting.first_choice[job], waiting.first_choice[job + 1]):
            bound_s = float(not_before[kinds[choice]])
            parts = range(waiting.first_part[choice], waiting.first_part[choice + 1])
            start_s, before_s = max(begin_s, bound_s), -math.inf
            while before_s < start_s < math.inf:
                before_s = start_s
                for part in parts:
                    column = steps[waiting.column[part]]
                    start_s = _earliest_plain(column, start_s, waiting.amount[part], length_s)
            if begin_s <= bound_s:
                not_before[kinds[choice]] = start_s
            if start_s < best_s:
                best_s, best = start_s, choice
        starts[job], choices[job] = best_s, best
        if best >= 0:
            for part in range(waiting.first_part[best], waiting.first_part[best + 1]):
                place = waiting.column[part]
                steps[place] = _taken_plain(steps[place], best_s, best_s + length_s, waiting.amount[part])


def _earliest_plain(column: Steps, from_s: float, amount: float, length_s: float) -> float:
    times, free = column
    low = max(int(times.searchsorted(from_s, "right")) - 1, 0)
    short = np.flatnonzero(free[low:] < amount - TOLERANCE) + low
    begins_s = np.concatenate([[from_s], np.append(times, np.inf)[short + 1]])
    ends_s = np.append(times[short], np.inf)
    return float(begins_s[np.argmax(ends_s >= begins_s + length_s)])


def _taken_plain(column: Steps, from_s: float, to_s: float, amount: float) -> Steps:
    times, free = column
    for at_s in (from_s, to_s):
        place = int(times.searchsorted(at_s))
        if at_s < math.inf and (place == len(times) or times[place] != at_s):
            times = np.insert(times, place, at_s)
            free = np.insert(free, place, free[place - 1])
    free[times.searchsorted(from_s) : times.searchsorted(to_s)] -= amount
    return times, free
