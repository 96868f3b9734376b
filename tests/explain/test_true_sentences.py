"""No sentence about a priority is contradicted by `/priorities/all`, whatever the tree and the algorithm are.

What a sentence claims is read from its key and its values, never from its words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from apps.engine.algorithms import all_algorithms
from apps.explain.my_priority import MyPriority
from apps.explain.walk import WalkStep, level_messages
from apps.priorities.sentences import Message
from tests.examples import examples
from tests.explain.sentence_world import Told, snapshot_of, worlds

ALGORITHMS: list[dict[str, Any]] = [
    {"name": "aequus"},
    {"name": "aequus", "operator": "absolute", "resolution": 10},
    {"name": "aequus", "operator": "sigmoid-2", "resolution": 100, "factor_from": "key"},
    {"name": "aequus", "operator": "combined", "k": 0.5},
    {"name": "gridwide"},
    {"name": "slurm-fair-tree"},
    {"name": "slurm-fair-tree", "ties": "as-documented"},
    {"name": "slurm-classic"},
    {"name": "slurm-classic", "damping_factor": 3},
    {"name": "slurm-depth-oblivious"},
    {"name": "flux"},
]
IDS = ["-".join(map(str, one.values())) for one in ALGORITHMS]


@dataclass(frozen=True, eq=False)
class About:
    """Of what a sentence was said: a leaf, and (for one about a level) the entry of the level."""

    told: Told
    mine: MyPriority
    step: WalkStep | None = None

    @property
    def leaf(self) -> str:
        return self.mine.entry_path

    @property
    def level(self) -> WalkStep:
        """The level a sentence is about: its own, else the main reason."""
        if self.step is not None:
            return self.step
        assert self.mine.deciding is not None
        return self.mine.walk[self.mine.deciding]

    def ahead(self) -> list[str]:
        return [each for each in self.told.leaves if self.told.rank(each) < self.told.rank(self.leaf)]

    def ahead_elsewhere(self) -> bool:
        """Is a leaf ahead that isn't below the entry of this level?"""
        return bool(set(self.ahead()) - set(self.told.below(self.level.path)))

    def is_leaf(self) -> bool:
        return self.level.path in self.told.leaves


Claim = Callable[[About, dict[str, Any]], Any]


def _facts(about: About, said: dict[str, Any]) -> bool:
    """Target and actual are those of the entry that is named."""
    values, i = about.told.snapshot.values, about.told.at(about.level.path)
    named = said.get("name", about.level.name) == about.level.name
    return (
        named
        and all(
            said[key] is None or said[key] == pytest.approx(float(column[i]))
            for key, column in (("target", values.target), ("actual", values.actual))
            if key in said
        )
        and said.get("points", 0.0)
        == pytest.approx(abs(float(values.actual[i] - values.target[i])) * 100 * ("points" in said))
    )


def _is_over(about: About, said: dict[str, Any]) -> bool:
    return _facts(about, said) and bool(said["actual"] > said["target"])


def _is_under(about: About, said: dict[str, Any]) -> bool:
    return _facts(about, said) and bool(said["actual"] < said["target"])


def _some_ahead(about: About, said: dict[str, Any]) -> bool:
    """n of m: at most as many as have all their leaves ahead of all below the entry, and none of the others has."""
    told, path, others = about.told, about.level.path, about.told.competitors(about.level.path)
    if about.is_leaf():
        definite = [each for each in others if told.all_before(each, path)]
    else:
        definite = [each for each in others if told.all_before(each, path) or not told.below(path)]
    vague = [each for each in others if not told.below(each)]
    n = said.get("n_ahead", 0)
    return (
        len(definite) - about.level.n_equal <= n <= len(definite) + len(vague) and len(others) == about.level.n_siblings
    )


def _higher_factor(about: About, said: dict[str, Any]) -> bool:
    told, path = about.told, about.level.path
    higher = [each for each in told.competitors(path) if told.factor(each) > told.factor(path)]
    clearly = [each for each in higher if told.factor(each) > told.factor(path) * (1 + 1e-9)]
    n = int(said["n_ahead"])
    return len(clearly) <= n <= len(higher) and said["n_siblings"] == len(told.competitors(path))


