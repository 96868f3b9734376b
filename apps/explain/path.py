"""The walk from the root to an entry in one snapshot: its numbers by level, and the level that is the main reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from apps.accounts.request_cache import once_per_request
from apps.engine.algorithms.base import Kind
from apps.engine.target_state import State, slack_of, state_of
from apps.explain.levels import (
    DecidedBy,
    Effect,
    PartedSiblings,
    SiblingCounts,
    count_leaves,
    effect_messages,
    effects_of,
    largest_effect,
    siblings_of,
)
from apps.explain.rank_position import standing_of
from apps.policies.settings import tolerance_at
from apps.policies.tree.columns import Mask
from apps.priorities.entry_order import json_number, own_numbers
from apps.priorities.local_only import LocalOnlyEntry
from apps.priorities.sentences import Message, adjustment_sentence, band_messages, build_message, text_of
from apps.priorities.serving.served_snapshot import ServedSnapshot, instant

_COMPARES: dict[Kind, Literal["level", "factor", "priority"]] = {
    "levels": "level",
    "ratio": "factor",
    "number": "priority",
}


@dataclass(frozen=True, slots=True)
class CountedAdjustment:
    """An adjustment of an entry's usage in a snapshot. amount_s: seconds of a resource; below 0 for a refund.

    counted: decayed amount in the metric's unit.
    """

    uid: str
    resource: str
    amount_s: float
    at: datetime
    note: str
    counted: float
    sentence: str


@dataclass(frozen=True, slots=True)
class WalkStep:
    """One level of a walk. n_siblings: competing siblings without itself and reserves; n_ahead: of these, those ahead.

    compares: what "ahead" means. level: all leaves of a sibling that is ahead go first. factor, priority: the sibling's
    number of the whole path is higher. n_equal: siblings with an equal component; n_rounded: of these, those with
    another priority that is rounded to the same component. Both only for `level`.
    """

    uid: UUID
    name: str
    parent_name: str
    path: str
    kind: str
    shares: float | None
    target: float | None
    target_global: float | None
    actual: float | None
    priority: float | None
    state: State
    n_ahead: int
    n_siblings: int
    message_key: str
    slack: float = 0.0  # half the width of the band around the target, as a fraction
    columns: dict[str, float | None] = field(default_factory=dict)  # the algorithm's own, by its scheduler's names
    adjustments: tuple[CountedAdjustment, ...] = ()
    is_group: bool = False
    is_suppressed: bool = False  # usage is hidden from the reader
    local_only: LocalOnlyEntry | None = None  # fallback: compared by local usage for now
    compares: Literal["level", "factor", "priority"] = "level"
    n_equal: int = 0
    n_rounded: int = 0
    leaves_ahead: int | None = None  # ranked leaves that part from the path here; None unless levels decide
    leaves_behind: int | None = None
    siblings_ahead: PartedSiblings | None = None  # which have those leaves; None: some are below none of its siblings
    siblings_behind: PartedSiblings | None = None
    siblings_kind: str = ""  # of all of them; "" if they have several
    effect: Effect | None = None  # on the factor, for algorithms of kind `ratio`
    compared_by: tuple[str, tuple[str, ...]] = ("local", ())  # scope, and sources that it is restricted to

    @property
    def deviation_points(self) -> float | None:
        """actual − target in points: above 0 is over."""
        return None if self.actual is None or self.target is None else (self.actual - self.target) * 100


@dataclass(frozen=True)
class Walk:
    """All levels below the root. deciding: index of the level that is the main reason; None without one. decided_by: as
    `DecidingLevel.by`.

    For a good rank it is the level at which most leaves behind part from this entry, else most leaves ahead. If one
    number decides, it is the level that changes it most in that direction.
    """

    entry: int
    chain: list[int]  # the entry of each step
    steps: list[WalkStep]
    deciding: int | None
    decided_by: DecidedBy = "component"


def walk_to(snapshot: ServedSnapshot, entry: int) -> Walk:
    """The walk to an entry, from numbers stored in the snapshot. Cached for the request."""
    key = ("walk", id(snapshot), entry)  # simulated snapshots share the number
    # The snapshot is cached with it and so kept alive: its id stays unique.
    return once_per_request(key, lambda: (snapshot, _walk_to(snapshot, entry)))[1]


def _walk_to(snapshot: ServedSnapshot, entry: int) -> Walk:
    tree = snapshot.tree
    chain = [*tree.ancestors(entry), entry][1:]
    damping = float(snapshot.algorithm.get("damping_factor", 1))
    effects = effects_of(snapshot.order.explanation, snapshot.values, chain, damping)
    steps = [replace(step_at(snapshot, i), effect=effect) for i, effect in zip(chain, effects, strict=True)]
    standing = standing_of(snapshot, entry)
    if snapshot.order.explanation.kind != "levels":
        return Walk(entry, chain, steps, largest_effect(effects, standing))
    counts = count_leaves(snapshot, entry)
    for level, i in enumerate(counts.levels.tolist()):
        ahead, behind = (int(matrix[:, level].sum()) for matrix in (counts.ahead, counts.behind))
        at = chain.index(i)
        steps[at] = replace(
            steps[at],
            leaves_ahead=ahead,
            leaves_behind=behind,
            siblings_ahead=counts.siblings_ahead[level],
            siblings_behind=counts.siblings_behind[level],
        )
    decision = counts.deciding(standing)
    if decision is None:
        return Walk(entry, chain, steps, None)
    return Walk(entry, chain, steps, chain.index(decision.entry), decision.by)


def why_unranked(snapshot: ServedSnapshot, entry: int) -> list[Message]:
    """Why an entry has no rank, and the factor that schedulers get; empty if it has a rank."""
    tree, values = snapshot.tree, snapshot.values
    if values.has_rank[entry]:
        return []
    if tree.is_reserve[entry]:
        key = "reserve"
    elif tree.n_children[entry]:
        key = "group"
    elif tree.is_group[entry]:
        key = "empty"
    else:
        key = "not_user"
    kind = tree.kind_names[int(tree.kind_code[entry])]
    messages = [
        build_message(f"unranked.{key}", name=tree.name[entry], kind=kind, algorithm=str(snapshot.algorithm["name"]))
    ]
    return messages if values.has_factor[entry] else [*messages, build_message("unranked.fallback")]


def level_messages(step: WalkStep, *, is_you: bool = False, decides: bool = False) -> list[Message]:
    """Messages about one level: its deviation, and how many siblings are ahead. is_you: addressed to its owner."""
    messages = [
        _standing(step, is_you=is_you, decides=decides),
        *tolerance_messages(step),
        *effect_messages(step.effect),
        ahead_message(step, is_you=is_you),
        *equal_messages(step),
    ]
    return messages if step.local_only is None else [*messages, local_only_message(step.local_only)]


def tolerance_messages(step: WalkStep) -> list[Message]:
    """What counts as on target, at a level that is on it by its tolerance alone."""
    if step.state != "on" or step.is_suppressed or step.actual is None or step.target is None:
        return []
    return band_messages(step.actual, step.target, step.slack)


def local_only_message(local_only: LocalOnlyEntry) -> Message:
    """The local-only fallback at this level: since when and, where visible, why."""
    if not local_only.reason:
        return build_message("walk.local_only_above", at=local_only.since)
    return build_message("walk.local_only", at=local_only.since, reason=local_only.reason)


def without_reason(snapshot: ServedSnapshot, step: WalkStep, shows_numbers: Mask) -> WalkStep:
    """The step without the reason of its fallback, if the reader doesn't see the entry that is in fallback."""
    i = None if step.local_only is None else snapshot.tree.index_of_uid(step.local_only.uid)
    if step.local_only is None or (i is not None and shows_numbers[i]):
        return step
    return replace(step, local_only=replace(step.local_only, reason=""))


