"""No sentence about a priority is contradicted by `/priorities/all`, whatever the tree and the algorithm are.

What a sentence claims is read from its key and its values, never from its words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given

from apps.engine.algorithms import all_algorithms
from apps.explain.my_priority import MyPriority
from apps.explain.path import WalkStep, level_messages
from apps.priorities.sentences import Message
from tests.each_case import each_case
from tests.examples import examples
from tests.explain.sentence_world import SentenceWorld, snapshot_of, worlds

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
    """What a sentence is about: a leaf, and (for one about a level) the entry of the level."""

    world: SentenceWorld
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
        return [each for each in self.world.leaves if self.world.rank(each) < self.world.rank(self.leaf)]

    def behind(self) -> list[str]:
        return [each for each in self.world.leaves if self.world.rank(each) > self.world.rank(self.leaf)]

    def ahead_elsewhere(self) -> bool:
        """Is a leaf ahead that isn't below the entry of this level?"""
        return bool(set(self.ahead()) - set(self.world.below(self.level.path)))

    def is_leaf(self) -> bool:
        return self.level.path in self.world.leaves


Claim = Callable[[About, dict[str, Any]], Any]


def _facts(about: About, found: dict[str, Any]) -> bool:
    """Target and actual are those of the entry that is named."""
    values, i = about.world.snapshot.values, about.world.at(about.level.path)
    named = found.get("name", about.level.name) == about.level.name
    return (
        named
        and all(
            found[key] is None or found[key] == pytest.approx(float(column[i]))
            for key, column in (("target", values.target), ("actual", values.actual))
            if key in found
        )
        and found.get("points", 0.0)
        == pytest.approx(abs(float(values.actual[i] - values.target[i])) * 100 * ("points" in found))
    )


def _is_over(about: About, found: dict[str, Any]) -> bool:
    return _facts(about, found) and bool(found["actual"] > found["target"])


def _is_under(about: About, found: dict[str, Any]) -> bool:
    return _facts(about, found) and bool(found["actual"] < found["target"])


def _state_is(about: About, state: str) -> bool:
    actual, target = about.level.actual or 0.0, about.level.target or 0.0
    slack = max(0.1 * target, 0.005) * (1 + 1e-9)
    within = abs(actual - target) <= slack
    if state == "on":
        return within
    return actual > target if state == "over" else actual < target


def _siblings_are(about: About, found: dict[str, Any], side: list[str]) -> bool:
    """n of m siblings have leaves on this side; no more than n, as leaves of equal ones part further below."""
    if "siblings" not in found:
        return True
    others = about.world.competitors(about.level.path)
    having = [each for each in others if set(about.world.below(each)) & set(side)]
    return bool(0 < found["siblings"] <= len(having) and found["n_siblings"] == len(others))


def _all_used(about: About, sign: int) -> bool:
    """As many siblings as are counted used more (or less) of their target than the level's entry."""
    values, own = about.world.snapshot.values, about.world.at(about.level.path)
    parted = about.level.siblings_behind if sign > 0 else about.level.siblings_ahead
    others = [about.world.at(each) for each in about.world.competitors(about.level.path)]
    ratios = [values.actual[i] / values.target[i] for i in others if values.target[i] > 0]
    ratio = values.actual[own] / values.target[own]
    return parted is not None and 0 < parted.n <= sum((each - ratio) * sign > 0 for each in ratios)


def _behind_at(state: str) -> Claim:
    """A good rank by a level in this state, at which n leaves that are behind part from the path."""

    def claim(about: About, found: dict[str, Any]) -> bool:
        n, standing = found["n"], about.mine.standing
        assert standing is not None
        is_one = standing.is_good and 0 < n <= len(about.behind()) and n == about.level.leaves_behind
        return (
            _facts(about, found) and _state_is(about, state) and is_one and _siblings_are(about, found, about.behind())
        )

    return claim


def _ahead_at(state: str) -> Claim:
    def claim(about: About, found: dict[str, Any]) -> bool:
        n, standing = found["n"], about.mine.standing
        assert standing is not None
        is_one = not standing.is_good and 0 < n <= len(about.ahead()) and n == about.level.leaves_ahead
        is_true = _facts(about, found) and _state_is(about, state) and _siblings_are(about, found, about.ahead())
        return is_true and is_one and about.ahead_elsewhere()

    return claim