def _equal(about: About, said: dict[str, Any]) -> bool:
    """Leaves beside a leaf that are called equal share its rank, and all that share it are."""
    told, path = about.told, about.level.path
    if not about.is_leaf():
        return 0 < int(said["n"]) <= len(told.competitors(path))
    same = [each for each in told.competitors(path) if each in told.leaves and told.rank(each) == told.rank(path)]
    groups = [each for each in told.competitors(path) if each not in told.leaves]
    return len(same) <= int(said["n"]) <= len(same) + len(groups)


def _rounded(about: About, said: dict[str, Any]) -> bool:
    """As many siblings as have another priority and an equal whole number."""
    values, own = about.told.snapshot.values, about.told.at(about.level.path)
    others = [about.told.at(each) for each in about.told.competitors(about.level.path)]
    same = [i for i in others if values.scalar[i] == values.scalar[own]]
    return int(said["n"]) == len([i for i in same if abs(values.priority[i] - values.priority[own]) > 1e-9])


def _changes(about: About, said: dict[str, Any], sign: int) -> bool:
    """From the factor of the level above to that of this one."""
    told, chain = about.told, [step for step in about.mine.walk if step.target is not None]
    at = chain.index(about.level)
    damping = about.mine.settings.get("damping_factor", 1)
    above = 2.0 ** (-1 / damping) if at == 0 else told.factor(chain[at - 1].path)
    known = said["other_factor"] == pytest.approx(above) and said["factor"] == told.factor(about.level.path)
    return bool(known and (said["factor"] - said["other_factor"]) * sign >= 0)


def _most_change(about: About, said: dict[str, Any], sign: int) -> bool:
    """Of all levels the one with the largest change of log2 of the factor."""
    damping = about.mine.settings.get("damping_factor", 1)
    logs, sizes = [-1 / damping], {}
    for step in about.mine.walk:
        if step.target is not None:
            factor = about.told.factor(step.path)
            logs.append(math.log2(factor) if factor > 0 else -2000.0)
            sizes[step.path] = abs(logs[-1] - logs[-2])
    largest = sizes[about.level.path] >= max(sizes.values()) * (1 - 1e-6) or min(logs) == -2000.0
    return _facts(about, said) and _changes(about, said, sign) and largest


def _place(about: About, said: dict[str, Any]) -> bool:
    line = about.told.lines[about.leaf]
    return all(said[key] == line[key] for key in ("rank", "of", "factor") if key in said)


def _first(about: About, said: dict[str, Any]) -> bool:
    return not about.ahead()


