"""The size of a job that changes an entry's component, in bits, and along every path of a computed tree.

Source: operators paper, §5.4, eq. 22–25. A job of k times the pool U of all usage raises an actual of s to (s + k)/(1 +
k). The printed equation 23 has (1 + k)(s + k) instead, so the printed equation 25 understates the job, the more the
higher s is. Both are here, by name.

Figure 17 of the operators paper is compared with the results of its definitions: bits that make a job of 2,000 h
visible. The published cells don't follow from any reading of the text, so our cells are listed beside them by named
readings, and none is fitted to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from apps.engine import codecs, sweep
from apps.engine.algorithms.aequus import operator_of, puts_zero_shares_last
from apps.engine.algorithms.base import PriorityResult
from apps.engine.algorithms.inputs import prepare
from apps.engine.analysis.density import effective_priorities, highest_actual
from apps.engine.arrays import FloatArray, IntArray
from apps.engine.operators import Operator, get_operator
from apps.engine.parameters import Settings
from apps.engine.tree import FairshareTree

Formula = Literal["printed", "corrected"]
_EDGE = 1e-12
_ROUNDING = 1e-15
REGIONS = {"balance": (-0.25, 0.25), "over": (-0.9, -0.6), "under": (0.6, 0.9)}
TARGETS = tuple(i / 10 for i in range(1, 10))
POOL_H = 5_256_000.0  # 600 nodes for a year
JOB_H = 2_000.0
FEWEST_BITS, MOST_STATE_BITS = 3, 20
COLUMNS = ("balance", "over", "under", "overall")
# Source: operators paper, figure 17; a year on 600 nodes, a job of 2,000 node-hours.
PUBLISHED: Mapping[str, tuple[int, int, int, int]] = {
    "absolute": (12, 14, 12, 14),
    "relative": (9, 14, 9, 14),
    "relative-2": (9, 15, 8, 15),
    "sigmoid": (9, 12, 9, 12),
    "sigmoid-2": (6, 11, 9, 11),
    "slurm": (9, 13, 8, 13),
    "combined": (10, 15, 8, 15),
}


def fraction_printed(step: FloatArray, actual: FloatArray) -> FloatArray:
    """k by the printed eq. 25: (−(1 + s) + √((1 + s)² + 4D))/2, for a step of D from an actual of s."""
    ahead = 1.0 + actual
    with np.errstate(invalid="ignore"):
        fraction: FloatArray = 2.0 * step / (ahead + np.sqrt(ahead * ahead + 4.0 * step))  # without a loss
    return fraction


def fraction_corrected(step: FloatArray, actual: FloatArray) -> FloatArray:
    """k = D/(1 − s − D), from (s + k)/(1 + k) = s + D; infinite if s + D ≥ 1, as no job removes the others' usage."""
    rest = 1.0 - actual - step
    with np.errstate(divide="ignore", invalid="ignore"):
        fraction: FloatArray = np.where(rest > _ROUNDING, step / rest, np.inf)
    return fraction


_FRACTIONS = {"printed": fraction_printed, "corrected": fraction_corrected}


@dataclass(frozen=True)
class SignificantJob:
    """The job beyond which one entry's component changes.

    step: the required rise of the actual. fraction: the job as a part k of the pool. usage: k · pool, in the pool's
    unit. All None if no job changes the component: it is the lowest for this target.
    """

    component: int
    step: float | None
    fraction: float | None
    usage: float | None


def significant_job(
    operator: Operator,
    *,
    target: float,
    actual: float,
    resolution: int,
    pool_usage: float,
) -> SignificantJob:
    """M(F, t, s, r) of eq. 22 as a job: what more usage brings an entry down to the next component.

    Eq. 22 has no least step, since a component includes its lowest priority: this is the greatest lower bound. A job
    of just this usage brings the entry to the edge; more than rounding beyond it changes the component. 0 where the
    entry is on the edge already: any job shows. pool_usage: usage of the whole sibling group, > 0, in any unit.
    """
    priority = float(operator(np.array([target]), np.array([actual]))[0])
    component = int(codecs.component_of(priority, resolution))
    edge = component / resolution * 2.0 - 1.0
    reach = float(highest_actual(operator, np.array([edge]), target)[0])
    if component == 0 or reach >= 1.0 - _EDGE:
        return SignificantJob(component, None, None, None)
    step = max(0.0, reach - actual)
    fraction = float(fraction_corrected(np.array(step), np.array(actual)))
    return SignificantJob(component, step, fraction, fraction * pool_usage)