def ahead_message(step: WalkStep, *, is_you: bool, is_yours: bool = False) -> Message:
    """How many siblings go first, without their names."""
    if not step.n_siblings:
        return build_message("ahead.alone")
    if step.is_suppressed:
        return build_message("ahead.suppressed")
    if step.compares != "level":
        key = f"ahead.{step.compares}" if step.n_ahead else f"ahead.{step.compares}_highest"
        return build_message(key, n_ahead=step.n_ahead, n_siblings=step.n_siblings)
    suffix = "_you" if is_you else "_yours" if is_yours else ""
    if not step.n_ahead and step.leaves_ahead:
        return build_message("ahead.part")
    if not step.n_ahead:
        return build_message(f"ahead.nobody{suffix}")
    return build_message(f"ahead.some{suffix}", n_ahead=step.n_ahead, n_siblings=step.n_siblings)


def equal_messages(step: WalkStep) -> list[Message]:
    """How many siblings have an equal component, and how many of them only by rounding."""
    if step.is_suppressed or not step.n_equal:
        return []
    messages = [build_message("ahead.equal", n=step.n_equal, n_siblings=step.n_siblings)]
    return [*messages, build_message("ahead.rounded", n=step.n_rounded)] if step.n_rounded else messages


def _standing(step: WalkStep, *, is_you: bool, decides: bool) -> Message:
    names = {"name": step.name, "parent": step.parent_name}
    if step.target is None:
        return build_message("walk.dissolved_you" if is_you else "walk.dissolved", **names)
    if step.is_suppressed:
        return build_message("walk.suppressed", **names, target=step.target)
    numbers = {**names, "target": step.target, "actual": step.actual}
    key = f"walk.{step.state}"
    if step.state in ("over", "under"):
        numbers["points"] = abs(step.deviation_points or 0.0)
    if step.state == "on" and decides:
        key += "_decides"
    return build_message(f"{key}_you" if is_you else key, **numbers)


