"""Choose the values that a pass sends: the fewest that give the queue its order, the front of it first.

Slurm takes one RPC for each job that is changed. So a value that moved is sent only where the order needs it; the
others stay, and are set after LONGEST_STAY_S at most, spread over half of it, for those who read the number. A job
without a place, such as a held one, is put at the place that it would have, so that it passes no other at its release.
"""

import math
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from agent import turns
from agent.fewest import IS_SENT, MAY_STAY, STAYS, QueuePlace, fewest_changes
from agent.orders import BOUNDS, Orders
from agent.records import Job
from agent.sending import MOST_FAILED_AGAIN, NOT_SENT
from agent.state import Table

LONGEST_STAY_S = 3600.0
Bases = Tuple[int, ...]  # of one job: what its other terms add, once or for each partition


class Choice(NamedTuple):
    due: List[Tuple[str, int]]  # to send now, by value, then job
    n_later: int  # jobs that the order needs, too, beyond the bound on updates
    stays: List[str]  # jobs whose value moved by a step or more, and that have their place without it


class _Move(NamedTuple):
    """A job, its points before and after, and what its other terms add."""

    job: str
    base: int
    before: int
    after: int
    is_held: bool

    @property
    def front(self) -> int:
        return self.base + max(self.before, self.after)


def choose(
    orders: Orders, jobs: Sequence[Job], values: Dict[str, int], table: Table, room: float, now: float, sends_all: bool
) -> Choice:
    """values: of jobs that get one. room: the most updates. now: seconds since 1970. sends_all: not only the fewest."""
    by_id = {job.id: job for job in jobs}
    far = {job: value for job, value in values.items() if is_far(orders, by_id[job], value, table)}
    places = [] if sends_all else _places(orders, jobs, values, far, table)
    bases = _highest_bases(places)
    changes = {each.job: each.wanted for each in places if each.how == STAYS and each.job in far}
    changes.update(fewest_changes(places, orders.step, *_bounds(orders)))
    changes.update({job: points_of(orders, far[job]) for job in far if job not in bases})
    moves = [_move(orders, by_id[job], points, table, bases) for job, points in changes.items()]
    moves.sort(
        key=lambda move: (move.is_held, -move.front, len(move.job), move.job)
    )  # after any, all above is in order
    most = int(min(room, len(moves)))
    in_turn = turns.first(table, NOT_SENT, moves, lambda move: move.job, most, MOST_FAILED_AGAIN)
    sent = {move.job: move.after for move in in_turn}
    stays = [job for job in far if job not in changes]
    if len(sent) == len(moves):
        again = _set_again(orders, by_id, values, changes, stays, table, places, room - len(sent), now)
        sent.update({job: points_of(orders, values[job]) for job in again})
        stays = [job for job in stays if job not in sent]
    due = [(job, value_of_points(orders, points)) for job, points in sent.items()]
    due.sort(key=lambda each: (each[1], len(each[0]), each[0]))  # neighbours with the same value share a command
    return Choice(due, len(moves) - min(len(moves), len(sent)), stays)


def is_far(orders: Orders, job: Job, value: int, table: Table) -> bool:
    """Whether the job has no value, or one that differs by a step or more."""
    current = current_value(orders, job, table)
    return current is None or abs(value - current) >= orders.step


def current_value(orders: Orders, job: Job, table: Table) -> Optional[int]:
    """The present value: as listed by the scheduler, else as set.

    A Slurm priority that the agent didn't set doesn't count.
    """
    if releases(orders) and job.id not in table:
        return None
    return job.current if job.current is not None else table.confirmed(job.id)


def releases(orders: Orders) -> bool:
    """Whether setting a held job's priority would release it."""
    return orders.kind == "slurm" and orders.knob == "priority"


def points_of(orders: Orders, value: int) -> int:
    """What a value adds to the priority; of HTCondor's factors the lower is the better."""
    return -value if orders.knob in ("nice", "priority_factor") else value


value_of_points = points_of  # its own inverse


def _places(
    orders: Orders, jobs: Sequence[Job], values: Dict[str, int], far: Dict[str, int], table: Table
) -> List[QueuePlace]:
    """Jobs with a known place, also those that get no value; and others that get one, at the place that they would
    have. None for Grid Engine, whose tickets are relative."""
    if orders.kind != "slurm":
        return []
    bases = _known_bases(orders, jobs)
    bases.update(_bases_of_similar(jobs, bases, values))
    places = []
    for job in jobs:
        if job.id not in bases:
            continue
        current = job.current if job.current is not None else table.confirmed(job.id)
        now = points_of(orders, values[job.id] if current is None else current)
        wanted = points_of(orders, values[job.id]) if job.id in values else now
        if len(bases[job.id]) > 1 or job.id not in values:
            how, wanted = STAYS, wanted if job.id in far else now
        elif job.id in far and (current is None or table.value(job.id) != current):
            how = IS_SENT  # new, or changed by others
        else:
            how = MAY_STAY
        places += [QueuePlace(job.id, base, now, wanted, how) for base in bases[job.id]]
    return places


