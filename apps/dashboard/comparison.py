"""Algorithms side by side, in words: which can be chosen, who moves, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.dashboard import lines, presentation
from apps.dashboard.algorithm_words import label_of
from apps.engine.algorithms import all_algorithms
from apps.engine.operators import all_operators
from apps.priorities.selectors.comparison import ComparedLeaf, Comparison, Standing

IN_FORCE = "in-force"
DEFAULTS = (IN_FORCE, "slurm-fair-tree", "slurm-classic")


@dataclass(frozen=True, slots=True)
class Option:
    """One algorithm that may stand in a column; `key` is its name in the address."""

    key: str
    label: str


@dataclass(frozen=True, slots=True)
class Column:
    """The head of one column."""

    key: str
    label: str
    note: str
    refused: str


@dataclass(frozen=True, slots=True)
class Cell:
    """Rank, factor, and the way from the first column."""

    rank: str
    factor: str
    moved: str
    words: str


@dataclass(frozen=True, slots=True)
class Row:
    leaf: ComparedLeaf
    url: str
    cells: Sequence[Cell]


def options(current: Mapping[str, Any]) -> list[Option]:
    """In force first; then every algorithm with its defaults, and those with operators once for each."""
    found = [Option(IN_FORCE, _("In force: %(name)s") % {"name": label_of(current)})]
    for name, algorithm in all_algorithms().items():
        if any(parameter.name == "operator" for parameter in algorithm.parameters):
            for operator in all_operators():
                settings = {"name": name, "operator": operator.name}
                found.append(Option(f"{name}:{operator.name}", label_of(settings)))
        else:
            found.append(Option(name, label_of({"name": name})))
    return found


def read_key(key: str) -> dict[str, Any]:
    """What a name in the address stands for; {} is what is in force."""
    if key == IN_FORCE:
        return {}
    name, _colon, operator = key.partition(":")
    return {"name": name, "operator": operator} if operator else {"name": name}


def columns(comparison: Comparison, keys: Sequence[str]) -> list[Column]:
    found = []
    for key, side in zip(keys, comparison.sides, strict=True):
        note = ngettext("ranks %(n)s leaf", "ranks %(n)s leaves", side.n_ranked) % {
            "n": presentation.count(side.n_ranked)
        }
        if key == IN_FORCE:
            note = _("in force") + ", " + note
        found.append(Column(key, label_of(side.algorithm), "" if side.refused else note, side.refused))
    return found


def rows(comparison: Comparison) -> list[Row]:
    return [
        Row(
            leaf,
            lines.entry_url(comparison.policy_slug, leaf.uid, leaf.name),
            [_cell(standing, is_first=at == 0) for at, standing in enumerate(leaf.standings)],
        )
        for leaf in comparison.leaves
    ]


def _cell(standing: Standing, *, is_first: bool) -> Cell:
    rank = presentation.UNKNOWN if standing.rank is None else presentation.count(standing.rank)
    moved, words = "", ""
    if not is_first and standing.moved:
        n, sign = abs(standing.moved), "+" if standing.moved > 0 else presentation.MINUS
        moved = f"{sign}{presentation.count(n)}"
        words = _("%(places)s sooner") if standing.moved > 0 else _("%(places)s later")
        words = words % {"places": places(n)}
    return Cell(rank, presentation.factor(standing.factor), moved, words)


def verdict(comparison: Comparison) -> str:
    """How much it matters which algorithm is chosen."""
    if comparison.as_of is None:
        return _("No usage yet: nothing to compare")
    usable = [side for side in comparison.sides if not side.refused]
    if len(usable) < 2:
        return _("Choose two algorithms that fit this tree")
    if not comparison.n_moved:
        return _("The choice changes nobody’s rank")
    return ngettext(
        "The choice moves %(moved)s of %(all)s leaf",
        "The choice moves %(moved)s of %(all)s leaves",
        comparison.n_leaves,
    ) % {"moved": presentation.count(comparison.n_moved), "all": presentation.count(comparison.n_leaves)}


def furthest(comparison: Comparison) -> str:
    """Who gains and who loses most against the first column, of those that are shown."""
    sentences = []
    for at, side in enumerate(comparison.sides[1:], start=1):
        moves = [(leaf.standings[at].moved or 0, leaf) for leaf in comparison.leaves]
        gain, loss = max(moves, key=_by_move, default=None), min(moves, key=_by_move, default=None)
        parts = []
        if gain and gain[0] > 0:
            parts.append(_("%(name)s comes %(places)s sooner") % {"name": gain[1].name, "places": places(gain[0])})
        if loss and loss[0] < 0:
            parts.append(_("%(name)s comes %(places)s later") % {"name": loss[1].name, "places": places(-loss[0])})
        if parts:
            text = _("Under %(label)s, %(what)s.")
            sentences.append(text % {"label": label_of(side.algorithm), "what": _(" and ").join(parts)})
    return " ".join(sentences)


def places(n: int) -> str:
    return ngettext("%(n)s place", "%(n)s places", n) % {"n": presentation.count(n)}


def _by_move(pair: tuple[int, ComparedLeaf]) -> int:
    return pair[0]