def step_json(step: WalkStep, messages: Sequence[Message]) -> dict[str, Any]:
    """One level as JSON for REST, with its messages."""
    return {
        "entry": step.path,
        "name": step.name,
        "kind": step.kind,
        "shares": "parent" if step.shares is None else step.shares,
        "target": step.target,
        "target_global": step.target_global,
        "actual": step.actual,
        "priority": json_number(step.priority),
        "columns": {name: json_number(value) for name, value in step.columns.items()},
        "state": step.state,
        "n_ahead": None if step.is_suppressed else step.n_ahead,
        "n_siblings": step.n_siblings,
        "n_equal": None if step.is_suppressed else step.n_equal,
        "n_rounded": None if step.is_suppressed else step.n_rounded,
        "leaves_ahead": step.leaves_ahead,
        "leaves_behind": step.leaves_behind,
        "effect": _effect_json(step.effect),
        "compared_by": {"scope": step.compared_by[0], "sources": list(step.compared_by[1])},
        "message": {"key": f"walk.{step.message_key}", "numbers": _numbers(step)},
        "sentence": text_of(messages),
        "sentences": [message.json() for message in messages],
        "deviation_points": step.deviation_points,
        "suppressed": step.is_suppressed,
        "adjustments": [
            {
                "uid": each.uid,
                "resource": each.resource,
                "amount_s": each.amount_s,
                "at": instant(each.at),
                "note": each.note,
                "counted": each.counted,
                "sentence": each.sentence,
            }
            for each in step.adjustments
        ],
    }


def _effect_json(effect: Effect | None) -> dict[str, Any] | None:
    if effect is None:
        return None
    return {
        "ratio_above": effect.above,
        "ratio": effect.ratio,
        "local_ratio": effect.own_ratio,
        "k": effect.exponent,
        "factor_above": effect.factor_above,
        "factor": effect.factor,
        "log2_change": json_number(effect.change),
    }