@dataclass(frozen=True)
class Reading:
    """One reading of "the job that shows": formula, and which case is chosen among targets and priorities.

    over_targets: the `biggest` or the `smallest` job among targets, for each priority. over_priorities: then among
    these jobs of a region, sorted by size: the biggest, the smallest, the one a third of the way up (`lower-third`), or
    their geometric mean. real_states_only: exclude components at actuals that are wholly or partly outside 0..1, which
    no entry can have; without it the inverse formula is applied beyond 0..1 as well.
    """

    formula: Formula
    over_targets: Literal["biggest", "smallest"]
    over_priorities: Literal["biggest", "smallest", "lower-third", "geometric-mean"]
    real_states_only: bool


# The literal text, with the printed equation and with the corrected one.
PLAIN_PRINTED = Reading("printed", "biggest", "biggest", real_states_only=True)
PLAIN_CORRECTED = Reading("corrected", "biggest", "biggest", real_states_only=True)
# "Among all the possible k on each target, the biggest (as a bigger k means smaller job)".
EASIEST_TARGET = Reading("printed", "smallest", "biggest", real_states_only=True)
# Chosen after comparison with the published table: the reading that agrees with it within one bit. It counts states
# that can't exist, such as priorities of `combined` from 0.6 on at a target of 0.1.
TYPICAL = Reading("corrected", "smallest", "lower-third", real_states_only=False)
# What an entry of a real tree needs: the same without those states.
TYPICAL_OF_REAL_STATES = Reading("corrected", "smallest", "lower-third", real_states_only=True)


def job_fractions(
    operator: Operator, *, bits: int, region: tuple[float, float], targets: Sequence[float], reading: Reading
) -> FloatArray:
    """k of every component whose lowest priority is in the region, shape (targets, components); NaN if excluded."""
    low, high = region
    edges = np.append(effective_priorities(2**bits), 1.0)
    inside = np.flatnonzero((edges[:-1] >= low - _EDGE) & (edges[:-1] <= high + _EDGE))
    if not len(inside):
        return np.empty((len(targets), 0))
    edges = edges[inside[0] : inside[-1] + 2]
    rows = []
    for target in targets:
        actuals = _actuals(operator, edges, np.full(len(edges), target))
        most, least = actuals[:-1], actuals[1:]
        fraction = _FRACTIONS[reading.formula](most - least, least)
        left_out = ~np.isfinite(fraction)
        if reading.real_states_only:
            left_out |= (least < -_EDGE) | (most > 1.0 + _EDGE)
        rows.append(np.where(left_out, np.nan, fraction))
    return np.array(rows)


def _actuals(operator: Operator, priority: FloatArray, target: FloatArray) -> FloatArray:
    """Actuals by the formula alone, beyond 0..1 where no entry can have this priority."""
    if operator.inverse is None:
        return operator.state(priority, target)  # says that there is none
    with np.errstate(divide="ignore"):
        actual: FloatArray = operator.inverse(priority, target)
    return actual