def _some_ahead(about: About, result: dict[str, Any]) -> bool:
    """n of m: at most as many as have all their leaves ahead of all below the entry, and none of the others has."""
    found, path, others = about.world, about.level.path, about.world.competitors(about.level.path)
    if about.is_leaf():
        definite = [each for each in others if found.all_before(each, path)]
    else:
        definite = [each for each in others if found.all_before(each, path) or not found.below(path)]
    vague = [each for each in others if not found.below(each)]
    n = result.get("n_ahead", 0)
    return (
        len(definite) - about.level.n_equal <= n <= len(definite) + len(vague) and len(others) == about.level.n_siblings
    )


def _higher_factor(about: About, result: dict[str, Any]) -> bool:
    found, path = about.world, about.level.path
    higher = [each for each in found.competitors(path) if found.factor(each) > found.factor(path)]
    clearly = [each for each in higher if found.factor(each) > found.factor(path) * (1 + 1e-9)]
    n = int(result["n_ahead"])
    return len(clearly) <= n <= len(higher) and result["n_siblings"] == len(found.competitors(path))


def _equal(about: About, result: dict[str, Any]) -> bool:
    """Leaves beside a leaf that are called equal share its rank, and all that share it are."""
    found, path = about.world, about.level.path
    if not about.is_leaf():
        return 0 < int(result["n"]) <= len(found.competitors(path))
    same = [each for each in found.competitors(path) if each in found.leaves and found.rank(each) == found.rank(path)]
    groups = [each for each in found.competitors(path) if each not in found.leaves]
    return len(same) <= int(result["n"]) <= len(same) + len(groups)


def _rounded(about: About, found: dict[str, Any]) -> bool:
    """As many siblings as have another priority and an equal whole number."""
    values, own = about.world.snapshot.values, about.world.at(about.level.path)
    others = [about.world.at(each) for each in about.world.competitors(about.level.path)]
    same = [i for i in others if values.scalar[i] == values.scalar[own]]
    return int(found["n"]) == len([i for i in same if abs(values.priority[i] - values.priority[own]) > 1e-9])


def _changes(about: About, result: dict[str, Any], sign: int) -> bool:
    """From the factor of the level above to that of this one."""
    found, chain = about.world, [step for step in about.mine.walk if step.target is not None]
    at = chain.index(about.level)
    damping = about.mine.settings.get("damping_factor", 1)
    above = 2.0 ** (-1 / damping) if at == 0 else found.factor(chain[at - 1].path)
    known = result["other_factor"] == pytest.approx(above) and result["factor"] == found.factor(about.level.path)
    return bool(known and (result["factor"] - result["other_factor"]) * sign >= 0)


def _most_change(about: About, found: dict[str, Any], sign: int) -> bool:
    """Of all levels the one with the largest change of log2 of the factor, up for a good rank and else down."""
    damping = about.mine.settings.get("damping_factor", 1)
    logs, sizes = [-1 / damping], {}
    for step in about.mine.walk:
        if step.target is not None:
            factor = about.world.factor(step.path)
            logs.append(math.log2(factor) if factor > 0 else -2000.0)
            sizes[step.path] = (logs[-1] - logs[-2]) * sign
    largest = sizes[about.level.path] >= max(sizes.values()) * (1 - 1e-6) or min(logs) == -2000.0
    is_that_way = about.mine.standing is not None and about.mine.standing.is_good == (sign > 0)
    return _facts(about, found) and _changes(about, found, sign) and largest and is_that_way


def _place(about: About, found: dict[str, Any]) -> bool:
    line = about.world.lines[about.leaf]
    return all(found[key] == line[key] for key in ("rank", "of", "factor") if key in found)


def _is_equal_at_best(about: About) -> bool:
    """No entry with leaves beside the level's has a higher component: ranks differ there by another rule."""
    found, order = about.world, about.world.snapshot.order
    component = order.components(found.snapshot.values)
    beside = [found.at(other) for other in found.competitors(about.level.path) if found.below(other)]
    return not order.ahead(component[beside], component[found.at(about.level.path)]).any()


def _listed(about: About, values: dict[str, Any]) -> bool:
    named = values["parent"] == about.level.parent_name and values.get("name", about.level.name) == about.level.name
    return named and about.ahead_elsewhere() and _is_equal_at_best(about)


def _is_behind_inherited(about: About) -> bool:
    """Has some leaf ahead, or an entry above it, the shares of its parent?"""
    tree = about.world.snapshot.tree
    return any(
        any(tree.inherit[i] for i in [*tree.ancestors(about.world.at(leaf)), about.world.at(leaf)])
        for leaf in about.ahead()
    )


