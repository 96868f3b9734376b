"""Every figure of *Operators and resolution*, by name: its numbers, its sentence and how its table is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from apps.analytics.operators import operator_figures, sentences, tree_figures
from apps.analytics.operators.figure_query import REGIONS
from apps.analytics.operators.policy_query import OperatorQuery
from apps.analytics.operators.records import (
    BitsNeeded,
    ExponentPoint,
    FigureTable,
    InputDensity,
    JobSize,
    Layout,
    LeafJob,
    LocalDensity,
    ProfilePoint,
    ResolutionEffect,
    Row,
    Step,
)
from apps.core.errors import NotFound
from apps.engine.analysis import job_size

R = TypeVar("R")


@dataclass(frozen=True)
class Figure:
    """How one figure is made. of_tree: it needs the policy's tree and usage. parameters: what of a query it reads."""

    name: str
    title: str | Promise
    unit: str | Promise
    reference: str | Promise
    record: type
    rows: Callable[[OperatorQuery], Iterable[Row]]
    sentence: Callable[[OperatorQuery, Sequence[Row]], str]
    parameters: tuple[str, ...]
    layout: Layout | None = None

    def table(self, asked: OperatorQuery) -> FigureTable:
        rows = tuple(self.rows(asked))
        return FigureTable(
            name=self.name,
            title=str(self.title),
            unit=str(self.unit),
            reference=str(self.reference),
            sentence=self.sentence(asked, rows),
            record=self.record,
            rows=rows,
            layout=self.layout,
        )


def figure_of(name: str) -> Figure:
    """NotFound names those that there are."""
    if name not in FIGURES:
        raise NotFound(f"There is no figure {name[:40]!r}; known: {', '.join(FIGURES)}.")
    return FIGURES[name]


def _profile_says(asked: OperatorQuery, _rows: Sequence[Row]) -> str:
    found = operator_figures.local_densities([asked.operator], [asked.target], asked.query.bits)
    return sentences.profile_sentence(asked.operator.name, asked.target, [row.density for row in found])


def _density_says(asked: OperatorQuery, rows: Sequence[Row]) -> str:
    middle = 2 ** (asked.query.bits - 1)
    near: dict[str, float] = {}
    for row in rows:
        if isinstance(row, LocalDensity | InputDensity) and row.component in (middle - 1, middle):
            near[row.operator] = near.get(row.operator, 0.0) + row.density
    finest, coarsest = min(near, key=near.__getitem__), max(near, key=near.__getitem__)
    return sentences.density_sentence(finest, coarsest, (near[finest], near[coarsest]))


def _aggregation_says(asked: OperatorQuery, rows: Sequence[Row]) -> str:
    reached: dict[float, int] = {}
    for row in _of(LocalDensity, rows):
        reached[row.target] = reached.get(row.target, 0) + (row.density > 0)
    return sentences.aggregation_sentence(
        asked.operator.name, min(reached.values()), max(reached.values()), 2**asked.query.bits
    )


def _steps_say(asked: OperatorQuery, rows: Sequence[Row]) -> str:
    own = [row.component for row in _of(Step, rows) if row.operator == asked.operator.name]
    widest = max(set(own), key=own.count)
    part = own.count(widest) / len(own)
    return sentences.steps_sentence(asked.operator.name, asked.query.bits, widest, part)


def _job_sizes_say(asked: OperatorQuery, rows: Sequence[Row]) -> str:
    first: dict[str, int | None] = {}
    for row in _of(JobSize, rows):
        if row.region == "balance":
            first.setdefault(row.operator, None)
            if first[row.operator] is None and row.job_h is not None and row.job_h <= asked.query.job_h:
                first[row.operator] = row.bits
    best = {region: job_size.best_first(asked.invertible, region, asked.reading)[0] for region in REGIONS}
    return f"{sentences.job_size_sentence(asked.query.job_h, list(first.items()))} {sentences.best_sentence(best)}"


def _bits_say(asked: OperatorQuery, rows: Sequence[Row]) -> str:
    overall = {row.operator: row.bits for row in _of(BitsNeeded, rows) if row.region == "overall"}
    return sentences.bits_sentence(asked.query, asked.operator.name, overall)