CLAIMS: dict[str, Claim] = {
    "walk.over": _is_over,
    "walk.over_you": _is_over,
    "walk.under": _is_under,
    "walk.under_you": _is_under,
    "walk.on": _facts,
    "walk.on_you": _facts,
    "walk.on_decides": _facts,
    "walk.on_decides_you": _facts,
    "walk.idle": lambda about, said: about.told.snapshot.values.usage[about.told.at(about.level.path)] == 0,
    "walk.dissolved": lambda about, said: about.told.snapshot.tree.inherit[about.told.at(about.level.path)],
    "ahead.alone": lambda about, said: about.level.target is None or not about.told.competitors(about.level.path),
    "ahead.some": _some_ahead,
    "ahead.nobody": _some_ahead,
    "ahead.factor": _higher_factor,
    "ahead.factor_highest": _higher_factor,
    "ahead.equal": _equal,
    "ahead.rounded": _rounded,
    "effect.lowers": lambda about, said: _changes(about, said, -1),
    "effect.raises": lambda about, said: _changes(about, said, 1),
    "effect.same": lambda about, said: about.told.factor(about.level.path) == said["factor"],
    "effect.no_shares": lambda about, said: about.told.factor(about.level.path) == said["factor"] == 0,
    "effect.no_shares_above": lambda about, said: about.told.factor(about.level.path) == said["factor"] == 0,
    "effect.bent": lambda about, said: (said["own_ratio"] - 1) * (said["above"] - 1) <= 0 <= said["k"] < 1,
    "reason.you": lambda about, said: _is_over(about, said) and about.ahead_elsewhere(),
    "reason.group": lambda about, said: _is_over(about, said) and about.ahead_elsewhere(),
    "reason.you_less": lambda about, said: _facts(about, said) and about.ahead_elsewhere(),
    "reason.group_less": lambda about, said: _facts(about, said) and about.ahead_elsewhere(),
    "reason.you_under": lambda about, said: _is_under(about, said) and _first(about, said),
    "reason.group_under": lambda about, said: _is_under(about, said) and _first(about, said),
    "reason.you_first": lambda about, said: _facts(about, said) and _first(about, said),
    "reason.group_first": lambda about, said: _facts(about, said) and _first(about, said),
    "reason.you_listed": lambda about, said: about.ahead_elsewhere(),
    "reason.group_listed": lambda about, said: about.ahead_elsewhere(),
    "reason.ended": lambda about, said: about.ahead_elsewhere() and about.is_leaf(),
    "reason.no_own_shares": lambda about, said: (
        bool(about.ahead()) and about.told.snapshot.tree.inherit[about.told.at(about.leaf)]
    ),
    "reason.no_level": lambda about, said: about.told.snapshot.tree.inherit[about.told.at(about.leaf)],
    "reason.alone": lambda about, said: len(about.told.leaves) == 1,
    "reason.equal": lambda about, said: len({about.told.rank(each) for each in about.told.leaves}) == 1,
    "reason.factor_same": lambda about, said: (
        about.told.factor(about.leaf) == pytest.approx(2 ** (-1 / about.mine.settings["damping_factor"]))
    ),
    "factor.you_lowers": lambda about, said: _most_change(about, said, -1),
    "factor.group_lowers": lambda about, said: _most_change(about, said, -1),
    "factor.you_raises": lambda about, said: _most_change(about, said, 1),
    "factor.group_raises": lambda about, said: _most_change(about, said, 1),
    "factor.you_no_shares": lambda about, said: about.told.factor(about.leaf) == 0,
    "factor.group_no_shares": lambda about, said: about.told.factor(about.leaf) == 0,
    "when.first": _first,
    "when.front": lambda about, said: said["n"] == len(about.ahead()),
    "when.equal": lambda about, said: (
        not about.mine.levels_decide or not any(step.state == "over" and step.n_ahead for step in about.mine.walk)
    ),
    "when.unknown": lambda about, said: (
        about.level.state == "over" and bool(about.ahead())
    ),  # these worlds have no days
    "when.no_shares": lambda about, said: about.level.target == 0 or about.told.factor(about.leaf) == 0,
    "when.not_over": lambda about, said: about.level.state != "over",
    "when.you_not_over": lambda about, said: about.mine.walk[-1].state != "over",
    "change.nothing": lambda about, said: 10 * len(about.ahead()) <= len(about.told.leaves) - 1,
    "change.group": lambda about, said: about.level.state == "over" and bool(about.ahead()),
    "change.own_use": lambda about, said: about.mine.walk[-1].state == "over",
    "change.nothing_ran": lambda about, said: about.told.snapshot.values.usage[about.told.at(about.leaf)] == 0,
    "change.shares": lambda about, said: about.level.target == 0 or about.told.factor(about.leaf) == 0,
    "change.others": lambda about, said: about.ahead_elsewhere() and about.mine.walk[-1].state != "over",
    "change.every_job": lambda about, said: about.mine.walk[-1].state != "over",
    "own.over": lambda about, said: (about.mine.walk[-1].deviation_points or 0) > 0,
    "own.over_alone": lambda about, said: (about.mine.walk[-1].deviation_points or 0) > 0,
    "own.under": lambda about, said: (about.mine.walk[-1].deviation_points or 0) < 0,
    "own.on": lambda about, said: about.mine.walk[-1].state == "on",
    "own.idle": lambda about, said: about.told.snapshot.values.usage[about.told.at(about.leaf)] == 0,
}
_PLACES = ("verdict.", "number.", "rank.")


def check(about: About, said: Message) -> None:
    """The claim of one sentence; a key without one is refused."""
    key = said.key
    if key.startswith(_PLACES):
        assert _place(about, dict(said.values)), said
        return
    for suffix in ("_yours", "_you"):
        if key not in CLAIMS:
            key = key.removesuffix(suffix)
    assert key in CLAIMS, f"{said.key} claims something that isn't checked"
    assert CLAIMS[key](about, dict(said.values)), (said.key, dict(said.values), about.leaf, about.told.lines)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=IDS)
