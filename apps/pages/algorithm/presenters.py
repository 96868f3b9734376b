"""Algorithms compared for their page: the requested columns, rows of ranks, and the verdict in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.engine.algorithms import all_algorithms
from apps.engine.operators import all_operators
from apps.pages.algorithm.comparison import MOST_ALGORITHMS, AlgorithmSide, ComparedLeaf, Comparison, LeafRank
from apps.pages.algorithm.forms import number_or_text
from apps.web.setting_texts import label_of
from apps.web.shell import lines, presentation

ACTIVE = "active"
DEFAULTS = (ACTIVE, "slurm-fair-tree", "slurm-classic")


@dataclass(frozen=True, slots=True)
class Option:
    """An algorithm to compare. key: its name in the query string."""

    key: str
    label: str


@dataclass(frozen=True, slots=True)
class Column:
    """Head of one compared column."""

    key: str
    label: str
    note: str
    refused: str
    moves: str  # differences from the first column by operator and by rounding


@dataclass(frozen=True, slots=True)
class Cell:
    """Rank, factor, and the difference from the first column."""

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
    """The active algorithm first, then every algorithm with its defaults, one for each operator."""
    choices = [Option(ACTIVE, _("active: %(algorithm)s") % {"algorithm": label_of(current)})]
    for name, algorithm in all_algorithms().items():
        if any(parameter.name == "operator" for parameter in algorithm.parameters):
            for operator in all_operators():
                settings = {"name": name, "operator": operator.name}
                choices.append(Option(f"{name}:{operator.name}", label_of(settings)))
        else:
            choices.append(Option(name, label_of({"name": name})))
    return choices


@dataclass(frozen=True, slots=True)
class RequestedColumn:
    """One requested column: an algorithm and, for vectors, resolution and k; "" for defaults."""

    key: str
    resolution: str = ""
    k: str = ""

    @property
    def query(self) -> list[tuple[str, str]]:
        return [("with", self.key), ("resolution", self.resolution), ("k", self.k)]


def read_columns(query: QueryDict) -> list[RequestedColumn]:
    """Requested columns: `?with=&resolution=&k=`, repeated; the last two are optional."""
    keys, resolutions, ks = (query.getlist(name) for name in ("with", "resolution", "k"))
    requested = [
        RequestedColumn(key, _at(resolutions, at), _at(ks, at)) if key == ACTIVE or ":" in key else RequestedColumn(key)
        for at, key in enumerate(keys)
        if key
    ]
    return (list(dict.fromkeys(requested)) or [RequestedColumn(key) for key in DEFAULTS])[:MOST_ALGORITHMS]


def _at(values: Sequence[str], at: int) -> str:
    return values[at].strip()[:64] if at < len(values) else ""


def settings_of(place: RequestedColumn, current: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a requested column; {} for the policy's own. Invalid values are rejected by the computation."""
    name, _colon, operator = place.key.partition(":")
    if place.key == ACTIVE:
        if not (place.resolution or place.k) or current.get("name") != "aequus":
            return {}
        settings = dict(current)
    else:
        settings = {"name": name, "operator": operator} if operator else {"name": name}
    if place.resolution:
        settings["resolution"] = number_or_text(place.resolution)
    if place.k and settings.get("operator") == "combined":
        settings["k"] = number_or_text(place.k)
    return settings


