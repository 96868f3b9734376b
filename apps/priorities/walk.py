"""The walk root→entry through one snapshot: its stored numbers, level by level, and which level decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.policies.columns import Mask
from apps.priorities.answers import ServedSnapshot, instant
from apps.priorities.fallen_back import FallenBack
from apps.priorities.ordering import json_number, own_numbers
from apps.priorities.sentences import Said, adjustment_sentence, say, text_of
from apps.priorities.states import State, state_of

I8 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CountedAdjustment:
    """A correction of an entry's usage as it counts in a snapshot: seconds of a resource, and what is left of them.

    counted: in the metric's unit, after aging; both are below 0 where usage was given back.
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
    """One level. `n_siblings` counts those it is compared with, without itself and reserves; `n_ahead` of them."""

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
    columns: dict[str, float | None] = field(default_factory=dict)  # the algorithm's own, by its scheduler's names
    adjustments: tuple[CountedAdjustment, ...] = ()
    is_group: bool = False
    is_suppressed: bool = False  # what was used here may not be told
    fallen: FallenBack | None = None  # compared by this site's usage alone, for now

    @property
    def deviation_points(self) -> float | None:
        """actual − target in points: above 0 is over."""
        return None if self.actual is None or self.target is None else (self.actual - self.target) * 100


@dataclass(frozen=True)
class Walk:
    """All levels below the root, and the index of the one that puts most others ahead (or, for the first, behind)."""

    entry: int
    chain: list[int]  # the entry of each step
    steps: list[WalkStep]
    deciding: int | None


def walk_to(snapshot: ServedSnapshot, entry: int) -> Walk:
    """Numbers as they are stored in the snapshot, never computed again."""
    tree = snapshot.tree
    chain = [*tree.ancestors(entry), entry][1:]
    steps = [step_at(snapshot, i) for i in chain]
    deciding = _deciding(snapshot, entry)
    return Walk(entry, chain, steps, None if deciding is None else chain.index(deciding))


def why_unranked(snapshot: ServedSnapshot, entry: int) -> list[Said]:
    """Why an entry has no rank, and what schedulers get for it; nothing for one that has."""
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
    said = [say(f"unranked.{key}", name=tree.name[entry], kind=kind, algorithm=str(snapshot.algorithm["name"]))]
    return said if values.has_factor[entry] else [*said, say("unranked.fallback")]


def level_said(step: WalkStep, *, is_you: bool = False, decides: bool = False) -> list[Said]:
    """One level in words: how it stands to its target, and how many beside it are ahead. is_you: told to whom it is."""
    said = [_standing(step, is_you=is_you, decides=decides), ahead_said(step, is_you=is_you)]
    return said if step.fallen is None else [*said, fallen_said(step.fallen)]


def fallen_said(fallen: FallenBack) -> Said:
    """That others' usage doesn't count here for now, since when and, as far as it may be told, why."""
    if not fallen.reason:
        return say("walk.local_only_above", at=fallen.since)
    return say("walk.local_only", at=fallen.since, reason=fallen.reason)


def without_reason(snapshot: ServedSnapshot, step: WalkStep, told: Mask) -> WalkStep:
    """For whom the entry that fell back isn't told: its reason names what lies there."""
    i = None if step.fallen is None else snapshot.tree.index_of_uid(step.fallen.uid)
    if step.fallen is None or (i is not None and told[i]):
        return step
    return replace(step, fallen=replace(step.fallen, reason=""))


def ahead_said(step: WalkStep, *, is_you: bool = False, is_yours: bool = False) -> Said:
    """How many of the others at this level go first; never which."""
    suffix = "_you" if is_you else "_yours" if is_yours else ""
    if not step.n_siblings or step.is_suppressed:
        return say("ahead.alone")
    if not step.n_ahead:
        return say(f"ahead.nobody{suffix}")
    return say(f"ahead.some{suffix}", n_ahead=step.n_ahead, n_siblings=step.n_siblings)