def _entry(number: int, shares: Any, *children: dict[str, Any], kind: str = "group") -> dict[str, Any]:
    inside = {"children": list(children)} if kind == "group" else {}
    uid = f"00000000-0000-4000-8000-{number:012}"
    return {"name": f"e{number}", "shares": shares, "kind": kind, "uid": uid, **inside}


def _tree(*children: dict[str, Any]) -> dict[str, Any]:
    return {"name": "grid", "shares": 1, "children": list(children), "uid": "00000000-0000-4000-8000-999999999999"}


FOUND = [
    # e4 ends at the level of e1, which is equal to it: below, e2 is over its target and e4 counts as on target
    (
        _tree(
            _entry(1, 1, _entry(2, 0, kind="user")),
            _entry(3, 0),
            _entry(4, 1, kind="user"),
            _entry(5, 0),
            _entry(6, 1),
        ),
        {"/e4": 1, "/e1/e2": 1},
    ),
    # Fair Tree takes e3 first, which is at no level
    (
        _tree(_entry(1, 0, _entry(2, "parent", kind="user")), _entry(3, "parent", kind="user")),
        {"/e3": 0, "/e1/e2": 0},
    ),
    # e4 is ahead of e2 by shares, though below an entry that is equal to e1
    (
        _tree(_entry(1, 1, _entry(2, 0, kind="user")), _entry(3, 1, _entry(4, 1, kind="user"))),
        {"/e1/e2": 0, "/e3/e4": 0},
    ),
    # one leaf is ahead of e2 by list order (e6), one by shares (e4)
    (
        _tree(
            _entry(1, 0, _entry(2, 0, kind="user"), _entry(3, 1, _entry(4, 0, kind="user"))), _entry(6, 0, kind="user")
        ),
        {"/e6": 0, "/e1/e2": 1, "/e1/e3/e4": 0},
    ),
    # after an account without users that is equal to e2, Slurm gives e8 the rank of e3 and e4
    (
        _tree(
            _entry(1, 0),
            _entry(2, 0, _entry(8, 0, kind="user")),
            _entry(3, 1, kind="user"),
            _entry(4, 1, kind="user"),
            *(_entry(number, 1) for number in (5, 6, 7)),
        ),
        {"/e3": 0, "/e4": 0, "/e2/e8": 0},
    ),
    # e5 counts at e1, and e7, which is ahead of it, is below e1: not below a sibling of e1
    (
        _tree(
            _entry(8, 1, kind="user"),
            _entry(1, 0, _entry(5, "parent", kind="user"), _entry(7, 1, kind="user")),
            *(_entry(number, 0) for number in (2, 3, 4, 6)),
        ),
        {"/e8": 0, "/e1/e5": 0, "/e1/e7": 0},
    ),
    # e5 counts at e2 and parts from its colleague e4 there: one of three siblings is ahead, not e2 itself, too
    (
        _tree(
            _entry(6, 1, kind="user"),
            _entry(1, 0),
            _entry(2, 0, _entry(4, 1, kind="user"), _entry(5, "parent", kind="user")),
            _entry(3, 0),
        ),
        {"/e6": 0, "/e2/e4": 0, "/e2/e5": 0},
    ),
]

