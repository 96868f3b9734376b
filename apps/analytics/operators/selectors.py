"""Operators and resolution of one policy for one actor: page, REST, CSV and the command ask here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from apps.accounts.actor import Actor
from apps.analytics.operators import sentences, tree_figures
from apps.analytics.operators.figure_query import FigureQuery
from apps.analytics.operators.figures import FIGURES, figure_of
from apps.analytics.operators.policy_query import NamedTarget, OperatorQuery
from apps.analytics.operators.records import FigureTable, OperatorChoice, TreeCheck, as_json
from apps.engine.analysis.ordering import compare_orders
from apps.engine.operators import Operator, all_operators, get_operator
from apps.policies.settings import PolicySettings
from apps.priorities.selectors.rows import open_view


@dataclass(frozen=True)
class OperatorsPage:
    """What an operator and a resolution do to one policy, and which operators there are.

    is_aequus: the policy ranks by vectors, so that the check is of its own numbers; else the check shows what `aequus`
    would do.
    """

    policy_slug: str
    policy_name: str
    revision: int
    settings: PolicySettings
    is_aequus: bool
    verdict: str
    check: TreeCheck
    choices: tuple[OperatorChoice, ...]
    targets: tuple[NamedTarget, ...]
    query: FigureQuery
    target: float

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
    return page_of(ask(policy_slug=policy_slug, query=query, actor=actor))


def page_of(asked: OperatorQuery) -> OperatorsPage:
    view, query = asked.view, asked.query
    return OperatorsPage(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        settings=view.settings,
        is_aequus=view.settings.algorithm.get("name") == "aequus",
        verdict=sentences.verdict(),
        check=tree_figures.check(asked),
        choices=choices_for(view.settings.algorithm),
        targets=tuple(asked.targets),
        query=query,
        target=asked.target,
    )


def get_figure(*, policy_slug: str, figure: str, query: FigureQuery, actor: Actor) -> FigureTable:
    """One figure as numbers. NotFound for a figure or policy that there isn't; Invalid for what a query can't ask."""
    chosen = figure_of(figure)
    return chosen.table(ask(policy_slug=policy_slug, query=query, actor=actor))


def ask(*, policy_slug: str, query: FigureQuery, actor: Actor) -> OperatorQuery:
    """The query with its policy read, for callers that make several figures of it."""
    return OperatorQuery(open_view(policy_slug=policy_slug, actor=actor), query)


def check_tree(*, policy_slug: str, query: FigureQuery, actor: Actor) -> TreeCheck:
    """What the operator and the resolution asked about do to the tree of a policy."""
    return tree_figures.check(ask(policy_slug=policy_slug, query=query, actor=actor))


def choices_for(algorithm: Mapping[str, Any]) -> tuple[OperatorChoice, ...]:
    """Every operator that can be chosen; the policy's own, where it is of a family's other power, too."""
    current = str(algorithm.get("operator", ""))
    listed = list(all_operators())
    if current and current not in [operator.name for operator in listed]:
        listed.append(get_operator(current))
    return tuple(_choice(operator, current) for operator in listed)


def _choice(operator: Operator, current: str) -> OperatorChoice:
    return OperatorChoice(
        name=operator.name,
        label=operator.label,
        formula=operator.formula,
        sentence=sentences.chooser_sentence(operator),
        is_proportional=operator.properties.proportional_redistribution,
        is_fixed_at_ends=operator.properties.boundaries,
        orders_like_relative=_orders_like_relative(operator.name),
        used_by=", ".join(operator.used_by),
        is_current=operator.name == current,
    )


@cache
def _orders_like_relative(name: str) -> bool:
    return compare_orders(get_operator(name), get_operator("relative")).is_full
