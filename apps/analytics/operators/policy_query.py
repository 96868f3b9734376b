"""One question about one policy: what was asked for, with the policy's own values in the places left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from apps.analytics.operators.figure_query import READINGS, FigureQuery
from apps.analytics.operators.operator_figures import operators_beside
from apps.analytics.operators.tree_check import CheckedTree, aequus_settings
from apps.engine.algorithms.aequus import operator_of
from apps.engine.analysis.job_size import Reading
from apps.engine.operators import Operator
from apps.policies.tree.columns import Mask
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.sentences.numbers import unit_of_metric

_MOST_TARGETS = 12
_PAPER_TARGET = 0.1


@dataclass(frozen=True, slots=True)
class NamedTarget:
    """A target of an entry below the root."""

    name: str
    target: float


@dataclass(frozen=True, eq=False)
class OperatorQuery:
    """A policy as one actor sees it, and a query."""

    view: PolicyView
    query: FigureQuery

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Of `aequus`, as asked."""
        return aequus_settings(self.view.settings.algorithm, self.query)

    @property
    def is_current(self) -> bool:
        """Whether the policy ranks by what is asked about."""
        own = self.view.settings.algorithm
        return own.get("name") == "aequus" and all(
            own.get(key) == self.settings.get(key) for key in ("operator", "resolution", "k")
        )

    @cached_property
    def operator(self) -> Operator:
        return operator_of(self.settings)

    @cached_property
    def operators(self) -> list[Operator]:
        """The paper's seven and the one asked about."""
        return operators_beside(self.operator)

    @property
    def invertible(self) -> list[Operator]:
        return [operator for operator in self.operators if operator.inverse is not None]

    @property
    def reading(self) -> Reading:
        return READINGS[self.query.reading].reading

    @property
    def unit(self) -> str:
        """What an hour of the policy's metric is called."""
        return unit_of_metric(self.view.settings.metric["weights"])

    @cached_property
    def targets(self) -> list[NamedTarget]:
        """Of visible entries below the root, the largest first."""
        view = self.view
        found = [
            NamedTarget(view.tree.name[i], float(view.target[0][i]))
            for i in view.visible_children(0)
            if view.competes[i] and 0 < view.target[0][i] < 1
        ]
        return sorted(found, key=lambda one: (-one.target, one.name))[:_MOST_TARGETS]

    @property
    def target(self) -> float:
        """As asked; else that of the largest entry below the root, else the paper's."""
        if self.query.target is not None:
            return self.query.target
        return self.targets[0].target if self.targets else _PAPER_TARGET

    def checked(self, settings: Mapping[str, Any] | None = None) -> CheckedTree | None:
        """The tree under these settings, or as asked; None without usage. Leaves: those the actor may see."""
        snapshot = self.view.snapshot
        if snapshot is None:
            return None
        leaves, jobs = self._leaves
        return CheckedTree(snapshot, self.view.tree, settings or self.settings, leaves, jobs)

    @cached_property
    def _leaves(self) -> tuple[Mask, Mask]:
        """(leaves whose numbers the actor may see, those whose smallest job may be shown).

        The smallest job is a part of what the groups above used. That follows from numbers that are shown where the
        leaf used something (usage over actual), or where the groups' own numbers are shown.
        """
        view, tree = self.view, self.view.tree
        leaves = view.told & tree.engine_tree().is_ranked
        open_above = np.ones(len(tree), dtype=np.bool_)
        for lo, hi in zip(tree.level_starts[1:-1], tree.level_starts[2:], strict=True):
            parent = tree.parent[lo:hi]
            open_above[lo:hi] = open_above[parent] & view.told[parent]
        used = np.zeros(len(tree), dtype=np.bool_)
        if view.snapshot is not None:
            place = view.place
            used = (place >= 0) & (view.snapshot.values.usage[np.maximum(place, 0)] > 0)
        return leaves, leaves & (open_above | used)