CLAIMS: dict[str, Claim] = {
    "walk.over": _is_over,
    "walk.over_you": _is_over,
    "walk.under": _is_under,
    "walk.under_you": _is_under,
    "on.tolerance": lambda about, values: values["low"] <= values["actual"] <= values["high"],
    "walk.on": _facts,
    "walk.on_you": _facts,
    "walk.on_decides": _facts,
    "walk.on_decides_you": _facts,
    "walk.idle": lambda about, values: about.world.snapshot.values.usage[about.world.at(about.level.path)] == 0,
    "walk.dissolved": lambda about, values: about.world.snapshot.tree.inherit[about.world.at(about.level.path)],
    "ahead.alone": lambda about, values: about.level.target is None or not about.world.competitors(about.level.path),
    "ahead.some": _some_ahead,
    "ahead.nobody": _some_ahead,
    "ahead.part": lambda about, values: bool(about.ahead()) and about.level.n_ahead == 0,
    "ahead.factor": _higher_factor,
    "ahead.factor_highest": _higher_factor,
    "ahead.equal": _equal,
    "ahead.rounded": _rounded,
    "effect.lowers": lambda about, values: _changes(about, values, -1),
    "effect.raises": lambda about, values: _changes(about, values, 1),
    "effect.same": lambda about, values: about.world.factor(about.level.path) == values["factor"],
    "effect.no_shares": lambda about, values: about.world.factor(about.level.path) == values["factor"] == 0,
    "effect.no_shares_above": lambda about, values: about.world.factor(about.level.path) == values["factor"] == 0,
    "effect.adds": lambda about, values: about.mine.algorithm == "slurm-classic",
    "effect.bent": lambda about, values: (values["own_ratio"] - 1) * (values["above"] - 1) <= 0 <= values["k"] < 1,
    "reason.used_less": lambda about, values: _all_used(about, -1),
    "reason.used_more": lambda about, values: _all_used(about, 1),
    **{f"reason.{whom}_good_under": _behind_at("under") for whom in ("you", "group")},
    **{f"reason.{whom}_good_on": _behind_at("on") for whom in ("you", "group")},
    **{f"reason.{whom}_good_over": _behind_at("over") for whom in ("you", "group")},
    **{f"reason.{whom}_bad_under": _ahead_at("under") for whom in ("you", "group")},
    **{f"reason.{whom}_bad_on": _ahead_at("on") for whom in ("you", "group")},
    **{f"reason.{whom}_bad_over": _ahead_at("over") for whom in ("you", "group")},
    "reason.good_rule": lambda about, values: 0 < values["n"] <= len(about.behind()),
    "reason.tied": lambda about, values: values["n"] == len(about.ahead()) and not about.behind(),
    "reason.factor_less": lambda about, values: values["n"] == len(about.behind()),
    "reason.factor_more": lambda about, values: values["n"] == len(about.ahead()),
    "reason.you_listed": lambda about, values: _listed(about, values) and about.is_leaf(),
    "reason.group_listed": _listed,
    "reason.inherited": lambda about, values: _is_behind_inherited(about),
    "reason.you_ended": lambda about, values: _listed(about, values) and about.is_leaf(),
    "reason.group_ended": lambda about, values: _listed(about, values) and not about.is_leaf(),
    "reason.no_own_shares": lambda about, values: (
        bool(about.ahead()) and about.world.snapshot.tree.inherit[about.world.at(about.leaf)]
    ),
    "reason.no_level": lambda about, values: about.world.snapshot.tree.inherit[about.world.at(about.leaf)],
    "reason.alone": lambda about, values: len(about.world.leaves) == 1,
    "reason.equal": lambda about, values: len({about.world.rank(each) for each in about.world.leaves}) == 1,
    "reason.factor_same": lambda about, values: (
        about.world.factor(about.leaf) == pytest.approx(2 ** (-1 / about.mine.settings["damping_factor"]))
    ),
    "factor.you_lowers": lambda about, values: _most_change(about, values, -1),
    "factor.group_lowers": lambda about, values: _most_change(about, values, -1),
    "factor.you_raises": lambda about, values: _most_change(about, values, 1),
    "factor.group_raises": lambda about, values: _most_change(about, values, 1),
    "factor.you_no_shares": lambda about, values: about.world.factor(about.leaf) == 0,
    "factor.group_no_shares": lambda about, values: about.world.factor(about.leaf) == 0,
    "when.now": lambda about, values: about.mine.standing is not None and about.mine.standing.is_good,
    "when.equal": lambda about, values: (
        not about.mine.levels_decide or about.mine.deciding is None or _is_equal_at_best(about)
    ),
    "when.inherited": lambda about, values: _is_behind_inherited(about),
    "when.unknown": lambda about, values: (
        about.level.state == "over" and bool(about.ahead())
    ),  # these worlds have no days
    "when.no_shares": lambda about, values: about.level.target == 0 or about.world.factor(about.leaf) == 0,
    "when.not_over": lambda about, values: about.level.state != "over",
    "change.nothing": lambda about, values: len(about.ahead()) <= 2 * len(about.world.leaves) / 3,
    "change.group": lambda about, values: about.level.state == "over" and bool(about.ahead()),
    "change.own_use": lambda about, values: about.mine.walk[-1].state == "over",
    "change.shares": lambda about, values: about.level.target == 0 or about.world.factor(about.leaf) == 0,
    "change.nothing_yourself": lambda about, values: bool(about.ahead()) and about.mine.walk[-1].state != "over",
}
_PLACES = ("verdict.", "number.", "rank.")