def _known_bases(orders: Orders, jobs: Sequence[Job]) -> Dict[str, Bases]:
    """Of jobs that have a place in the queue."""
    bases = {}
    for job in jobs:
        if job.current is not None and not job.is_held and job.priority > 1 and not _is_fixed(orders, job):
            now = points_of(orders, job.current)
            bases[job.id] = tuple(priority - now for priority in job.differing or (int(job.priority),))
    return bases


def _bases_of_similar(jobs: Sequence[Job], known: Dict[str, Bases], values: Dict[str, int]) -> Dict[str, Bases]:
    """Bases that held jobs, and others without a place, would have: those of the newest job of the same account,
    partitions and QOS, else of the same partitions and QOS, of the same partitions, or of any. It has waited least."""
    newest: Dict[Tuple[object, ...], Bases] = {}
    for job in sorted((job for job in jobs if job.id in known), key=lambda job: (len(job.id), job.id)):
        newest.update(dict.fromkeys(_likeness(job), known[job.id]))
    without = [job for job in jobs if job.id in values and job.id not in known]
    return {job.id: next((newest[each] for each in _likeness(job) if each in newest), (0,)) for job in without}


def _likeness(job: Job) -> List[Tuple[object, ...]]:
    """What another job has in common with it, from most to least."""
    return [(job.partitions, job.qos, job.asked), (job.partitions, job.qos), (job.partitions,), ()]


def _highest_bases(places: Sequence[QueuePlace]) -> Dict[str, int]:
    return {each.job: each.base for each in sorted(places, key=lambda each: each.base)}


def _is_fixed(orders: Orders, job: Job) -> bool:
    """Whether an administrator set the priority itself, so that nice has no effect."""
    return orders.knob == "nice" and job.terms is not None and not any(job.terms.values())


def _bounds(orders: Orders) -> Tuple[int, int]:
    """Bounds of points: between neighbours that stay, a value may be a weight above or below those of factors."""
    least, most = BOUNDS[orders.kind, orders.knob]
    if orders.knob == "nice":
        return max(-2 * orders.weight, -most), 0
    return max(-orders.weight, least), min(2 * orders.weight, most)


def _move(orders: Orders, job: Job, points: int, table: Table, bases: Dict[str, int]) -> _Move:
    before = points_of(orders, current_value(orders, job, table) or 0)
    base = 0 if orders.kind != "slurm" or releases(orders) else int(job.priority) - before
    return _Move(job.id, bases.get(job.id, base), before, points, job.is_held)


def _place_after(move: _Move) -> Tuple[int, int, str]:
    return (-move.base - move.after, len(move.job), move.job)


def _set_again(
    orders: Orders,
    by_id: Dict[str, Job],
    values: Dict[str, int],
    changes: Dict[str, int],
    stays: Sequence[str],
    table: Table,
    places: Sequence[QueuePlace],
    room: float,
    now: float,
) -> List[str]:
    """Jobs whose values stayed for long: those that rise from the front on, then those that fall from the end on.

    In this sequence no job passes another one, wherever it is cut. `changes` that aren't the wanted points are among
    them, and cost nothing.
    """
    oldest_s = max((now - table.stays_since(job, now) for job in stays), default=0.0)
    if oldest_s < LONGEST_STAY_S / 2:
        return []
    n_passes = max((LONGEST_STAY_S - oldest_s) / orders.every_s, 1.0)  # in which to set all of them
    most = min(room, math.ceil(len(stays) / n_passes) if oldest_s < LONGEST_STAY_S else len(values))
    bases, exact = _highest_bases(places), {each.job for each in places if each.how == STAYS}
    moves = []
    for job, value in values.items():
        move = _move(orders, by_id[job], points_of(orders, value), table, bases)
        move = move._replace(before=changes.get(job, move.before))
        if move.before != move.after and not (job in exact and job not in stays):
            moves.append(move)
    moves.sort(key=_place_after)
    rising = [move for move in moves if move.after > move.before]
    falling = [move for move in reversed(moves) if move.after <= move.before]
    chosen: List[str] = []
    for move in [*rising, *falling]:
        most -= move.job not in changes
        if most < 0:
            break
        chosen.append(move.job)
    return chosen
