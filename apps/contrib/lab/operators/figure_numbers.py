"""Numbers of the figures about operators and resolutions: the paper's, for any operators, and those of one policy's
tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from apps.contrib.lab.operators import sentences
from apps.contrib.lab.operators.records import (
    READINGS,
    REGIONS,
    BitsNeeded,
    ExponentPoint,
    FigureQuery,
    InputDensity,
    JobSize,
    LeafJob,
    LocalDensity,
    ProfilePoint,
    ResolutionEffect,
    Row,
    Step,
)
from apps.core.errors import NotFound
from apps.engine import codecs
from apps.engine.algorithms import read_algorithm
from apps.engine.algorithms.aequus import operator_of
from apps.engine.analysis import density, job_size
from apps.engine.analysis.job_size import COLUMNS, PUBLISHED, Reading
from apps.engine.analysis.properties import exponent_curve
from apps.engine.operators import Operator, get_operator
from apps.priorities.recompute.totals import simulate_totals_or_none
from apps.priorities.tree_check import ranks_sentence
from apps.priorities.tried_settings import TriedPolicy, aequus_settings, finite

SEVEN = ("sigmoid-2", "sigmoid", "slurm", "relative", "relative-2", "combined", "absolute")
JOB_BITS = tuple(range(3, 21))  # as in the paper
_N_POINTS = 101  # of a profile: 0, 0.01 … 1
_N_CELLS = 20  # on each side of the grid of figure 6
_AGGREGATED = tuple(i / 10 for i in range(11))
# Compared with the resolution in use: 10,000 and the powers of two up to 16 bits.
CANDIDATES = (*(2**bits for bits in range(8, 14)), 10_000, *(2**bits for bits in range(14, 17)))
MOST_FOR_ALL = 20_000  # leaves of a tree for which every operator is tried at every candidate
FEW_CANDIDATES = (2**8, 2**12, 10_000, 2**16)
_MOST_OPERATOR_TARGETS = 12
_PAPER_TARGET = 0.1
MOST_DRAWN_LEAVES = 1_000
_MOST_OPERATOR_POINTS = 200


def compared_operators(own: Operator) -> list[Operator]:
    """Return the paper's seven operators with the policy's own variant of one of them, or with its own added."""
    seven = [own if name == own.name else get_operator(name) for name in SEVEN]
    return seven if own.name in SEVEN else [*seven, own]


def profiles(operators: Sequence[Operator], target: float) -> Iterator[ProfilePoint]:
    actual = np.arange(_N_POINTS) / (_N_POINTS - 1)
    for operator in operators:
        priority = operator(np.full_like(actual, target), actual)
        for s, p in zip(actual.tolist(), priority.tolist(), strict=True):
            yield ProfilePoint(operator.name, target, s, p)


def local_densities(operators: Sequence[Operator], targets: Sequence[float], bits: int) -> Iterator[LocalDensity]:
    lowest = density.effective_priorities(2**bits).tolist()
    for operator in operators:
        for target in targets:
            widths = density.local_density(operator, target, 2**bits).tolist()
            for component, (priority, width) in enumerate(zip(lowest, widths, strict=True)):
                yield LocalDensity(operator.name, target, component, priority, width)


def aggregation(operator: Operator, bits: int) -> Iterator[LocalDensity]:
    """Figure 9: the local densities of one operator at the targets 0, 0.1 … 1."""
    return local_densities([operator], _AGGREGATED, bits)


def input_densities(operators: Sequence[Operator], bits: int) -> Iterator[InputDensity]:
    lowest = density.effective_priorities(2**bits).tolist()
    for operator in operators:
        parts = density.input_density(operator, 2**bits).tolist()
        for component, (priority, part) in enumerate(zip(lowest, parts, strict=True)):
            yield InputDensity(operator.name, component, priority, part)


def steps(operators: Sequence[Operator], bits: int) -> Iterator[Step]:
    """Figure 6: the component in the middle of each cell of a grid of targets and actuals."""
    side = (np.arange(_N_CELLS) + 0.5) / _N_CELLS
    target, actual = (axis.ravel() for axis in np.meshgrid(side, side, indexing="ij"))
    for operator in operators:
        component = codecs.scalar(operator(target, actual), 2**bits)
        lowest = codecs.effective_priority(component, 2**bits)
        columns = (target.tolist(), actual.tolist(), component.tolist(), lowest.tolist())
        for t, s, c, p in zip(*columns, strict=True):
            yield Step(operator.name, t, s, c, p)


def job_sizes(operators: Sequence[Operator], query: FigureQuery) -> Iterator[JobSize]:
    """Figures 14 to 16: the smallest job that changes a component, by operator, region and bits."""
    for operator in operators:
        for region in REGIONS:
            for bits in JOB_BITS:
                fraction = _fraction(operator.name, operator.parameters.get("k"), bits, region, query.reading)
                yield JobSize(operator.name, region, bits, None if fraction is None else fraction * query.pool_h)


def bits_needed(operators: Sequence[Operator], query: FigureQuery) -> Iterator[BitsNeeded]:
    """Figure 17 for these nodes, this window and this job, with the published cells if there are any."""
    for operator in operators:
        row = {region: _fewest_bits(operator, region, query) for region in job_size.REGIONS}
        known = [bits for bits in row.values() if bits is not None]
        row["overall"] = max(known) if len(known) == len(row) else None
        published = dict(zip(COLUMNS, PUBLISHED[operator.name], strict=True)) if operator.name in PUBLISHED else {}
        for region in COLUMNS:
            yield BitsNeeded(operator.name, region, row[region], published.get(region))


def _fewest_bits(operator: Operator, region: str, query: FigureQuery) -> int | None:
    for bits in range(job_size.FEWEST_BITS, job_size.MOST_STATE_BITS + 1):
        fraction = _fraction(operator.name, operator.parameters.get("k"), bits, region, query.reading)
        if fraction is not None and fraction * query.pool_h <= query.job_h:
            return bits
    return None


@lru_cache(maxsize=4096)
def _fraction(name: str, k: float | None, bits: int, region: str, reading: str) -> float | None:
    """Return the job as a fraction of the pool, which depends on neither nodes nor window; None if it is unknown."""
    operator = get_operator(name) if k is None else get_operator(name, k=k)
    if operator.inverse is None:  # an operator from a package has no inverse formula
        return None
    return job_size.job_fraction(
        operator, bits=bits, region=job_size.REGIONS[region], reading=READINGS[reading].reading
    )


@dataclass(frozen=True, slots=True)
class NamedTarget:
    """The target of an entry below the root."""

    name: str
    target: float


@dataclass(frozen=True, eq=False)
class PaperQuery:
    """A query about operators alone: what figures of the papers need, which are of no policy."""

    query: FigureQuery

    @cached_property
    def operator(self) -> Operator:
        """The queried operator, else the default one."""
        return operator_of(aequus_settings({}, self.query.tried))

    @property
    def target(self) -> float:
        """The queried target, else the paper's."""
        return _PAPER_TARGET if self.query.target is None else self.query.target

    @cached_property
    def operators(self) -> list[Operator]:
        """The compared operators, with the queried one."""
        return compared_operators(self.operator)

    @property
    def invertible(self) -> list[Operator]:
        return [operator for operator in self.operators if operator.inverse is not None]

    @property
    def reading(self) -> Reading:
        return READINGS[self.query.reading].reading


