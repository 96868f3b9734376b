"""Algorithms side by side, in words: which can be chosen, who moves, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.analytics.comparison import MOST_ALGORITHMS, ComparedLeaf, Comparison, Side, Standing
from apps.dashboard.algorithm.forms import read_number
from apps.dashboard.algorithm.words import label_of
from apps.dashboard.shell import lines, presentation
from apps.engine.algorithms import all_algorithms
from apps.engine.operators import all_operators

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
    moves: str  # against the first column, the operator's part and that of rounding


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
    found = [Option(IN_FORCE, _("Active: %(name)s") % {"name": label_of(current)})]
    for name, algorithm in all_algorithms().items():
        if any(parameter.name == "operator" for parameter in algorithm.parameters):
            for operator in all_operators():
                settings = {"name": name, "operator": operator.name}
                found.append(Option(f"{name}:{operator.name}", label_of(settings)))
        else:
            found.append(Option(name, label_of({"name": name})))
    return found


@dataclass(frozen=True, slots=True)
class Place:
    """One column as the form asks for it: an algorithm, and of vectors the resolution and k, "" for the usual ones."""

    key: str
    resolution: str = ""
    k: str = ""

    @property
    def query(self) -> list[tuple[str, str]]:
        return [("with", self.key), ("resolution", self.resolution), ("k", self.k)]


def read_places(query: QueryDict) -> list[Place]:
    """`?with=&resolution=&k=`, each once for every column; the last two may be left out."""
    keys, resolutions, ks = (query.getlist(name) for name in ("with", "resolution", "k"))
    found = [
        Place(key, _at(resolutions, at), _at(ks, at)) if _has_operator(key) else Place(key)
        for at, key in enumerate(keys)
        if key
    ]
    return (list(dict.fromkeys(found)) or [Place(key) for key in DEFAULTS])[:MOST_ALGORITHMS]


def _at(values: Sequence[str], at: int) -> str:
    return values[at].strip()[:64] if at < len(values) else ""


def _has_operator(key: str) -> bool:
    return key == IN_FORCE or ":" in key


def settings_of(place: Place, current: Mapping[str, Any]) -> dict[str, Any]:
    """The algorithm that a column asks for; {} is the policy's own. What can't be read is refused by who computes."""
    name, _colon, operator = place.key.partition(":")
    if place.key == IN_FORCE:
        if not (place.resolution or place.k) or current.get("name") != "aequus":
            return {}
        found = dict(current)
    else:
        found = {"name": name, "operator": operator} if operator else {"name": name}
    if place.resolution:
        found["resolution"] = read_number(place.resolution)
    if place.k and found.get("operator") == "combined":
        found["k"] = read_number(place.k)
    return found


def columns(comparison: Comparison, places: Sequence[Place]) -> list[Column]:
    found = []
    for at, (place, side) in enumerate(zip(places, comparison.sides, strict=True)):
        note = ngettext("ranks %(n)s leaf", "ranks %(n)s leaves", side.n_ranked) % {
            "n": presentation.count(side.n_ranked)
        }
        if not settings_of(place, comparison.settings.algorithm):
            note = _("in use") + ", " + note
        moves = parted(side) if at and not side.refused else ""
        label = label_of(side.algorithm, with_resolution=True)
        found.append(Column(place.key, label, "" if side.refused else note, side.refused, moves))
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
        words = _("up %(places)s") if standing.moved > 0 else _("down %(places)s")
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
        return _("The choice changes no rank")
    return ngettext(
        "%(moved)s of %(all)s leaf would change rank",
        "%(moved)s of %(all)s leaves would change rank",
        comparison.n_leaves,
    ) % {"moved": presentation.count(comparison.n_moved), "all": presentation.count(comparison.n_leaves)}


def parted(side: Side) -> str:
    """How many leaves move against the first column, and of these how many by the operator and how many by rounding."""
    if not side.n_moved:
        return _("no leaf changes rank")
    text = ngettext(
        "%(n)s leaf changes rank: %(operator)s by the operator, %(rounding)s by rounding",
        "%(n)s leaves change rank: %(operator)s by the operator, %(rounding)s by rounding",
        side.n_moved,
    )
    return text % {
        "n": presentation.count(side.n_moved),
        "operator": presentation.count(side.n_by_operator),
        "rounding": presentation.count(side.n_by_rounding),
    }


def furthest(comparison: Comparison) -> str:
    """Who gains and who loses most against the first column, of those that are shown."""
    sentences = []
    for at, side in enumerate(comparison.sides[1:], start=1):
        moves = [(leaf.standings[at].moved or 0, leaf) for leaf in comparison.leaves]
        gain, loss = max(moves, key=_by_move, default=None), min(moves, key=_by_move, default=None)
        parts = []
        if gain and gain[0] > 0:
            parts.append(_("%(name)s moves up %(places)s") % {"name": gain[1].name, "places": places(gain[0])})
        if loss and loss[0] < 0:
            parts.append(_("%(name)s moves down %(places)s") % {"name": loss[1].name, "places": places(-loss[0])})
        if parts:
            text = _("With %(label)s, %(what)s.")
            sentences.append(text % {"label": label_of(side.algorithm), "what": _(" and ").join(parts)})
    return " ".join(sentences)


def places(n: int) -> str:
    return ngettext("%(n)s place", "%(n)s places", n) % {"n": presentation.count(n)}


def _by_move(pair: tuple[int, ComparedLeaf]) -> int:
    return pair[0]
