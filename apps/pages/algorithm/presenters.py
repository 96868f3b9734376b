"""The effect of another algorithm as texts: who would move, and how many each choice would move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.engine.algorithms import all_algorithms
from apps.engine.operators import all_operators
from apps.pages.algorithm.comparison import AlgorithmSide, ComparedLeaf, Comparison, CountedMoves
from apps.priorities.sentences import numbers
from apps.web.shell import lines
from apps.web.texts.algorithm_text import label_of


@dataclass(frozen=True, slots=True)
class Mover:
    """A leaf with its rank before and after. moved: such as +12; phrase: the same for screen readers."""

    leaf: ComparedLeaf
    url: str
    before: str
    after: str
    direction: str
    moved: str
    phrase: str


@dataclass(frozen=True, slots=True)
class TriedChoice:
    """One choice beside the policy's own algorithm. moves: how many ranks it would change, "" if not counted."""

    label: str
    url: str
    moves: str
    refused: str


def other_choices(current: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Settings of every algorithm with its defaults, one for each operator, without the policy's own."""
    choices: list[dict[str, Any]] = []
    for name, algorithm in all_algorithms().items():
        if any(parameter.name == "operator" for parameter in algorithm.parameters):
            choices += [{"name": name, "operator": operator.name} for operator in all_operators()]
        else:
            choices.append({"name": name})
    own = {key: current.get(key) for key in ("name", "operator") if current.get(key)}
    return [choice for choice in choices if choice != own]


def choice_query(settings: Mapping[str, Any]) -> str:
    """Of the address of the page on which these settings are filled in."""
    return urlencode({"algorithm" if name == "name" else name: value for name, value in settings.items()})


def tried_choices(choices: Sequence[Mapping[str, Any]], counted: Sequence[CountedMoves]) -> list[TriedChoice]:
    return [
        TriedChoice(
            label_of(choice),
            f"?{choice_query(choice)}",
            "" if count.n_moved is None else numbers.count(count.n_moved),
            count.refused,
        )
        for choice, count in zip(choices, counted, strict=True)
    ]


def movers(comparison: Comparison, most: int) -> list[Mover]:
    """The leaves of two algorithms whose rank differs, the furthest first."""
    moved = [leaf for leaf in comparison.leaves if leaf.spread or leaf.ranks[0].rank != leaf.ranks[1].rank]
    return [_mover(comparison.policy_slug, leaf) for leaf in moved[:most]]


def _mover(policy: str, leaf: ComparedLeaf) -> Mover:
    first, second = leaf.ranks[0], leaf.ranks[1]
    n = second.moved or 0
    phrase = _("no rank there")
    if n:
        phrase = (_("up %(places)s") if n > 0 else _("down %(places)s")) % {"places": places(abs(n))}
    return Mover(
        leaf,
        lines.entry_url(policy, leaf.uid, leaf.name),
        numbers.UNKNOWN if first.rank is None else numbers.count(first.rank),
        numbers.UNKNOWN if second.rank is None else numbers.count(second.rank),
        "up" if n > 0 else "down" if n < 0 else "",
        numbers.count(abs(n)) if n else "",
        phrase,
    )


def verdict(comparison: Comparison) -> str:
    """Sentence on how much the choice of the algorithm matters."""
    if comparison.as_of is None:
        return _("No usage yet: nothing to compare")
    if any(side.refused for side in comparison.sides):
        return _("This can’t be used here")
    if not comparison.n_moved:
        return _("No rank changes")
    return ngettext(
        "%(moved)s of %(all)s user would change rank",
        "%(moved)s of %(all)s users would change rank",
        comparison.n_leaves,
    ) % {"moved": numbers.count(comparison.n_moved), "all": numbers.count(comparison.n_leaves)}


def split_by_cause(side: AlgorithmSide) -> str:
    """Number of leaves whose rank differs from the first column, split by cause: operator or rounding; "" without."""
    if not side.n_moved or side.refused:
        return ""
    values = {"operator": numbers.count(side.n_by_operator), "rounding": numbers.count(side.n_by_rounding)}
    return _("%(operator)s by the algorithm, %(rounding)s by rounding.") % values


def places(n: int) -> str:
    return ngettext("%(n)s place", "%(n)s places", n) % {"n": numbers.count(n)}