@examples(30, fixed=5)
@given(world=worlds())
def test_no_sentence_is_contradicted_by_the_ranks(algorithm: dict[str, Any], world: Any) -> None:
    root, usage = world
    snapshot = snapshot_of(root, usage, algorithm)
    if snapshot is None:
        return
    told = Told(snapshot)
    for leaf in told.leaves:
        mine = told.mine(leaf)
        story = told.story(mine)
        for said in (*story.summary, *story.when, *story.changes, *([story.number] if story.number else [])):
            check(About(told, mine), said)
        for level in story.levels:
            for said in (*level.messages, *level_messages(level.step, decides=level.decides)):
                check(About(told, mine, level.step), said)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=IDS)
@examples(20, fixed=4)
@given(world=worlds())
def test_reasons_for_the_order_are_true(algorithm: dict[str, Any], world: Any) -> None:
    root, usage = world
    snapshot = snapshot_of(root, usage, algorithm)
    if snapshot is None:
        return
    told = Told(snapshot)
    for other in told.leaves[1:]:
        found = told.contrast(told.leaves[0], other)
        first, second = (told.leaves[0], other) if found.found.ahead != told.at(other) else (other, told.leaves[0])
        steps = [None if step is None else told.at(step.path) for step in (found.ahead_step, found.behind_step)]
        for said in found.sentences:
            _check_contrast(told, (first, second), steps, said, found.found.decided_by)


def _check_contrast(
    told: Told, sides: tuple[str, str], steps: list[int | None], said: Message, decided_by: str
) -> None:
    values, order, numbers = told.snapshot.values, told.snapshot.order, dict(said.values)
    ranks = [told.rank(side) for side in sides]
    component = order.components(values)
    if said.key == "contrast.ahead":
        assert ranks == [numbers["rank"], numbers["other_rank"]]
        assert ranks[0] < ranks[1]
    elif said.key in ("contrast.tie", "contrast.rounded_tie"):
        assert ranks[0] == ranks[1]
    elif said.key == "contrast.level":
        assert steps[0] is not None
        assert steps[1] is not None
        assert component[steps[0]] > component[steps[1]]
        one, other = (told.snapshot.tree.path(step) for step in steps if step is not None)
        if other in told.competitors(one):
            assert told.all_before(one, other)
    elif said.key == "contrast.ended":
        assert order.decides != "ranks"
    elif said.key == "contrast.sibling_order":
        assert steps[0] is not None
        assert steps[1] is not None
        assert bool(order.ties(component[[steps[0]]], component[steps[1]])[0])
    elif said.key == "contrast.factors":
        assert [numbers["factor"], numbers["other_factor"]] == [told.factor(side) for side in sides]
        assert numbers["factor"] > numbers["other_factor"]
    elif said.key == "contrast.rounded":
        assert numbers["priority"] != pytest.approx(numbers["other_priority"], abs=1e-9)
        assert numbers["part"] in values.scalar
    else:
        facts = ("contrast.whole_path", "contrast.one_number", "contrast.own_order")
        assert said.key.startswith(("turn.", "contrast.one.")) or said.key in facts, f"{said.key} isn't checked"


@pytest.mark.parametrize("name", ["slurm-classic", "slurm-depth-oblivious"])
@examples(20, fixed=4)
@given(world=worlds())
def test_the_factor_at_target_equals_a_recompute(name: str, world: Any) -> None:
    root, usage = world
    snapshot = snapshot_of(root, usage, {"name": name})
    assert snapshot is not None
    told = Told(snapshot)
    for leaf in told.leaves:
        for step in told.mine(leaf).walk:
            for said in told.at_target(leaf, step.path):
                own, whole = _usage_in_group(told, step.path)
                assert step.target is not None
                wanted = step.target * (whole - own) / (1 - step.target)
                below = {
                    path: used * wanted / own for path, used in usage.items() if f"{path}/".startswith(f"{step.path}/")
                }
                again = snapshot_of(root, {**usage, **below}, {"name": name})
                assert again is not None
                assert said.values["other_factor"] == told.factor(leaf)
                assert said.values["factor"] == pytest.approx(Told(again).factor(leaf), rel=1e-9)


def _usage_in_group(told: Told, path: str) -> tuple[float, float]:
    values = told.snapshot.values
    others = [told.at(each) for each in told.competitors(path)]
    own = float(values.usage[told.at(path)])
    return own, own + float(np.sum(values.usage[others]))


def test_every_algorithm_is_checked() -> None:
    assert {one["name"] for one in ALGORITHMS} == set(all_algorithms())