def _of(record: type[R], rows: Sequence[Row]) -> list[R]:
    return [row for row in rows if isinstance(row, record)]


_POOL = ("nodes", "window_days", "job_h", "reading", "region")
_HOURS = gettext_lazy("hours of a node")
_LISTED = (
    Figure(
        "profiles",
        gettext_lazy("Profiles"),
        gettext_lazy("priority by actual, at one target"),
        gettext_lazy("Operators paper, figures 10 and 11"),
        ProfilePoint,
        lambda asked: operator_figures.profiles(asked.operators, asked.target),
        _profile_says,
        ("operator", "target", "bits"),
        Layout("actual", "operator", "priority"),
    ),
    Figure(
        "local-density",
        gettext_lazy("Actuals that share a component"),
        gettext_lazy("part of all actuals"),
        gettext_lazy("Operators paper, figures 10 to 13"),
        LocalDensity,
        lambda asked: operator_figures.local_densities(asked.operators, [asked.target], asked.query.bits),
        _density_says,
        ("target", "bits"),
        Layout("operator", "priority", "density"),
    ),
    Figure(
        "input-density",
        gettext_lazy("Inputs that share a component"),
        gettext_lazy("part of all inputs"),
        gettext_lazy("Operators paper, figures 7 and 8"),
        InputDensity,
        lambda asked: operator_figures.input_densities(asked.operators, asked.query.bits),
        _density_says,
        ("bits",),
        Layout("operator", "priority", "density"),
    ),
    Figure(
        "aggregation",
        gettext_lazy("Densities at eleven targets"),
        gettext_lazy("part of all actuals"),
        gettext_lazy("Operators paper, figure 9"),
        LocalDensity,
        lambda asked: operator_figures.aggregation(asked.operator, asked.query.bits),
        _aggregation_says,
        ("operator", "bits"),
        Layout("target", "priority", "density"),
    ),
    Figure(
        "steps",
        gettext_lazy("Component of each pair"),
        gettext_lazy("component by target and actual"),
        gettext_lazy("Operators paper, figure 6"),
        Step,
        lambda asked: operator_figures.steps(asked.operators, asked.query.bits),
        _steps_say,
        ("operator", "bits"),
        Layout("target", "actual", "component"),
    ),
    Figure(
        "job-size",
        gettext_lazy("Smallest visible job"),
        _HOURS,
        gettext_lazy("Operators paper, figures 14 to 16"),
        JobSize,
        lambda asked: operator_figures.job_sizes(asked.operators, asked.query),
        _job_sizes_say,
        _POOL,
        Layout("operator", "bits", "job_h"),
    ),
    Figure(
        "bits",
        gettext_lazy("Bits at which a job is visible"),
        gettext_lazy("bits of one component"),
        gettext_lazy("Operators paper, figure 17"),
        BitsNeeded,
        lambda asked: operator_figures.bits_needed(asked.operators, asked.query),
        _bits_say,
        _POOL,
        Layout("operator", "region", "bits"),
    ),
    Figure(
        "resolution",
        gettext_lazy("Effect of the resolution on this tree"),
        gettext_lazy("by bits of a component, and at 10,000"),
        gettext_lazy("Operators paper, figure 5"),
        ResolutionEffect,
        tree_figures.effects,
        tree_figures.effects_sentence,
        ("operator", "resolution", "k", "job_h", "count"),
        Layout("operator", "resolution", "n_misplaced"),
    ),
    Figure(
        "leaf-jobs",
        gettext_lazy("Smallest job of each leaf"),
        gettext_lazy("hours of the metric"),
        gettext_lazy("Operators paper, equation 25"),
        LeafJob,
        tree_figures.leaf_jobs,
        tree_figures.leaf_jobs_sentence,
        ("operator", "resolution", "k"),
    ),
    Figure(
        "exponent",
        gettext_lazy("Depth-oblivious exponent"),
        gettext_lazy("k by the ratio of the parent"),
        gettext_lazy("Slurm: Depth-Oblivious Fair-share Factor, figure 1"),
        ExponentPoint,
        tree_figures.exponents,
        tree_figures.exponent_sentence,
        ("entry",),
    ),
)
FIGURES: Mapping[str, Figure] = {figure.name: figure for figure in _LISTED}
