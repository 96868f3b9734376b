"""Figures of operators, by name: those of operators alone, as the paper has them, and those of a policy's tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from apps.contrib.lab.operators import figure_numbers, figure_sentences
from apps.contrib.lab.operators.figure_numbers import OperatorQuery, PaperQuery
from apps.contrib.lab.operators.records import (
    BitsNeeded,
    ExponentPoint,
    FigureTable,
    InputDensity,
    JobSize,
    LeafJob,
    LocalDensity,
    ProfilePoint,
    ResolutionEffect,
    Row,
    Step,
)

Q = TypeVar("Q", bound=PaperQuery, contravariant=True)
_POOL = ("nodes", "window_days", "job_h", "reading", "region")
_HOURS = gettext_lazy("hours of a node")


@dataclass(frozen=True)
class Figure(Generic[Q]):
    """Definition of one figure. parameters: the fields of the query that it uses.

    Q: what it is of, operators alone or a policy's tree.
    """

    name: str
    title: str | Promise
    unit: str | Promise
    reference: str | Promise
    record: type
    rows: Callable[[Q], Iterable[Row]]
    sentence: Callable[[Q, Sequence[Row]], str]
    parameters: tuple[str, ...]

    def table(self, query: Q) -> FigureTable:
        rows = tuple(self.rows(query))
        return FigureTable(
            name=self.name,
            title=str(self.title),
            unit=str(self.unit),
            reference=str(self.reference),
            sentence=self.sentence(query, rows),
            record=self.record,
            rows=rows,
        )


def _in_paper(numbers: str) -> Any:
    return format_lazy("{} {}", gettext_lazy("Operators paper, figure"), numbers)


_OF_OPERATORS: tuple[Figure[PaperQuery], ...] = (
    Figure(
        "profiles",
        gettext_lazy("Profiles"),
        gettext_lazy("priority by actual, at one target"),
        _in_paper("10, 11"),
        ProfilePoint,
        lambda query: figure_numbers.profiles(query.operators, query.target),
        figure_sentences.profile_sentence,
        ("operator", "target", "bits"),
    ),
    Figure(
        "local-density",
        gettext_lazy("Actuals that share a component"),
        gettext_lazy("part of all actuals"),
        _in_paper("10–13"),
        LocalDensity,
        lambda query: figure_numbers.local_densities(query.operators, [query.target], query.query.bits),
        figure_sentences.density_sentence,
        ("target", "bits"),
    ),
    Figure(
        "input-density",
        gettext_lazy("Inputs that share a component"),
        gettext_lazy("part of all inputs"),
        _in_paper("7, 8"),
        InputDensity,
        lambda query: figure_numbers.input_densities(query.operators, query.query.bits),
        figure_sentences.density_sentence,
        ("bits",),
    ),
    Figure(
        "aggregation",
        gettext_lazy("Densities at eleven targets"),
        gettext_lazy("part of all actuals"),
        _in_paper("9"),
        LocalDensity,
        lambda query: figure_numbers.aggregation(query.operator, query.query.bits),
        figure_sentences.aggregation_sentence,
        ("operator", "bits"),
    ),
    Figure(
        "steps",
        gettext_lazy("Component of each pair"),
        gettext_lazy("component; vertical: target, horizontal: actual"),
        _in_paper("6"),
        Step,
        lambda query: figure_numbers.steps(query.operators, query.query.bits),
        figure_sentences.steps_sentence,
        ("operator", "bits"),
    ),
    Figure(
        "job-size",
        gettext_lazy("Smallest visible job"),
        _HOURS,
        _in_paper("14–16"),
        JobSize,
        lambda query: figure_numbers.job_sizes(query.operators, query.query),
        figure_sentences.job_size_sentence,
        _POOL,
    ),
    Figure(
        "bits",
        gettext_lazy("Bits at which a job is visible"),
        gettext_lazy("bits of one component"),
        _in_paper("17"),
        BitsNeeded,
        lambda query: figure_numbers.bits_needed(query.operators, query.query),
        figure_sentences.bits_sentence,
        _POOL,
    ),
    Figure(
        "exponent",
        gettext_lazy("Depth-oblivious exponent"),
        gettext_lazy("k by the ratio of the parent"),
        gettext_lazy("Slurm: Depth-Oblivious Fair-share Factor, figure 1"),
        ExponentPoint,
        figure_numbers.exponents,
        figure_numbers.exponent_sentence,
        ("entry",),
    ),
)
_OF_TREES: tuple[Figure[OperatorQuery], ...] = (
    Figure(
        "resolution",
        gettext_lazy("Effect of the resolution on this tree"),
        gettext_lazy("by bits of a component, and at 10,000"),
        _in_paper("5"),
        ResolutionEffect,
        figure_numbers.effects,
        figure_numbers.effects_sentence,
        ("operator", "resolution", "k", "job_h", "count"),
    ),
    Figure(
        "leaf-jobs",
        gettext_lazy("Smallest job of each leaf"),
        gettext_lazy("hours of the metric"),
        gettext_lazy("Operators paper, equation 25"),
        LeafJob,
        figure_numbers.leaf_jobs,
        figure_numbers.leaf_jobs_sentence,
        ("operator", "resolution", "k"),
    ),
)
PAPER_FIGURES: Mapping[str, Figure[PaperQuery]] = {figure.name: figure for figure in _OF_OPERATORS}
_LISTED: tuple[Figure[OperatorQuery], ...] = (*_OF_OPERATORS[:-1], *_OF_TREES, _OF_OPERATORS[-1])
FIGURES: Mapping[str, Figure[OperatorQuery]] = {figure.name: figure for figure in _LISTED}
