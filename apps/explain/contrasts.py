"""Comparison of two visible leaves: the level that decides their order, and which change would reverse it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.core.errors import FieldProblem, Invalid, NotFound
from apps.engine.algorithms import PriorityResult, read_algorithm
from apps.engine.explain import Contrast, OrderFlip, contrast
from apps.explain.account_path import moment_json, scope_of
from apps.explain.path import WalkStep, step_at, step_json, without_numbers
from apps.policies.settings import refusing_failed_packages
from apps.priorities.recompute.totals import conflict_without_algorithm
from apps.priorities.selectors.visible_snapshot import VisibleSnapshot, open_snapshot
from apps.priorities.sentences import Message, build_message, text_of, unit_of_metric
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot, instant
from apps.priorities.visible_entries import own_queries

_MOST_HITS = 20
_MOST_NEAR = 5


@dataclass(frozen=True)
class Side:
    """One of the two leaves, with its numbers in the snapshot."""

    index: int
    name: str
    path: str
    rank: int
    factor: float


@dataclass(frozen=True)
class Comparison:
    """Two leaves, the deciding level, and messages. turn: the reversing changes; None for a tie, or if hidden."""

    visible: VisibleSnapshot
    leaf: Side
    other: Side
    difference: Contrast
    ahead_step: WalkStep | None
    behind_step: WalkStep | None
    turn: OrderFlip | None
    sentences: list[Message]

    @property
    def ahead(self) -> Side | None:
        if self.difference.ahead is None:
            return None
        return self.leaf if self.difference.ahead == self.leaf.index else self.other


def compare_leaves(
    *, policy_slug: str, other: str, leaf: str = "", actor: Actor, at: int | datetime | None = None
) -> Comparison:
    """Compare two leaves, each an account (alice, c1:alice) or a path; by default with the actor's best account.

    Raises:
        NotFound: there is no such leaf, or its numbers are hidden from the actor; the message is the same.
        Invalid: both are the same leaf, or one has no rank.
    """
    visible = open_snapshot(policy_slug=policy_slug, actor=actor, at=at, scope=scope_of(actor))
    first = _own(visible, actor) if not leaf else _leaf(visible, leaf, "one")
    second = _leaf(visible, other, "other")
    if first == second:
        raise Invalid(
            _("These are the same entry: name two different ones."),
            fields=[FieldProblem("other", _("is the same as one"))],
        )
    return _compare(visible, first, second)


@dataclass(frozen=True)
class LeafHit:
    """A leaf that can be chosen for a comparison."""

    name: str
    path: str
    rank: int
    parent_name: str


def find_leaves(
    *, policy_slug: str, entry_uid: UUID, query: str = "", actor: Actor, at: int | datetime | None = None
) -> list[LeafHit]:
    """Ranked leaves with visible numbers, other than an entry: by part of their name, prefixes first.

    Without a query: the nearest leaves ahead. Empty if the entry itself can't be compared.
    """
    visible = open_snapshot(policy_slug=policy_slug, actor=actor, at=at, scope=scope_of(actor))
    tree, rank = visible.snapshot.tree, visible.snapshot.values.rank
    own = tree.index_of_uid(entry_uid)
    offered = visible.shows_numbers & visible.snapshot.values.is_ranked
    if own is None or not visible.shows_numbers[own]:
        return []
    offered[own] = False
    if query.strip():
        named, begins = tree.names.find_part(query.strip())
        leaves, begins = named[offered[named]], begins[offered[named]]
        hits = leaves[np.lexsort((leaves, rank[leaves], ~begins))[:_MOST_HITS]].tolist()
    else:
        leaves = np.flatnonzero(offered)
        distance = np.where(rank[leaves] <= rank[own], rank[own] - rank[leaves], len(tree) + rank[leaves])
        hits = leaves[np.argsort(distance, kind="stable")[:_MOST_NEAR]].tolist()
    return [
        LeafHit(tree.name[i], visible.snapshot.index.path(i), int(rank[i]), tree.name[int(tree.parent[i])])
        for i in hits
    ]


def result_of(snapshot: ServedSnapshot) -> PriorityResult:
    """The stored numbers of a snapshot as a result of the engine."""
    values = snapshot.values
    return PriorityResult(
        settings=read_algorithm(snapshot.algorithm),
        tree=snapshot.tree.engine_tree(),
        usage=values.usage,
        group_usage=values.group_usage,
        target=values.target,
        actual=values.actual,
        priority=values.priority,
        target_global=values.target_global,
        competes=values.competes,
        scalar=values.scalar.astype(np.int64),
        rank=values.rank.astype(np.int64),
        factor=values.factor,
        has_rank=values.has_rank,
        has_factor=values.has_factor,
        is_ranked=values.is_ranked,
        n_ranked=snapshot.n_ranked,
        depth=snapshot.depth,
        columns=values.columns,
    )


def comparison_json(compared: Comparison) -> dict[str, Any]:
    """A comparison as JSON for REST."""
    snapshot, ahead, turn = compared.visible.snapshot, compared.ahead, compared.turn
    behind = None if ahead is None else compared.other if ahead is compared.leaf else compared.leaf
    return {
        "policy": snapshot.policy_slug,
        "snapshot": snapshot.snapshot_id,
        "revision": snapshot.revision,
        "as_of": instant(snapshot.as_of),
        "algorithm": snapshot.algorithm,
        "moment": moment_json(compared.visible.moment),
        "of": snapshot.n_ranked,
        "one": _side_json(compared.leaf),
        "other": _side_json(compared.other),
        "ahead": ahead.path if ahead else None,
        "behind": behind.path if behind else None,
        "decided_by": compared.difference.decided_by,
        "level": compared.difference.level,
        "ahead_step": _step_json(compared.ahead_step),
        "behind_step": _step_json(compared.behind_step),
        "turn": None
        if turn is None
        else {
            "ahead_gains_usage_s": turn.ahead_gains_usage,
            "behind_sheds_usage_s": turn.behind_sheds_usage,
            "ahead_shares_at_most": turn.ahead_shares_at_most,
            "behind_shares_at_least": turn.behind_shares_at_least,
        },
        "sentence": text_of(compared.sentences[:2]),
        "sentences": [sentence.json() for sentence in compared.sentences],
    }


def _side_json(side: Side) -> dict[str, Any]:
    return {"entry": side.path, "name": side.name, "rank": side.rank, "factor": side.factor}


def _step_json(step: WalkStep | None) -> dict[str, Any] | None:
    return None if step is None else step_json(step, [_standing(step)])


def _own(visible: VisibleSnapshot, actor: Actor) -> int:
    results = [result for query in own_queries(actor) for result in visible.lookup(query)]
    ranked = sorted((result["rank"], result["entry"]) for result in results if result.get("rank") is not None)
    at = visible.snapshot.tree.index_of_path(ranked[0][1]) if ranked else None
    if at is None or not visible.snapshot.values.is_ranked[at]:
        raise NotFound(_("None of your accounts has a rank in this policy: name both entries."))
    return at


def _leaf(visible: VisibleSnapshot, text: str, where: str) -> int:
    """Index of the ranked leaf of an account or a path. A hidden leaf gives the same error as a missing one."""
    tree, values = visible.snapshot.tree, visible.snapshot.values
    at = tree.index_of_path(text) if text.startswith("/") else _of_account(visible, text)
    if at is None or at <= 0 or not visible.shows_numbers[at]:
        raise NotFound(_("No visible entry is called “%(name)s”.") % {"name": text[:120]})
    if not values.is_ranked[at]:
        message = _("has no rank of its own: name a leaf with usage")
        raise Invalid(f"{text[:120]} {message}.", fields=[FieldProblem(where, message)])
    return at


def _of_account(visible: VisibleSnapshot, text: str) -> int | None:
    namespace, colon, user = text.partition(":")
    queries = [AccountQuery(text), *([AccountQuery(user, namespace=namespace)] if colon else [])]
    for query in queries:
        (best, *_rest) = visible.lookup(query)
        if best["entry"] is not None and not best.get("provisional"):
            return visible.snapshot.tree.index_of_path(best["entry"])
    return None


def _compare(visible: VisibleSnapshot, entry: int, other: int) -> Comparison:
    snapshot = visible.snapshot
    with conflict_without_algorithm(), refusing_failed_packages():
        difference = contrast(result_of(snapshot), entry, other)
    sides = _side(snapshot, entry), _side(snapshot, other)
    steps = [
        None if step is None else _visible_step(visible, step.entry)
        for step in (difference.ahead_step, difference.behind_step)
    ]
    is_shown = all(step is None or not step.is_suppressed for step in steps)
    turn = difference.turn if is_shown else None
    messages = [
        *_order(snapshot, sides, difference),
        *_level(snapshot, difference, steps),
        *_factors(difference, sides),
        *_rounded(visible, difference),
    ]
    if difference.turn is not None:
        messages += _turn(snapshot, steps, turn) if turn is not None else [build_message("turn.suppressed")]
    return Comparison(visible, *sides, difference, steps[0], steps[1], turn, messages)


def _side(snapshot: ServedSnapshot, at: int) -> Side:
    values = snapshot.values
    return Side(at, snapshot.tree.name[at], snapshot.index.path(at), int(values.rank[at]), float(values.factor[at]))


def _visible_step(visible: VisibleSnapshot, at: int) -> WalkStep:
    step = step_at(visible.snapshot, at)
    return step if visible.shows_numbers[at] else without_numbers(step)


def _order(snapshot: ServedSnapshot, sides: tuple[Side, Side], difference: Contrast) -> list[Message]:
    first, second = sides
    same = first.name == second.name
    if difference.ahead is None:
        return [
            build_message(
                "contrast.tie",
                ahead=first.path if same else first.name,
                behind=second.path if same else second.name,
                rank=first.rank,
                of=snapshot.n_ranked,
            )
        ]
    ahead, behind = (first, second) if difference.ahead == first.index else (second, first)
    return [
        build_message(
            "contrast.ahead",
            ahead=ahead.path if same else ahead.name,
            behind=behind.path if same else behind.name,
            rank=ahead.rank,
            other_rank=behind.rank,
            of=snapshot.n_ranked,
        )
    ]


def _level(snapshot: ServedSnapshot, difference: Contrast, steps: list[WalkStep | None]) -> list[Message]:
    if difference.decided_by == "tie":
        return []
    algorithm = str(snapshot.algorithm["name"])
    standing = [_standing(step) for step in steps if step is not None]
    ahead, behind = steps
    if difference.decided_by == "own_order":
        return [build_message("contrast.own_order", algorithm=algorithm), *standing]
    if ahead is None or behind is None:
        ended = build_message("contrast.ended", level=difference.level)
        return [
            ended if difference.decided_by == "level" else build_message("contrast.one_number", algorithm=algorithm),
            *standing,
        ]
    between = {"level": difference.level, "ahead": ahead.name, "behind": behind.name, "algorithm": algorithm}
    return [build_message(f"contrast.{difference.decided_by}", **between), *standing]


def _rounded(visible: VisibleSnapshot, difference: Contrast) -> list[Message]:
    """Levels at which the two are equal only by rounding; levels with hidden entries are left out."""
    messages = []
    for level, step, other in difference.rounded:
        if visible.shows_numbers[step.entry] and visible.shows_numbers[other.entry]:
            names = {"ahead": visible.snapshot.tree.name[step.entry], "behind": visible.snapshot.tree.name[other.entry]}
            numbers = {"priority": step.priority, "other_priority": other.priority, "part": step.scalar}
            messages.append(build_message("contrast.rounded", level=level, **names, **numbers))
    return (
        [*messages, build_message("contrast.rounded_tie")] if messages and difference.decided_by == "tie" else messages
    )


def _factors(difference: Contrast, sides: tuple[Side, Side]) -> list[Message]:
    """Both factors, for an algorithm that compares one number of the whole path."""
    if difference.decided_by != "whole_path":
        return []
    ahead, behind = sides if difference.ahead == sides[0].index else sides[::-1]
    return [
        build_message(
            "contrast.factors", ahead=ahead.name, behind=behind.name, factor=ahead.factor, other_factor=behind.factor
        )
    ]


def _standing(step: WalkStep) -> Message:
    facts = {"name": step.name, "parent": step.parent_name, "target": step.target}
    if step.is_suppressed:
        return build_message("contrast.one.suppressed", **facts)
    state = "on" if step.state == "unknown" else step.state
    points = abs(step.deviation_points or 0.0)
    return build_message(f"contrast.one.{state}", **facts, actual=step.actual, points=points)


def _turn(snapshot: ServedSnapshot, steps: list[WalkStep | None], turn: OrderFlip) -> list[Message]:
    """Each single change that would reverse the order."""
    ahead, behind = steps
    unit = unit_of_metric(snapshot.settings.metric["weights"])
    messages = []
    if ahead is not None and turn.ahead_gains_usage is not None:
        messages.append(
            build_message("turn.ahead_gains", name=ahead.name, hours=turn.ahead_gains_usage / 3600, unit=unit)
        )
    if behind is not None and turn.behind_sheds_usage is not None:
        messages.append(
            build_message("turn.behind_sheds", name=behind.name, hours=turn.behind_sheds_usage / 3600, unit=unit)
        )
    if ahead is not None and turn.ahead_shares_at_most is not None:
        wished = turn.ahead_shares_at_most
        messages.append(build_message("turn.ahead_shares", name=ahead.name, wished_shares=wished, shares=ahead.shares))
    if behind is not None and turn.behind_shares_at_least is not None:
        wished = turn.behind_shares_at_least
        messages.append(
            build_message("turn.behind_shares", name=behind.name, wished_shares=wished, shares=behind.shares)
        )
    return messages or [build_message("turn.none")]