def check(about: About, found: Message) -> None:
    """The claim of one sentence; a key without one is refused."""
    key = found.key
    if key.startswith(_PLACES):
        assert _place(about, dict(found.values)), found
        return
    key = key.replace("_of_", "_").removesuffix("_decays")
    for suffix in ("_yours", "_you"):
        if key not in CLAIMS:
            key = key.removesuffix(suffix)
    assert key in CLAIMS, f"{found.key} claims something that isn't checked"
    assert CLAIMS[key](about, dict(found.values)), (found.key, dict(found.values), about.leaf, about.world.lines)


@each_case("algorithm", ALGORITHMS, ids=IDS)
@each_case("world", FOUND)
def test_no_sentence_about_a_found_world_is_contradicted(algorithm: dict[str, Any], world: Any) -> None:
    check_all(algorithm, world)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=IDS)
@examples(30, fixed=5)
@given(world=worlds())
@pytest.mark.paper("F4")
def test_no_sentence_is_contradicted_by_the_ranks(algorithm: dict[str, Any], world: Any) -> None:
    check_all(algorithm, world)


def check_all(algorithm: dict[str, Any], world: Any) -> None:
    """Every sentence about every leaf; and the leaves ahead and behind by level add up to those of the rank."""
    root, usage = world
    snapshot = snapshot_of(root, usage, algorithm)
    if snapshot is None:
        return
    found = SentenceWorld(snapshot)
    for leaf in found.leaves:
        mine = found.mine(leaf)
        story = found.story(mine)
        if mine.levels_decide and any(step.target is not None for step in mine.walk):
            assert mine.standing is not None
            assert sum(step.leaves_ahead or 0 for step in mine.walk) == mine.standing.n_ahead
            assert sum(step.leaves_behind or 0 for step in mine.walk) == mine.standing.n_behind
        for result in (
            *story.summary,
            *story.verdict.when,
            *story.verdict.changes,
            *([story.number] if story.number else []),
        ):
            check(About(found, mine), result)
        for level in story.levels:
            for result in (*level.messages, *level_messages(level.step, decides=level.decides)):
                check(About(found, mine, level.step), result)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=IDS)
@examples(20, fixed=4)
@given(world=worlds())
def test_reasons_for_the_order_are_true(algorithm: dict[str, Any], world: Any) -> None:
    root, usage = world
    snapshot = snapshot_of(root, usage, algorithm)
    if snapshot is None:
        return
    result = SentenceWorld(snapshot)
    for other in result.leaves[1:]:
        found = result.contrast(result.leaves[0], other)
        first, second = (
            (result.leaves[0], other) if found.difference.ahead != result.at(other) else (other, result.leaves[0])
        )
        steps = [None if step is None else result.at(step.path) for step in (found.ahead_step, found.behind_step)]
        for shown in found.sentences:
            _check_contrast(result, (first, second), steps, shown, found.difference.decided_by)


def _check_contrast(
    found: SentenceWorld, sides: tuple[str, str], steps: list[int | None], result: Message, decided_by: str
) -> None:
    values, order, numbers = found.snapshot.values, found.snapshot.order, dict(result.values)
    ranks = [found.rank(side) for side in sides]
    component = order.components(values)
    if result.key == "contrast.ahead":
        assert ranks == [numbers["rank"], numbers["other_rank"]]
        assert ranks[0] < ranks[1]
    elif result.key in ("contrast.tie", "contrast.rounded_tie"):
        assert ranks[0] == ranks[1]
    elif result.key == "contrast.level":
        assert steps[0] is not None
        assert steps[1] is not None
        assert component[steps[0]] > component[steps[1]]
        one, other = (found.snapshot.tree.path(step) for step in steps if step is not None)
        if other in found.competitors(one):
            assert found.all_before(one, other)
    elif result.key == "contrast.ended":
        assert order.decides != "ranks"
    elif result.key == "contrast.sibling_order":
        assert steps[0] is not None
        assert steps[1] is not None
        assert bool(order.ties(component[[steps[0]]], component[steps[1]])[0])
    elif result.key == "contrast.factors":
        assert [numbers["factor"], numbers["other_factor"]] == [found.factor(side) for side in sides]
        assert numbers["factor"] > numbers["other_factor"]
    elif result.key == "contrast.rounded":
        assert numbers["priority"] != pytest.approx(numbers["other_priority"], abs=1e-9)
        assert numbers["part"] in values.scalar
    else:
        facts = ("contrast.whole_path", "contrast.one_number", "contrast.own_order")
        assert result.key.startswith(("turn.", "contrast.one.")) or result.key in facts, f"{result.key} isn't checked"


def test_every_algorithm_is_checked() -> None:
    assert {one["name"] for one in ALGORITHMS} == set(all_algorithms())
