"""The operators page of one policy for one actor, and the registry of its figures by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from apps.accounts.actor import Actor
from apps.contrib.lab.operators import figure_numbers, sentences
from apps.contrib.lab.operators.figure_numbers import NamedTarget, OperatorQuery, PaperQuery
from apps.contrib.lab.operators.records import (
    REGIONS,
    BitsNeeded,
    ExponentPoint,
    FigureQuery,
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
    as_json,
)
from apps.core.errors import NotFound
from apps.engine.analysis import job_size
from apps.policies.settings import PolicySettings
from apps.priorities.selectors.rows import open_view
from apps.priorities.tree_check import TreeCheck
from apps.web.operator_choices import OperatorChoice, list_operator_choices

R = TypeVar("R")
Q = TypeVar("Q", bound=PaperQuery, contravariant=True)


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
    layout: Layout | None = None

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
            layout=self.layout,
        )


def get_figure_definition(name: str) -> Figure[OperatorQuery]:
    """Return the definition; NotFound lists the known names."""
    if name not in FIGURES:
        raise NotFound(f"There is no figure {name[:40]!r}; known: {', '.join(FIGURES)}.")
    return FIGURES[name]


def _profile_sentence(query: PaperQuery, _rows: Sequence[Row]) -> str:
    densities = figure_numbers.local_densities([query.operator], [query.target], query.query.bits)
    return sentences.profile_sentence(query.operator.name, query.target, [row.density for row in densities])


def _density_sentence(query: PaperQuery, rows: Sequence[Row]) -> str:
    middle = 2 ** (query.query.bits - 1)
    near: dict[str, float] = {}
    for row in rows:
        if isinstance(row, LocalDensity | InputDensity) and row.component in (middle - 1, middle):
            near[row.operator] = near.get(row.operator, 0.0) + row.density
    finest, coarsest = min(near, key=near.__getitem__), max(near, key=near.__getitem__)
    return sentences.density_sentence(finest, coarsest, (near[finest], near[coarsest]))


def _aggregation_sentence(query: PaperQuery, rows: Sequence[Row]) -> str:
    reached: dict[float, int] = {}
    for row in _rows_of(LocalDensity, rows):
        reached[row.target] = reached.get(row.target, 0) + (row.density > 0)
    return sentences.aggregation_sentence(
        query.operator.name, min(reached.values()), max(reached.values()), 2**query.query.bits
    )


def _steps_sentence(query: PaperQuery, _rows: Sequence[Row]) -> str:
    """Of all pairs, not of those that the picture samples."""
    parts = {row.component: row.density for row in figure_numbers.input_densities([query.operator], query.query.bits)}
    widest = max(parts, key=parts.__getitem__)
    return sentences.steps_sentence(query.operator.name, query.query.bits, widest, parts[widest])


def _job_size_sentence(query: PaperQuery, rows: Sequence[Row]) -> str:
    first: dict[str, int | None] = {}
    for row in _rows_of(JobSize, rows):
        if row.region == "balance":
            first.setdefault(row.operator, None)
            if first[row.operator] is None and row.job_h is not None and row.job_h <= query.query.job_h:
                first[row.operator] = row.bits
    best = {region: job_size.best_first(query.invertible, region, query.reading)[0] for region in REGIONS}
    return f"{sentences.job_size_sentence(query.query.job_h, list(first.items()))} {sentences.best_sentence(best)}"


def _bits_sentence(query: PaperQuery, rows: Sequence[Row]) -> str:
    overall = {row.operator: row.bits for row in _rows_of(BitsNeeded, rows) if row.region == "overall"}
    return sentences.bits_sentence(query.query, query.operator.name, overall)


def _rows_of(record: type[R], rows: Sequence[Row]) -> list[R]:
    return [row for row in rows if isinstance(row, record)]


_POOL = ("nodes", "window_days", "job_h", "reading", "region")
_HOURS = gettext_lazy("hours of a node")


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
        _profile_sentence,
        ("operator", "target", "bits"),
        Layout("actual", "operator", "priority"),
    ),
    Figure(
        "local-density",
        gettext_lazy("Actuals that share a component"),
        gettext_lazy("part of all actuals"),
        _in_paper("10–13"),
        LocalDensity,
        lambda query: figure_numbers.local_densities(query.operators, [query.target], query.query.bits),
        _density_sentence,
        ("target", "bits"),
        Layout("operator", "priority", "density"),
    ),
    Figure(
        "input-density",
        gettext_lazy("Inputs that share a component"),
        gettext_lazy("part of all inputs"),
        _in_paper("7, 8"),
        InputDensity,
        lambda query: figure_numbers.input_densities(query.operators, query.query.bits),
        _density_sentence,
        ("bits",),
        Layout("operator", "priority", "density"),
    ),
    Figure(
        "aggregation",
        gettext_lazy("Densities at eleven targets"),
        gettext_lazy("part of all actuals"),
        _in_paper("9"),
        LocalDensity,
        lambda query: figure_numbers.aggregation(query.operator, query.query.bits),
        _aggregation_sentence,
        ("operator", "bits"),
        Layout("target", "priority", "density"),
    ),
    Figure(
        "steps",
        gettext_lazy("Component of each pair"),
        gettext_lazy("component; vertical: target, horizontal: actual"),
        _in_paper("6"),
        Step,
        lambda query: figure_numbers.steps(query.operators, query.query.bits),
        _steps_sentence,
        ("operator", "bits"),
        Layout("target", "actual", "component"),
    ),
    Figure(
        "job-size",
        gettext_lazy("Smallest visible job"),
        _HOURS,
        _in_paper("14–16"),
        JobSize,
        lambda query: figure_numbers.job_sizes(query.operators, query.query),
        _job_size_sentence,
        _POOL,
        Layout("operator", "bits", "job_h"),
    ),
    Figure(
        "bits",
        gettext_lazy("Bits at which a job is visible"),
        gettext_lazy("bits of one component"),
        _in_paper("17"),
        BitsNeeded,
        lambda query: figure_numbers.bits_needed(query.operators, query.query),
        _bits_sentence,
        _POOL,
        Layout("operator", "region", "bits"),
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
        Layout("operator", "resolution", "n_misplaced"),
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


@dataclass(frozen=True)
class OperatorsPage:
    """Effect of an operator and a resolution on one policy, and the available operators.

    is_aequus: the policy ranks by vectors, so the check is of its own numbers; else the check shows what `aequus` would
    do. verdict: the advice for the policy, empty without one.
    """

    policy_slug: str
    policy_name: str
    revision: int
    settings: PolicySettings
    is_aequus: bool
    check: TreeCheck
    choices: tuple[OperatorChoice, ...]
    targets: tuple[NamedTarget, ...]
    query: FigureQuery
    target: float
    verdict: str = ""

    def json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "ranks_by_vectors": self.is_aequus,
            "check": as_json(self.check),
            "operators": [as_json(choice) for choice in self.choices],
            "figures": [
                {"name": figure.name, "title": str(figure.title), "parameters": list(figure.parameters)}
                for figure in FIGURES.values()
            ],
        }


def get_operators_page(*, policy_slug: str, query: FigureQuery, actor: Actor) -> OperatorsPage:
    return build_page(open_query(policy_slug=policy_slug, query=query, actor=actor))


def build_page(query: OperatorQuery) -> OperatorsPage:
    view, parameters = query.view, query.query
    return OperatorsPage(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        settings=view.settings,
        is_aequus=view.settings.algorithm.get("name") == "aequus",
        check=query.check(parameters.job_h),
        choices=list_operator_choices(view.settings.algorithm),
        targets=tuple(query.targets),
        query=parameters,
        target=query.target,
    )


def get_figure(*, policy_slug: str, figure: str, query: FigureQuery, actor: Actor) -> FigureTable:
    """Return one figure as numbers. Raises NotFound for an unknown figure or policy, Invalid for invalid parameters."""
    chosen = get_figure_definition(figure)
    return chosen.table(open_query(policy_slug=policy_slug, query=query, actor=actor))


def get_paper_figure(*, figure: str, query: FigureQuery) -> FigureTable:
    """Return one figure that is of no policy as numbers. Raises NotFound for another one."""
    if figure not in PAPER_FIGURES:
        raise NotFound(f"The figure {figure[:40]} is of a policy's tree: name the policy before it.")
    return PAPER_FIGURES[figure].table(PaperQuery(query))


def open_query(*, policy_slug: str, query: FigureQuery, actor: Actor) -> OperatorQuery:
    """Open the policy for a query, for callers that compute several figures of it."""
    return OperatorQuery(view=open_view(policy_slug=policy_slug, actor=actor), tried=query.tried, query=query)
