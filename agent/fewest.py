"""Choose the fewest jobs to change so that a queue gets the order that all new values would give it: pure.

A job's place in the queue follows from its total, which is its base (all other terms of the priority) plus the points
that its value adds. Of equal totals the lower job number is first. Jobs that stay where they are must have totals in
the new order already, with room between any two of them for the jobs that go there. Counting the places where a
later job has a lower number makes this one condition on neighbours, so that the largest such set is a longest
non-increasing subsequence: n jobs take about n · log n steps.
"""

from bisect import bisect_right
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

MAY_STAY, IS_SENT, STAYS = "may_stay", "is_sent", "stays"
MOST_ROUNDS = 20


class QueuePlace(NamedTuple):
    """A job in the queue. base, now, wanted: points, whole numbers.

    how: MAY_STAY with its points of now, or gets others. IS_SENT: gets points in any case, not necessarily the wanted
    ones. STAYS: has the wanted points, whatever others get; such a job may be listed several times, with a base each.
    """

    job: str
    base: int
    now: int
    wanted: int
    how: str

    @property
    def total(self) -> int:
        return self.base + self.now

    @property
    def wanted_total(self) -> int:
        return self.base + self.wanted

    @property
    def number(self) -> Tuple[int, str]:
        return (len(self.job), self.job)


def fewest_changes(
    places: Sequence[QueuePlace], spacing: int, least: Optional[int] = None, most: Optional[int] = None
) -> Dict[str, int]:
    """New points by job: of all that are IS_SENT, and of the fewest of those that MAY_STAY.

    Changed jobs get their wanted points if these fit between their neighbours. Else they are moved together, up to
    `spacing` away from the neighbour, or put within the room that there is. least, most: bounds of points; beyond
    them fewer jobs stay, and the set may be larger than the smallest.
    """
    order = sorted(places, key=lambda each: (-each.wanted_total, each.number))
    how = [each.how for each in order]
    turns = _turns(order)
    for _ in range(MOST_ROUNDS):
        stays = _largest_that_stays(order, how, turns)
        points, beyond = _points(order, stays, turns, spacing, least, most)
        if not beyond:
            return points
        if any(how[i] == STAYS for i in beyond):
            break
        for i in beyond:
            how[i] = IS_SENT
    return {each.job: each.wanted for each in order if each.how == IS_SENT or each.now != each.wanted}


def _turns(order: Sequence[QueuePlace]) -> List[int]:
    """How many neighbours up to each job have numbers the wrong way round, so that their totals have to differ."""
    turns = [0] * len(order)
    for i in range(1, len(order)):
        turns[i] = turns[i - 1] + (order[i - 1].number > order[i].number)
    return turns


def _largest_that_stays(order: Sequence[QueuePlace], how: Sequence[str], turns: Sequence[int]) -> List[bool]:
    """The largest set whose totals plus turns don't rise, with all that must stay in it."""
    stays = [each == STAYS for each in how]
    fixed = [i for i, each in enumerate(stays) if each]
    edges = [-1, *fixed, len(order)]
    for before, after in zip(edges, edges[1:]):
        top = order[before].wanted_total + turns[before] if before >= 0 else None
        bottom = order[after].wanted_total + turns[after] if after < len(order) else None
        candidates = []
        for i in range(before + 1, after):
            key = order[i].total + turns[i]
            if how[i] == MAY_STAY and (top is None or key <= top) and (bottom is None or key >= bottom):
                candidates.append((i, -key))
        for i in _longest_rising(candidates):
            stays[i] = True
    return stays


def _longest_rising(candidates: Sequence[Tuple[int, int]]) -> List[int]:
    """Names of a longest subsequence of (name, key) whose keys don't fall."""
    ends: List[int] = []  # the smallest last key of a subsequence, by its length
    last: List[int] = []  # its place in candidates
    before: List[int] = []
    for place, (_, key) in enumerate(candidates):
        length = bisect_right(ends, key)
        before.append(last[length - 1] if length else -1)
        if length == len(ends):
            ends.append(key)
            last.append(place)
        else:
            ends[length], last[length] = key, place
    chosen = []
    place = last[-1] if last else -1
    while place >= 0:
        chosen.append(candidates[place][0])
        place = before[place]
    return chosen


def _points(
    order: Sequence[QueuePlace],
    stays: Sequence[bool],
    turns: Sequence[int],
    spacing: int,
    least: Optional[int],
    most: Optional[int],
) -> Tuple[Dict[str, int], List[int]]:
    """Points of all that don't stay; and those that stay and press others out of the bounds."""
    points: Dict[str, int] = {}
    beyond = []
    edges = [-1, *(i for i, each in enumerate(stays) if each), len(order)]
    for above, below in zip(edges, edges[1:]):
        for i, total in zip(range(above + 1, below), _totals(order, turns, above, below, spacing)):
            value = total - order[i].base
            if least is not None and value < least and value < order[i].wanted:
                beyond.append(above)
            elif most is not None and value > most and value > order[i].wanted:
                beyond.append(below)
            points[order[i].job] = value
    return points, beyond


def _totals(order: Sequence[QueuePlace], turns: Sequence[int], above: int, below: int, spacing: int) -> List[int]:
    """Totals of the jobs between two that stay: the wanted ones if they fit, else as near as the room lets them be."""
    n = below - above - 1
    wanted = [order[i].wanted_total for i in range(above + 1, below)]
    if not n:
        return wanted
    top = _total_of_staying(order[above]) if above >= 0 else None
    bottom = _total_of_staying(order[below]) if below < len(order) else None
    fits_above = top is None or top - wanted[0] >= turns[above + 1] - turns[above]
    fits_below = bottom is None or wanted[-1] - bottom >= turns[below] - turns[below - 1]
    if fits_above and fits_below:
        return wanted
    if top is None or bottom is None:
        return _moved(wanted, top, bottom, spacing)
    if top - bottom - (wanted[0] - wanted[-1]) >= 2:
        return _moved(wanted, top, bottom, min(spacing, (top - bottom - (wanted[0] - wanted[-1])) // 2))
    apart = min(spacing, (top - bottom) // (n + 1))
    totals = []
    for k, total in enumerate(wanted):
        i = above + 1 + k
        lowest = bottom + (apart * (n - k) if apart else turns[below] - turns[i])
        highest = top - (apart * (k + 1) if apart else turns[i] - turns[above])
        totals.append(min(max(total, lowest), highest))
    return totals


def _moved(wanted: List[int], top: Optional[int], bottom: Optional[int], spacing: int) -> List[int]:
    """All moved by the same: jobs that would have equal values still have equal ones."""
    shift = 0
    if bottom is not None:
        shift = max(shift, bottom + spacing - wanted[-1])
    if top is not None:
        shift = min(shift, top - spacing - wanted[0])
    return [total + shift for total in wanted]


def _total_of_staying(place: QueuePlace) -> int:
    return place.wanted_total if place.how == STAYS else place.total
