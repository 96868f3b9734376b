"""Operators on the tree of one policy for one actor, and their figures as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.accounts.actor import Actor
from apps.contrib.lab.operators.figure_numbers import NamedTarget, OperatorQuery, PaperQuery
from apps.contrib.lab.operators.figures import FIGURES, PAPER_FIGURES, Figure
from apps.contrib.lab.operators.records import FigureQuery, FigureTable, as_json
from apps.core.errors import NotFound
from apps.policies.settings import PolicySettings
from apps.priorities.selectors.rows import open_view
from apps.priorities.tree_check import TreeCheck
from apps.web.texts.operator_choices import OperatorChoice, list_operator_choices


@dataclass(frozen=True)
class OperatorsPage:
    """Effect of an operator and a resolution on one policy, and the available operators.

    ranks_by_vectors: the policy ranks by vectors, so the check is of its own numbers; else the check shows what
    `aequus` would do. verdict: the advice for the policy, empty without one.
    """

    policy_slug: str
    policy_name: str
    revision: int
    settings: PolicySettings
    ranks_by_vectors: bool
    check: TreeCheck
    operators: tuple[OperatorChoice, ...]
    targets: tuple[NamedTarget, ...]
    query: FigureQuery
    target: float
    verdict: str = ""

    def json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "ranks_by_vectors": self.ranks_by_vectors,
            "check": as_json(self.check),
            "operators": [as_json(choice) for choice in self.operators],
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
        ranks_by_vectors=view.settings.algorithm.get("name") == "aequus",
        check=query.check(parameters.job_h),
        operators=list_operator_choices(view.settings.algorithm),
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


def get_figure_definition(name: str) -> Figure[OperatorQuery]:
    """Return the definition; NotFound lists the known names."""
    if name not in FIGURES:
        raise NotFound(f"There is no figure {name[:40]!r}; known: {', '.join(FIGURES)}.")
    return FIGURES[name]