def step_at(snapshot: ServedSnapshot, i: int) -> WalkStep:
    """The level of one entry."""
    tree, values = snapshot.tree, snapshot.values
    competes = bool(values.competes[i])
    target = float(values.target[i]) if competes else None
    actual = float(values.actual[i]) if competes else None
    tolerance = tolerance_at(snapshot.settings.tolerance, not tree.n_children[i])
    state = state_of(
        target=target,
        actual=actual,
        has_usage=bool(values.usage[i] > 0),
        has_demand=bool(values.has_demand[i]),
        tolerance=tolerance,
    )
    parent = int(tree.parent[i])
    siblings = siblings_of(snapshot, i) if competes else SiblingCounts()
    key = state if competes else "dissolved"
    is_group = bool(tree.is_group[i]) or bool(tree.n_children[i])
    name, parent_name = tree.name[i], tree.name[tree.whole_of(i) if competes else parent]
    return WalkStep(
        uid=tree.uuid(i),
        name=name,
        parent_name=parent_name,
        path=snapshot.index.path(i),
        kind=tree.kind_names[int(tree.kind_code[i])],
        shares=None if tree.inherit[i] else float(tree.shares[i]),
        target=target,
        target_global=float(values.target_global[i]) if competes else None,
        actual=actual,
        priority=float(values.priority[i]) if competes else None,
        state=state,
        n_ahead=siblings.n_ahead,
        n_siblings=siblings.n_siblings,
        slack=0.0 if target is None else slack_of(target, tolerance),
        n_equal=siblings.n_equal,
        n_rounded=siblings.n_rounded,
        siblings_kind=siblings.kind,
        compares=_COMPARES[snapshot.order.explanation.kind],
        message_key=key,
        columns=own_numbers(values, i),
        adjustments=adjustments_of(snapshot, i),
        is_group=is_group,
        local_only=snapshot.local_only_entries.get(parent),
        compared_by=_compared_by(snapshot, parent),
    )


def _compared_by(snapshot: ServedSnapshot, parent: int) -> tuple[str, tuple[str, ...]]:
    """Whose usage the children of an entry were compared by: the policy's scope, or local usage during a fallback."""
    scope, sources = snapshot.tree.effective_scope(parent)
    return ("local", ()) if scope == "global" and parent in snapshot.local_only_entries else (scope, sources)


def without_numbers(step: WalkStep) -> WalkStep:
    """The step with shares and targets only, for readers who may not see its numbers."""
    return replace(
        step,
        actual=None,
        priority=None,
        state="unknown",
        n_ahead=0,
        n_equal=0,
        n_rounded=0,
        leaves_ahead=None,
        leaves_behind=None,
        siblings_ahead=None,
        siblings_behind=None,
        effect=None,
        message_key="suppressed",
        columns={},
        adjustments=(),
        is_suppressed=True,
    )


def adjustments_of(snapshot: ServedSnapshot, i: int) -> tuple[CountedAdjustment, ...]:
    """Adjustments at an entry that count in a snapshot, oldest first."""
    corrections = sorted(snapshot.corrections.get(i, ()), key=lambda each: (each["at_s"], each["uid"]))
    return tuple(
        CountedAdjustment(
            uid=each["uid"],
            resource=each["resource"],
            amount_s=each["amount_s"],
            at=datetime.fromtimestamp(each["at_s"], UTC),
            note=each["note"],
            counted=each["counted"],
            sentence=adjustment_sentence(
                each["resource"], each["amount_s"], datetime.fromtimestamp(each["at_s"], UTC), each["note"]
            ),
        )
        for each in corrections
    )


def _numbers(step: WalkStep) -> dict[str, Any]:
    return {
        "name": step.name,
        "parent": step.parent_name,
        "target": step.target,
        "actual": step.actual,
        "deviation_points": step.deviation_points,
        "n_ahead": None if step.is_suppressed else step.n_ahead,
        "n_siblings": step.n_siblings,
    }