def fields_of(place: RequestedColumn, current: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the fields that the column's algorithm uses: resolution and k of vectors."""
    operator = current.get("operator", "") if place.key == ACTIVE else place.key.partition(":")[2]
    if not operator:
        return ()
    return ("resolution", "k") if operator == "combined" else ("resolution",)


def columns(comparison: Comparison, places: Sequence[RequestedColumn]) -> list[Column]:
    drawn = []
    for at, (place, side) in enumerate(zip(places, comparison.sides, strict=True)):
        note = "" if settings_of(place, comparison.settings.algorithm) else _("active")
        moves = split_by_cause(side) if at and not side.refused else ""
        label = label_of(side.algorithm, with_resolution=True)
        drawn.append(Column(place.key, label, "" if side.refused else note, side.refused, moves))
    return drawn


def rows(comparison: Comparison) -> list[Row]:
    return [
        Row(
            leaf,
            lines.entry_url(comparison.policy_slug, leaf.uid, leaf.name),
            [_cell(leaf_rank, is_first=at == 0) for at, leaf_rank in enumerate(leaf.ranks)],
        )
        for leaf in comparison.leaves
    ]


def _cell(leaf_rank: LeafRank, *, is_first: bool) -> Cell:
    rank = presentation.UNKNOWN if leaf_rank.rank is None else presentation.count(leaf_rank.rank)
    moved, words = "", ""
    if not is_first and leaf_rank.moved:
        n, sign = abs(leaf_rank.moved), "+" if leaf_rank.moved > 0 else presentation.MINUS
        moved = f"{sign}{presentation.count(n)}"
        words = _("up %(places)s") if leaf_rank.moved > 0 else _("down %(places)s")
        words = words % {"places": places(n)}
    return Cell(rank, presentation.factor(leaf_rank.factor), moved, words)


def verdict(comparison: Comparison) -> str:
    """Sentence on how much the choice of the algorithm matters."""
    if comparison.as_of is None:
        return _("No usage yet: nothing to compare")
    usable = [side for side in comparison.sides if not side.refused]
    if len(usable) < 2:
        return _("Choose two algorithms that fit this tree")
    if not comparison.n_moved:
        return _("No rank changes")
    return ngettext(
        "%(moved)s of %(all)s user would change rank",
        "%(moved)s of %(all)s users would change rank",
        comparison.n_leaves,
    ) % {"moved": presentation.count(comparison.n_moved), "all": presentation.count(comparison.n_leaves)}


def split_by_cause(side: AlgorithmSide) -> str:
    """Number of leaves whose rank differs from the first column, split by cause: operator or rounding."""
    if not side.n_moved:
        return _("No rank changes")
    text = ngettext(
        "%(n)s user changes rank: %(operator)s because of the algorithm, %(rounding)s because of rounding",
        "%(n)s users change rank: %(operator)s because of the algorithm, %(rounding)s because of rounding",
        side.n_moved,
    )
    return text % {
        "n": presentation.count(side.n_moved),
        "operator": presentation.count(side.n_by_operator),
        "rounding": presentation.count(side.n_by_rounding),
    }


def furthest(comparison: Comparison) -> str:
    """The shown leaves that gain and lose most against the first column."""
    sentences = []
    for at, side in enumerate(comparison.sides[1:], start=1):
        moves = [(leaf.ranks[at].moved or 0, leaf) for leaf in comparison.leaves]
        gain, loss = max(moves, key=_by_move, default=None), min(moves, key=_by_move, default=None)
        words = {"label": label_of(side.algorithm)}
        gains, loses = bool(gain and gain[0] > 0), bool(loss and loss[0] < 0)
        if gain and gains:
            words |= {"up": gain[1].name, "up_places": places(gain[0])}
        if loss and loses:
            words |= {"down": loss[1].name, "down_places": places(-loss[0])}
        text = {
            (True, True): _("With %(label)s, %(up)s moves up %(up_places)s and %(down)s moves down %(down_places)s."),
            (True, False): _("With %(label)s, %(up)s moves up %(up_places)s."),
            (False, True): _("With %(label)s, %(down)s moves down %(down_places)s."),
            (False, False): "",
        }[gains, loses]
        sentences.append(text % words)
    return " ".join(filter(None, sentences))


def places(n: int) -> str:
    return ngettext("%(n)s place", "%(n)s places", n) % {"n": presentation.count(n)}


def _by_move(pair: tuple[int, ComparedLeaf]) -> int:
    return pair[0]
