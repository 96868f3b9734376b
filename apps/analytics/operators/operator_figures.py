"""The operators paper's pictures as numbers, for any operators: profiles, densities, steps, job sizes, bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from apps.analytics.operators.records import (
    READINGS,
    REGIONS,
    BitsNeeded,
    FigureQuery,
    InputDensity,
    JobSize,
    LocalDensity,
    ProfilePoint,
    Step,
)
from apps.engine import codecs
from apps.engine.analysis import job_size, properties
from apps.engine.analysis.job_size import COLUMNS, PUBLISHED
from apps.engine.operators import Operator, get_operator

SEVEN = ("sigmoid-2", "sigmoid", "slurm", "relative", "relative-2", "combined", "absolute")
JOB_BITS = tuple(range(3, 17))
_CURVE = 101  # points of a profile: 0, 0.01 … 1
_GRID = 20  # cells of a side of the steps
_AGGREGATED = tuple(i / 10 for i in range(11))


def operators_beside(own: Operator) -> list[Operator]:
    """The paper's seven, the policy's own in its place, or after them where it is another one."""
    seven = [own if name == own.name else get_operator(name) for name in SEVEN]
    return seven if own.name in SEVEN else [*seven, own]


def profiles(operators: Sequence[Operator], target: float) -> Iterator[ProfilePoint]:
    actual = np.arange(_CURVE) / (_CURVE - 1)
    for operator in operators:
        priority = operator(np.full_like(actual, target), actual)
        for s, p in zip(actual.tolist(), priority.tolist(), strict=True):
            yield ProfilePoint(operator.name, target, s, p)


def local_densities(operators: Sequence[Operator], targets: Sequence[float], bits: int) -> Iterator[LocalDensity]:
    lowest = properties.effective_priorities(2**bits).tolist()
    for operator in operators:
        for target in targets:
            found = properties.local_density(operator, target, 2**bits).tolist()
            for component, (priority, width) in enumerate(zip(lowest, found, strict=True)):
                yield LocalDensity(operator.name, target, component, priority, width)


def aggregation(operator: Operator, bits: int) -> Iterator[LocalDensity]:
    """Figure 9: the local densities of one operator at the targets 0, 0.1 … 1."""
    return local_densities([operator], _AGGREGATED, bits)


def input_densities(operators: Sequence[Operator], bits: int) -> Iterator[InputDensity]:
    lowest = properties.effective_priorities(2**bits).tolist()
    for operator in operators:
        found = properties.input_density(operator, 2**bits).tolist()
        for component, (priority, part) in enumerate(zip(lowest, found, strict=True)):
            yield InputDensity(operator.name, component, priority, part)


def steps(operators: Sequence[Operator], bits: int) -> Iterator[Step]:
    """Figure 6: the component in the middle of each cell of a grid of targets and actuals."""
    side = (np.arange(_GRID) + 0.5) / _GRID
    target, actual = (axis.ravel() for axis in np.meshgrid(side, side, indexing="ij"))
    for operator in operators:
        component = codecs.scalar(operator(target, actual), 2**bits)
        lowest = codecs.effective_priority(component, 2**bits)
        columns = (target.tolist(), actual.tolist(), component.tolist(), lowest.tolist())
        for t, s, c, p in zip(*columns, strict=True):
            yield Step(operator.name, t, s, c, p)


def job_sizes(operators: Sequence[Operator], query: FigureQuery) -> Iterator[JobSize]:
    """Figures 14 to 16: the job that changes a component, by operator, region and bits."""
    for operator in operators:
        for region in REGIONS:
            for bits in JOB_BITS:
                fraction = _fraction(operator.name, operator.parameters.get("k"), bits, region, query.reading)
                yield JobSize(operator.name, region, bits, None if fraction is None else fraction * query.pool_h)


def bits_needed(operators: Sequence[Operator], query: FigureQuery) -> Iterator[BitsNeeded]:
    """Figure 17 for these nodes, this window and this job; the published cells beside it, where there are some."""
    for operator in operators:
        row = {region: _bits(operator, region, query) for region in job_size.REGIONS}
        known = [bits for bits in row.values() if bits is not None]
        row["overall"] = max(known) if len(known) == len(row) else None
        published = dict(zip(COLUMNS, PUBLISHED[operator.name], strict=True)) if operator.name in PUBLISHED else {}
        for region in COLUMNS:
            yield BitsNeeded(operator.name, region, row[region], published.get(region))


def _bits(operator: Operator, region: str, query: FigureQuery) -> int | None:
    for bits in range(job_size.FEWEST_BITS, job_size.MOST_BITS + 1):
        fraction = _fraction(operator.name, operator.parameters.get("k"), bits, region, query.reading)
        if fraction is not None and fraction * query.pool_h <= query.job_h:
            return bits
    return None


@lru_cache(maxsize=4096)
def _fraction(name: str, k: float | None, bits: int, region: str, reading: str) -> float | None:
    """The job as a part of the pool: it depends on neither nodes nor window."""
    operator = get_operator(name) if k is None else get_operator(name, k=k)
    if operator.inverse is None:  # of a package: its actuals are not known by the formula
        return None
    return job_size.job_fraction(
        operator, bits=bits, region=job_size.REGIONS[region], reading=READINGS[reading].reading
    )
