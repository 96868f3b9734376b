"""What each figure of operators says in a sentence, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from apps.contrib.lab.operators import figure_numbers, sentences
from apps.contrib.lab.operators.figure_numbers import PaperQuery
from apps.contrib.lab.operators.records import REGIONS, BitsNeeded, InputDensity, JobSize, LocalDensity, Row
from apps.engine.analysis import job_size

R = TypeVar("R")


def profile_sentence(query: PaperQuery, _rows: Sequence[Row]) -> str:
    densities = figure_numbers.local_densities([query.operator], [query.target], query.query.bits)
    return sentences.profile_sentence(query.operator.name, query.target, [row.density for row in densities])


def density_sentence(query: PaperQuery, rows: Sequence[Row]) -> str:
    middle = 2 ** (query.query.bits - 1)
    near: dict[str, float] = {}
    for row in rows:
        if isinstance(row, LocalDensity | InputDensity) and row.component in (middle - 1, middle):
            near[row.operator] = near.get(row.operator, 0.0) + row.density
    finest, coarsest = min(near, key=near.__getitem__), max(near, key=near.__getitem__)
    return sentences.density_sentence(finest, coarsest, (near[finest], near[coarsest]))


def aggregation_sentence(query: PaperQuery, rows: Sequence[Row]) -> str:
    reached: dict[float, int] = {}
    for row in _rows_of(LocalDensity, rows):
        reached[row.target] = reached.get(row.target, 0) + (row.density > 0)
    return sentences.aggregation_sentence(
        query.operator.name, min(reached.values()), max(reached.values()), 2**query.query.bits
    )


def steps_sentence(query: PaperQuery, _rows: Sequence[Row]) -> str:
    """Of all pairs, not of those that the picture samples."""
    parts = {row.component: row.density for row in figure_numbers.input_densities([query.operator], query.query.bits)}
    widest = max(parts, key=parts.__getitem__)
    return sentences.steps_sentence(query.operator.name, query.query.bits, widest, parts[widest])


def job_size_sentence(query: PaperQuery, rows: Sequence[Row]) -> str:
    first: dict[str, int | None] = {}
    for row in _rows_of(JobSize, rows):
        if row.region == "balance":
            first.setdefault(row.operator, None)
            if first[row.operator] is None and row.job_h is not None and row.job_h <= query.query.job_h:
                first[row.operator] = row.bits
    best = {region: job_size.best_first(query.invertible, region, query.reading)[0] for region in REGIONS}
    return f"{sentences.job_size_sentence(query.query.job_h, list(first.items()))} {sentences.best_sentence(best)}"


def bits_sentence(query: PaperQuery, rows: Sequence[Row]) -> str:
    overall = {row.operator: row.bits for row in _rows_of(BitsNeeded, rows) if row.region == "overall"}
    return sentences.bits_sentence(query.query, query.operator.name, overall)


def _rows_of(record: type[R], rows: Sequence[Row]) -> list[R]:
    return [row for row in rows if isinstance(row, record)]
