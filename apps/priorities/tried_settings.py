"""A policy's newest usage under settings of `aequus` that a reader tries: what its operator and resolution change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.accounts.actor import Actor
from apps.core.errors import FieldProblem, Invalid
from apps.engine.algorithms import read_algorithm
from apps.engine.algorithms.aequus import operator_of
from apps.engine.analysis.job_size import JOB_H
from apps.engine.errors import BadParameter
from apps.engine.operators import Operator
from apps.policies.tree.columns import Mask
from apps.priorities.rounding import CheckedTree, Settings
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.sentences.numbers import unit_of_metric
from apps.priorities.tree_check import TreeCheck, check_sentence

F8 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TriedVector:
    """Settings of `aequus` to try. Missing ones are those of the policy, else the defaults."""

    operator: str = ""
    resolution: int | None = None
    k: float | None = None


def aequus_settings(algorithm: Settings, tried: TriedVector) -> dict[str, Any]:
    """Return settings of `aequus`: the tried ones, else the policy's, else the defaults. Raises Invalid."""
    own = dict(algorithm) if algorithm.get("name") == "aequus" else read_algorithm("aequus")
    settings = {key: value for key, value in own.items() if key in ("name", "zero_shares")}
    settings["operator"] = tried.operator or own["operator"]
    settings["resolution"] = tried.resolution or own["resolution"]
    if settings["operator"] == "combined":
        k = own.get("k") if tried.k is None else tried.k
        settings |= {} if k is None else {"k": k}
    if settings["resolution"] < 4:  # too few values to reserve one for zero shares
        settings.pop("zero_shares", None)
    try:
        return read_algorithm(settings)
    except BadParameter as error:
        field = error.place.removeprefix("algorithm.")
        raise Invalid(f"{error.message}.", fields=[FieldProblem(field, error.message)]) from None


@dataclass(frozen=True, eq=False)
class TriedPolicy:
    """One policy, as one actor may see it, with settings to try."""

    view: PolicyView
    tried: TriedVector

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The tried settings of `aequus`."""
        return aequus_settings(self.view.settings.algorithm, self.tried)

    @property
    def is_current(self) -> bool:
        """Whether the policy ranks by the tried settings."""
        own = self.view.settings.algorithm
        return own.get("name") == "aequus" and all(
            own.get(key) == self.settings.get(key) for key in ("operator", "resolution", "k")
        )

    @cached_property
    def operator(self) -> Operator:
        return operator_of(self.settings)

    @property
    def unit(self) -> str:
        """Name of an hour of the policy's metric."""
        return unit_of_metric(self.view.settings.metric["weights"])

    def checked(self, settings: Mapping[str, Any] | None = None) -> CheckedTree | None:
        """Return the tree under these settings, by default the tried ones; None without usage. Only visible leaves
        count.
        """
        snapshot = self.view.snapshot
        if snapshot is None:
            return None
        leaves, jobs = self._leaves
        return CheckedTree(snapshot, self.view.tree, settings or self.settings, leaves, jobs)

    @cached_property
    def _leaves(self) -> tuple[Mask, Mask]:
        """Masks of leaves whose numbers the actor may see, and of those whose smallest job may be shown.

        The smallest job is a fraction of the usage of the groups above. It may be shown if it follows from visible
        numbers: if the leaf has usage (usage / actual), or the groups' own numbers are visible.
        """
        view, tree = self.view, self.view.tree
        leaves = view.shows_numbers & tree.engine_tree().is_ranked
        visible_above = np.ones(len(tree), dtype=np.bool_)
        for lo, hi in zip(tree.level_starts[1:-1], tree.level_starts[2:], strict=True):
            parent = tree.parent[lo:hi]
            visible_above[lo:hi] = visible_above[parent] & view.shows_numbers[parent]
        used = np.zeros(len(tree), dtype=np.bool_)
        if view.snapshot is not None:
            index = view.snapshot_index
            used = (index >= 0) & (view.snapshot.values.usage[np.maximum(index, 0)] > 0)
        return leaves, leaves & (visible_above | used)

    def check(self, job_h: float) -> TreeCheck:
        """Check the tried operator and resolution on this tree. job_h: of the job whose visibility is checked, in hours
        of the metric.
        """
        view, checked = self.view, self.checked()
        head = {
            "policy": view.policy.slug,
            "revision": view.revision,
            "as_of": view.as_of,
            "operator": self.operator.name,
            "k": self.settings.get("k"),
            "resolution": self.settings["resolution"],
            "is_current": self.is_current,
            "job_h": job_h,
            "unit": self.unit,
        }
        if checked is None or not checked.leaves.any():
            return _with_sentence(TreeCheck(**head))
        counted, safe = checked.at([self.settings["resolution"]])[0], checked.safe()
        bits, (anywhere, _everywhere) = checked.job_bits(job_h), checked.jobs()
        check = TreeCheck(
            **head,
            n_leaves=counted.n_leaves,
            n_misplaced=counted.n_misplaced,
            n_lost=counted.n_lost,
            n_tied_pairs=counted.n_tied_pairs,
            n_turned_pairs=counted.n_turned_pairs,
            distinct_bits=safe.distinct,
            same_ranks_bits=safe.same_ranks,
            job_bits=bits.bits or None,
            n_unseen=sum(level.n_unseen for level in bits.levels),
            n_fixed=sum(level.n_fixed for level in bits.levels),
            smallest_job_h=finite(anywhere.min(initial=inf)),
            median_job_h=finite(_median(anywhere)),
        )
        return _with_sentence(check)


def check_tree(*, policy_slug: str, tried: TriedVector, actor: Actor, job_h: float = JOB_H) -> TreeCheck:
    """Check an operator and a resolution on the tree of a policy, as the actor may see it. Raises Invalid."""
    return TriedPolicy(open_view(policy_slug=policy_slug, actor=actor), tried).check(job_h)


def _with_sentence(check: TreeCheck) -> TreeCheck:
    return replace(check, sentence=check_sentence(check))


def _median(values: F8) -> float:
    """Upper median: infinite only if at least half of the values are."""
    return float(np.sort(values)[len(values) // 2]) if len(values) else inf


def finite(value: float) -> float | None:
    return float(value) if isfinite(value) else None