@dataclass(frozen=True, eq=False, kw_only=True)
class OperatorQuery(TriedPolicy, PaperQuery):
    """A query about one policy, as one actor may see it. tried: the settings in the query."""

    @cached_property
    def targets(self) -> list[NamedTarget]:
        """Targets of visible entries below the root, largest first."""
        view = self.view
        targets = [
            NamedTarget(view.tree.name[i], float(view.target[0][i]))
            for i in view.visible_children(0)
            if view.competes[i] and 0 < view.target[0][i] < 1
        ]
        return sorted(targets, key=lambda entry: (-entry.target, entry.name))[:_MOST_OPERATOR_TARGETS]

    @property
    def target(self) -> float:
        """The queried target, else that of the largest entry below the root, else the paper's."""
        if self.query.target is not None:
            return self.query.target
        return self.targets[0].target if self.targets else _PAPER_TARGET


def effects(query: OperatorQuery) -> Iterator[ResolutionEffect]:
    """Yield the effect of every operator at every candidate; of a very large tree only the queried
    operator at a few.
    """
    own = query.checked()
    if own is None or not own.leaves.any():
        return
    is_small = int(own.leaves.sum()) <= MOST_FOR_ALL
    operators: Sequence[Operator] = query.operators if is_small else [query.operator]
    resolutions = sorted({*(CANDIDATES if is_small else FEW_CANDIDATES), int(query.settings["resolution"])})
    for operator in operators:
        settings = query.settings if operator is query.operator else settings_with(query.settings, operator)
        checked = query.checked(settings)
        for effect in [] if checked is None else checked.at(resolutions):
            yield ResolutionEffect(
                operator.name,
                effect.resolution,
                effect.n_leaves,
                effect.n_misplaced,
                effect.n_lost,
                effect.n_tied_pairs,
                effect.n_turned_pairs,
            )