def job_fraction(
    operator: Operator,
    *,
    bits: int,
    region: tuple[float, float],
    reading: Reading,
    targets: Sequence[float] = TARGETS,
) -> float | None:
    """One k for a region, by the reading; None if the region has no component."""
    fractions = job_fractions(operator, bits=bits, region=region, targets=targets, reading=reading)
    fractions = fractions[:, ~np.isnan(fractions).all(axis=0)]
    if not fractions.size:
        return None
    choose = np.nanmax if reading.over_targets == "biggest" else np.nanmin
    by_priority = np.sort(choose(fractions, axis=0))
    if reading.over_priorities == "geometric-mean":
        return float(np.exp(np.log(by_priority).mean()))
    place = {"biggest": len(by_priority) - 1, "smallest": 0, "lower-third": (len(by_priority) - 1) // 3}
    return float(by_priority[place[reading.over_priorities]])


def bits_for_job(
    operator: Operator,
    *,
    region: tuple[float, float],
    reading: Reading,
    job: float = JOB_H,
    targets: Sequence[float] = TARGETS,
) -> int | None:
    """The fewest bits, 3 to 20, at which the job shows in a region; None if 20 aren't enough.

    job: in node-hours, of the pool POOL_H.
    """
    for bits in range(FEWEST_BITS, MOST_STATE_BITS + 1):
        fraction = job_fraction(operator, bits=bits, region=region, reading=reading, targets=targets)
        if fraction is not None and fraction * POOL_H <= job:
            return bits
    return None


def bits_table(
    operators: Sequence[Operator], reading: Reading, *, job: float = JOB_H
) -> dict[str, dict[str, int | None]]:
    """Bits by operator and region (`balance`, `over`, `under`), and `overall`, the most of them: figure 17's shape."""
    table: dict[str, dict[str, int | None]] = {}
    for operator in operators:
        row = {
            name: bits_for_job(operator, region=region, reading=reading, job=job) for name, region in REGIONS.items()
        }
        known = [bits for bits in row.values() if bits is not None]
        table[operator.name] = {**row, "overall": max(known) if len(known) == len(row) else None}
    return table


def best_first(operators: Sequence[Operator], region: str, reading: Reading) -> list[str]:
    """Operators by the smallest job that shows in a region at 10 bits, smallest first; those without one last."""

    def size(operator: Operator) -> float:
        fraction = job_fraction(operator, bits=10, region=REGIONS[region], reading=reading)
        return np.inf if fraction is None else fraction

    return [operator.name for operator in sorted(operators, key=size)]


@dataclass(frozen=True)
class NamedReading:
    """A reading and its description."""

    name: str
    text: str
    reading: Reading


READINGS = (
    NamedReading("plain", "printed eq. 25, the biggest job over all targets and priorities", PLAIN_PRINTED),
    NamedReading("easiest target", "printed eq. 25, the easiest target, then the worst priority", EASIEST_TARGET),
    NamedReading("plain, corrected", "k = D/(1 − s − D), else as plain", PLAIN_CORRECTED),
    NamedReading(
        "typical",
        "k = D/(1 − s − D), the easiest target, then the job a third of the way up the sorted sizes; by the formula "
        "alone, also at actual shares below 0 or above 1",
        TYPICAL,
    ),
    NamedReading(
        "typical, real states",
        "as typical, but only actual shares from 0 to 1, which an entry can have",
        TYPICAL_OF_REAL_STATES,
    ),
)


@dataclass(frozen=True)
class Cell:
    """Bits by a reading, None for more than 20, and the published ones."""

    operator: str
    column: str
    bits: int | None
    published: int


def cells(reading: Reading) -> list[Cell]:
    """All 28 cells of the figure by one reading, operator by operator."""
    table = bits_table([get_operator(name) for name in PUBLISHED], reading)
    return [
        Cell(name, column, table[name][column], published)
        for name, row in PUBLISHED.items()
        for column, published in zip(COLUMNS, row, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class SmallestJobs:
    """Usage of a job beyond which components change, (n,) over the entries, in the unit of the result's usage.

    here: the component of the entry itself. anywhere: any component of the entry's vector, so that the vector is
    another one. everywhere: all of them. Greatest lower bounds: 0 means that any job shows, infinity that none does.
    An entry without a component of its own (the root, *inherit*) has what is above it.
    """

    here: FloatArray
    anywhere: FloatArray
    everywhere: FloatArray


def smallest_jobs(result: PriorityResult) -> SmallestJobs:
    """For a result of `aequus`, at its own resolution; a job is booked on the entry and all above it.

    By the corrected equation k = D/(1 − s − D) of the usage g of the entry's group: the job is k · g. Source: operators
    paper, eq. 22 and 25; `job_size` says why corrected.
    """
    prepared = prepare(result.tree)
    contest = prepared.contest
    group = sweep.sibling_sum(contest, result.usage[prepared.entry])[np.maximum(contest.parent, 0)]
    job = jobs_that_show(result.settings, prepared.target, result.actual[prepared.entry], group)
    job[0] = np.inf
    anywhere = _down(contest, job, np.minimum)
    job[0] = 0.0
    everywhere = _down(contest, job, np.maximum)
    return SmallestJobs(prepared.spread(job), prepared.spread(anywhere), prepared.spread(everywhere))


def jobs_that_show(settings: Settings, target: FloatArray, actual: FloatArray, group_usage: FloatArray) -> FloatArray:
    """The usage beyond which a job changes an entry's component, for entries one by one; infinite where none does.

    settings: of `aequus`. group_usage: of the entry's whole sibling group, ≥ 0; the result has its unit.
    """
    operator = operator_of(settings)
    component: IntArray = codecs.scalar(operator(target, actual), settings["resolution"])
    least = int(puts_zero_shares_last(settings))  # the lowest component
    reach = highest_actual(operator, codecs.effective_priority(component, settings["resolution"]), target)
    step = np.maximum(reach - actual, 0.0)
    never = (component <= least) | (reach >= 1.0 - _EDGE) | ((target == 0) & (least > 0))
    with np.errstate(invalid="ignore"):
        job = np.where(never, np.inf, fraction_corrected(step, actual) * group_usage)
    return np.where(np.isnan(job), 0.0, job)  # in a group without usage the first job has all of it


def _down(contest: FairshareTree, own: FloatArray, join: np.ufunc) -> FloatArray:
    """Each entry's own value joined with those of all its ancestors."""
    path = own.copy()
    for level in contest.levels:
        here = slice(level.lo, level.hi)
        path[here] = join(path[contest.parent[here]], own[here])
    return path
