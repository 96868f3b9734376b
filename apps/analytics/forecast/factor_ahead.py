"""The factor of an entry on the days to come, where one number of the whole path decides: each day as recomputed then.

All entries continue at the pace of the last 14 days, as in what-if comparisons: both give one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache, cached

from apps.analytics.forecast.past_usage import DAY_S
from apps.analytics.forecast.usage_source import inputs_of, key_of
from apps.core.errors import Invalid
from apps.engine.algorithms import PriorityResult
from apps.explain.level_terms import Numbers, effects_of
from apps.policies.models import Policy
from apps.priorities.recompute.projection import Side, project
from apps.priorities.sentences import Message, say
from apps.priorities.sentences.numbers import factor as written
from apps.priorities.serving.lookup_index import ServedSnapshot

DAYS = (1, 2, 3, 5, 7, 10, 14, 21, 28)
_A_WEEK = 7
_MOST_REMEMBERED = 2

F8 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FactorPoint:
    """The factor, 0..1, so many days after the snapshot."""

    days: int
    at: datetime
    factor: float


@dataclass(frozen=True, eq=False)
class FactorAhead:
    """points: from now on; none where the hours are too many to read. level: the entry whose effect on the factor
    changes most, None where none does or the algorithm has no effect by level.
    """

    points: Sequence[FactorPoint]
    level: int | None
    said: Sequence[Message]


def factor_ahead(policy: Policy, snapshot: ServedSnapshot, entry: int) -> FactorAhead | None:
    """None where levels decide, which have curves of their own, and for an entry without a factor."""
    if snapshot.order.explanation.kind == "levels" or not snapshot.values.has_factor[entry]:
        return None
    ahead = _work_out(policy, snapshot)
    if ahead is None:
        return FactorAhead((), None, [say("forecast.factor_too_many_hours")])
    now = FactorPoint(0, snapshot.as_of, float(snapshot.values.factor[entry]))
    points = [now] + [
        FactorPoint(days, snapshot.as_of + timedelta(days=days), float(factors[entry]))
        for days, factors in zip(DAYS, ahead.factors, strict=True)
    ]
    level = _level_of_change(snapshot, ahead.last, entry)
    return FactorAhead(points, level, _said(snapshot, ahead.last, points, level))


def _said(
    snapshot: ServedSnapshot, last: PriorityResult, points: Sequence[FactorPoint], level: int | None
) -> list[Message]:
    facts = {"factor": points[0].factor, "horizon_s": float(DAYS[-1] * DAY_S)}
    if len({written(point.factor) for point in points}) == 1:
        return [say("forecast.factor_stays", **facts)]
    week = next(point.factor for point in points if point.days == _A_WEEK)
    said = [
        say(
            "forecast.factor_goes",
            **facts,
            week_factor=week,
            in_s=float(_A_WEEK * DAY_S),
            month_factor=points[-1].factor,
        )
    ]
    if level is None:
        return said
    tree = snapshot.tree
    names = {"name": tree.name[level], "parent": tree.name[int(tree.parent[level])]}
    actual = {"other_actual": float(snapshot.values.actual[level]), "actual": float(last.actual[level])}
    return [*said, say("forecast.factor_by_level", **names, **actual, horizon_s=facts["horizon_s"])]


def _level_of_change(snapshot: ServedSnapshot, last: PriorityResult, entry: int) -> int | None:
    """The entry on the path whose part in log2 F differs most between now and the last day."""
    chain = [*snapshot.tree.ancestors(entry), entry][1:]
    damping = float(snapshot.algorithm.get("damping_factor", 1))

    def changes(values: Numbers) -> list[float]:
        effects = effects_of(snapshot.order.explanation, values, chain, damping)
        return [0.0 if effect is None else effect.change for effect in effects]

    pairs = zip(changes(snapshot.values), changes(last), strict=True)
    sizes = [0.0 if one == other else abs(one - other) for one, other in pairs]  # both may be −inf
    return chain[sizes.index(max(sizes))] if any(sizes) else None


@dataclass(frozen=True, eq=False)
class _Ahead:
    """factors: (n,) for each of `DAYS`. last: all numbers of the last of them."""

    factors: Sequence[F8]
    last: PriorityResult


@cached(LRUCache(_MOST_REMEMBERED), key=key_of, lock=Lock())
def _work_out(policy: Policy, snapshot: ServedSnapshot) -> _Ahead | None:
    """Kept: the account beside this one asks for the same days."""
    inputs = inputs_of(policy, snapshot)
    if inputs is None:
        return None
    try:
        (found,) = project(inputs, [Side(snapshot.tree, snapshot.settings)], DAYS, is_order_independent=False)
    except Invalid:  # a package failed on the usage of a day to come
        return None
    return _Ahead([each.factor for each in found], found[-1])