def settings_with(own: Mapping[str, object], operator: Operator) -> dict[str, object]:
    """Return settings of `aequus` with another operator."""
    settings = {key: value for key, value in own.items() if key != "k"} | {"operator": operator.name}
    if operator.name == "combined":
        settings["k"] = operator.parameters["k"]
    return read_algorithm(settings)


def effects_sentence(query: OperatorQuery, _rows: Sequence[Row]) -> str:
    return ranks_sentence(query.check(query.query.job_h))


def leaf_jobs(query: OperatorQuery) -> Iterator[LeafJob]:
    """Yield visible leaves, those with the smallest visible job first; at most 1,000."""
    checked = query.checked()
    if checked is None:
        return
    anywhere, everywhere = checked.jobs()
    leaves = np.flatnonzero(checked.visible_job_leaves)
    for at in np.argsort(anywhere, kind="stable")[:MOST_DRAWN_LEAVES].tolist():
        path = query.view.tree.path(int(leaves[at]))
        yield LeafJob(path, finite(anywhere[at]), finite(everywhere[at]))


def leaf_jobs_sentence(query: OperatorQuery, _rows: Sequence[Row]) -> str:
    check = query.check(query.query.job_h)
    return sentences.leaf_jobs_sentence(check)


def exponents(query: PaperQuery) -> Iterator[ExponentPoint]:
    """Yield the curve, then entries of a policy on it: the queried one, else those with the smallest exponents."""
    for ratio, k in zip(*(axis.tolist() for axis in exponent_curve()), strict=True):
        yield ExponentPoint(ratio, k, None, None, None)
    if isinstance(query, OperatorQuery):
        yield from _entry_points(query)


def _entry_points(query: OperatorQuery) -> Iterator[ExponentPoint]:
    view = query.view
    if view.snapshot is None:
        return
    algorithm = read_algorithm("slurm-depth-oblivious")
    result = simulate_totals_or_none(view.snapshot.totals, view.tree, algorithm=algorithm)
    if result is None:
        return
    local, k, effective = (result.columns[name] for name in ("local_ratio", "k", "effective_ratio"))
    parent = result.tree.parent
    has_parent = parent > 0
    exists = view.shows_numbers & has_parent & view.shows_numbers[np.maximum(parent, 0)]
    for column in (local, k, effective):
        exists = exists if column.exists is None else exists & column.exists
    chosen = np.flatnonzero(exists)
    if query.query.entry:
        entry = view.tree.index_of_path(query.query.entry)
        if entry is None or not view.visibility.may_see(entry):
            raise NotFound("There is no such entry in this policy.")
        chosen = chosen[chosen == entry]
    for i in chosen[np.argsort(k.values[chosen], kind="stable")][:_MOST_OPERATOR_POINTS].tolist():
        above = float(effective.values[parent[i]])
        yield ExponentPoint(
            above, float(k.values[i]), view.tree.path(i), float(local.values[i]), float(effective.values[i])
        )


def exponent_sentence(query: PaperQuery, rows: Sequence[Row]) -> str:
    if not isinstance(query, OperatorQuery):
        return sentences.exponent_curve_sentence()
    points = [row for row in rows if isinstance(row, ExponentPoint) and row.entry is not None]
    return sentences.exponent_sentence(points, is_queried=bool(query.query.entry))