def _standing(step: WalkStep, *, is_you: bool, decides: bool) -> Said:
    names = {"name": step.name, "parent": step.parent_name}
    if step.target is None:
        return say("walk.dissolved_you" if is_you else "walk.dissolved", **names)
    if step.is_suppressed:
        return say("walk.suppressed", **names, target=step.target)
    numbers = {**names, "target": step.target, "actual": step.actual}
    key = f"walk.{step.state}"
    if step.state in ("over", "under"):
        numbers["points"] = abs(step.deviation_points or 0.0)
        key += "" if is_you or not step.is_group else "_group"
    if step.state == "on" and decides:
        key += "_decides"
    return say(f"{key}_you" if is_you else key, **numbers)


def step_json(step: WalkStep, said: Sequence[Said]) -> dict[str, Any]:
    """One level as REST tells it, with what is said of it."""
    return {
        "entry": step.path, "name": step.name, "kind": step.kind,
        "shares": "parent" if step.shares is None else step.shares, "target": step.target,
        "target_global": step.target_global, "actual": step.actual,
        "priority": json_number(step.priority),
        "columns": {name: json_number(value) for name, value in step.columns.items()},
        "state": step.state, "n_ahead": None if step.is_suppressed else step.n_ahead, "n_siblings": step.n_siblings,
        "message": {"key": f"walk.{step.message_key}", "numbers": _numbers(step)}, "sentence": text_of(said),
        "sentences": [one.json() for one in said], "deviation_points": step.deviation_points,
        "suppressed": step.is_suppressed,
        "adjustments": [
            {
                "uid": each.uid, "resource": each.resource, "amount_s": each.amount_s, "at": instant(each.at),
                "note": each.note, "counted": each.counted, "sentence": each.sentence,
            }
            for each in step.adjustments
        ],
    }  # fmt: skip


def step_at(snapshot: ServedSnapshot, i: int) -> WalkStep:
    """The level of one entry, whichever way leads to it."""
    tree, values = snapshot.tree, snapshot.values
    competes = bool(values.competes[i])
    target = float(values.target[i]) if competes else None
    actual = float(values.actual[i]) if competes else None
    state = state_of(
        target=target,
        actual=actual,
        has_usage=bool(values.usage[i] > 0),
        has_demand=bool(values.has_demand[i]),
        tolerance=snapshot.settings.tolerance,
    )
    parent = int(tree.parent[i])
    n_ahead, n_siblings = _siblings_ahead(snapshot, i) if competes else (0, 0)
    key = state if competes else "dissolved"
    is_group = bool(tree.is_group[i]) or bool(tree.n_children[i])
    name, parent_name = tree.name[i], tree.name[parent]
    return WalkStep(
        uid=tree.uuid(i), name=name, parent_name=parent_name, path=snapshot.index.path(i),
        kind=tree.kind_names[int(tree.kind_code[i])], shares=None if tree.inherit[i] else float(tree.shares[i]),
        target=target, target_global=float(values.target_global[i]) if competes else None, actual=actual,
        priority=float(values.priority[i]) if competes else None, state=state, n_ahead=n_ahead,
        n_siblings=n_siblings, message_key=key,
        columns=own_numbers(values, i), adjustments=adjustments_of(snapshot, i), is_group=is_group,
        fallen=snapshot.fallen.get(parent),
    )  # fmt: skip


def untold(step: WalkStep) -> WalkStep:
    """Entitlements alone."""
    return replace(
        step, actual=None, priority=None, state="unknown", n_ahead=0, message_key="suppressed", columns={},
        adjustments=(), is_suppressed=True,
    )  # fmt: skip


def adjustments_of(snapshot: ServedSnapshot, i: int) -> tuple[CountedAdjustment, ...]:
    """The corrections at this very entry that count in a snapshot; the oldest first."""
    found = sorted(snapshot.corrections.get(i, ()), key=lambda each: (each["at_s"], each["uid"]))
    return tuple(
        CountedAdjustment(
            uid=each["uid"], resource=each["resource"], amount_s=each["amount_s"],
            at=datetime.fromtimestamp(each["at_s"], UTC), note=each["note"], counted=each["counted"],
            sentence=adjustment_sentence(
                each["resource"], each["amount_s"], datetime.fromtimestamp(each["at_s"], UTC), each["note"]
            ),
        )
        for each in found
    )  # fmt: skip


def _siblings_ahead(snapshot: ServedSnapshot, i: int) -> tuple[int, int]:
    """Of those an entry competes with, how many have a higher component, and how many there are."""
    contest, entry_of, seat, _ = snapshot.tree.engine_tree().competition
    at = int(seat[i])
    parent = int(contest.parent[at])
    first, count = int(contest.first_child[parent]), int(contest.child_count[parent])
    group = np.arange(first, first + count)
    others = entry_of[group[(group != at) & ~contest.is_reserve[group]]]
    component = snapshot.order.components(snapshot.values)
    return int(snapshot.order.ahead(component[others], component[i]).sum()), len(others)


def _deciding(snapshot: ServedSnapshot, entry: int) -> int | None:
    """The level at which most leaves ahead part from this entry; where nobody is ahead, most of those behind."""
    rows, depth_of = snapshot.lineage(np.array([entry]))
    own = rows[0, : int(depth_of[0])]
    if not len(own) or not snapshot.n_ranked:
        return None
    if snapshot.order.is_isolated:
        ahead, behind = _parted_by_component(snapshot, own)
    else:
        ahead, behind = _parted_by_place(snapshot, own)
    counts = ahead if sum(ahead) else behind
    return int(own[int(np.argmax(counts))]) if sum(counts) else None


def _parted_by_component(snapshot: ServedSnapshot, own: I8) -> tuple[list[int], list[int]]:
    """At each level, how many leaves are ahead and behind that tied with this entry on all levels above."""
    order, leaves = snapshot.order, snapshot.leaf_components
    mine = order.components(snapshot.values)[own]
    level_with = np.ones(len(leaves), dtype=np.bool_)
    ahead, behind = [], []
    for level in range(min(len(own), leaves.shape[1])):
        theirs = leaves[:, level]
        is_ahead, ties = order.ahead(theirs, mine[level]), order.ties(theirs, mine[level])
        ahead.append(int((level_with & is_ahead).sum()))
        behind.append(int((level_with & ~is_ahead & ~ties).sum()))
        level_with &= ties
    return ahead, behind


def _parted_by_place(snapshot: ServedSnapshot, own: I8) -> tuple[list[int], list[int]]:
    """At each level, how many leaves are ahead and behind that share this entry's way so far and leave it there.

    For algorithms under which a level can't be compared by itself: their order is the ranks'.
    """
    tree, values = snapshot.tree, snapshot.values
    rank = values.rank[own[-1]] if values.has_rank[own[-1]] else snapshot.n_ranked + 1
    is_ahead, is_behind = values.is_ranked & (values.rank < rank), values.is_ranked & (values.rank > rank)
    ahead, behind = [], []
    within = np.ones(len(tree), dtype=np.bool_)
    for entry in own.tolist():
        below = tree.subtree_mask(entry)
        ahead.append(int((is_ahead & within & ~below).sum()))
        behind.append(int((is_behind & within & ~below).sum()))
        within = below
    return ahead, behind


def _numbers(step: WalkStep) -> dict[str, Any]:
    return {
        "name": step.name, "parent": step.parent_name, "target": step.target, "actual": step.actual,
        "deviation_points": step.deviation_points,
        "n_ahead": None if step.is_suppressed else step.n_ahead, "n_siblings": step.n_siblings,
    }  # fmt: skip
