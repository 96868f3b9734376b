"""Choosing an algorithm: its parameters as a form, checked by the registry, and algorithms side by side, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.analytics.comparison import MOST_ALGORITHMS, ComparedLeaf, Comparison, Side, Standing
from apps.analytics.operators.records import OperatorChoice
from apps.analytics.operators.selectors import choices_for
from apps.core.typed_numbers import read_number
from apps.dashboard.algorithm.words import label_of, typed
from apps.dashboard.shell import lines, presentation
from apps.engine.algorithms import Algorithm, Parameter, all_algorithms, read_algorithm
from apps.engine.errors import BadParameter
from apps.engine.operators import all_operators

# --- Parameters -------------------------------------------------------------------------------------------------------
_LONGEST = 64


@dataclass(frozen=True, slots=True)
class ParameterField:
    """One parameter: a list where the registry names all values, else a text field with suggestions."""

    name: str
    label: str
    value: str
    hint: str
    choices: Sequence[str]
    suggestions: Sequence[str]
    is_number: bool
    error: str = ""
    operators: Sequence[OperatorChoice] = ()  # each with its sentence; any other one is typed as `operator_named`

    @property
    def is_listed(self) -> bool:
        """Whether the value is one of the operators that can be picked."""
        return self.value in [operator.name for operator in self.operators]

    @property
    def html_id(self) -> str:
        return f"id_{self.name}"


@dataclass(frozen=True)
class ParametersForm:
    """What was typed, field by field; `settings` when all of it can be used."""

    fields: Sequence[ParameterField]
    settings: Mapping[str, Any] | None
    error: str = ""


def unbound(algorithm: Algorithm, current: Mapping[str, Any]) -> ParametersForm:
    """With the active values, or the defaults where another algorithm is active."""
    start = current if current.get("name") == algorithm.name else read_algorithm(algorithm.name)
    fields = [_field(one, _typed(one, start)) for one in algorithm.parameters]
    return ParametersForm(fields, read_algorithm(algorithm.name))


def bound(algorithm: Algorithm, data: Mapping[str, Any]) -> ParametersForm:
    """As somebody typed it; a field left empty takes its default, or nothing where it doesn't apply."""
    given = {one.name: str(data.get(one.name, "")).strip()[:_LONGEST] for one in algorithm.parameters}
    if "operator" in given:
        given["operator"] = str(data.get("operator_named", "")).strip()[:_LONGEST] or given["operator"]
    filled = {one.name: _read(one, given[one.name]) for one in algorithm.parameters if given[one.name]}
    settings, place, message = None, "", ""
    try:
        settings = read_algorithm({**filled, "name": algorithm.name})
    except BadParameter as error:
        place, message = error.place.removeprefix("algorithm."), error.message
    fields = [_field(one, given[one.name], message if one.name == place else "") for one in algorithm.parameters]
    return ParametersForm(fields, settings, message if place not in given else "")


def _typed(parameter: Parameter, settings: Mapping[str, Any]) -> str:
    """Nothing where it doesn't apply; an optional one that is left out has its default."""
    if parameter.is_optional and parameter.applies(settings):
        return typed(settings.get(parameter.name, parameter.default))
    return typed(settings[parameter.name]) if parameter.name in settings else ""


def _read(parameter: Parameter, text: str) -> Any:
    """A number where one is wanted; a decimal comma is one too. What isn't stays text, for the registry to refuse."""
    return number_or_text(text) if _is_number(parameter) else text


def number_or_text(text: str) -> Any:
    """A number as people type it; what isn't one stays text, for the settings to refuse."""
    try:
        value = read_number(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() else value


def _is_number(parameter: Parameter) -> bool:
    return isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool)


def _field(parameter: Parameter, value: str, error: str = "") -> ParameterField:
    closed = bool(parameter.choices) and all(_is_readable(parameter, choice) for choice in parameter.choices)
    hint = parameter.allowed[:1].upper() + parameter.allowed[1:]
    if closed:
        hint = ""
    if parameter.condition:
        hint = (hint + "; " if hint else "") + _("applies %(condition)s only") % {"condition": parameter.condition}
    hint = "; ".join(part for part in (parameter.note, hint) if part)
    return ParameterField(
        name=parameter.name,
        label=parameter.label,
        value=value,
        hint=hint,
        choices=parameter.choices if closed else (),
        suggestions=() if closed else _suggestions(parameter),
        is_number=_is_number(parameter),
        error=error[:1].upper() + error[1:] + "." if error else "",
        operators=choices_for({"operator": ""}) if parameter.name == "operator" else (),
    )


def _suggestions(parameter: Parameter) -> Sequence[str]:
    return tuple(choice for choice in parameter.choices if _is_readable(parameter, choice))


def _is_readable(parameter: Parameter, value: str) -> bool:
    try:
        parameter.read(value)
    except (ValueError, TypeError):
        return False
    return True


# --- Side by side -----------------------------------------------------------------------------------------------------
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
    found = [Option(IN_FORCE, f"{_('active')}: {label_of(current)}")]
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
        found["resolution"] = number_or_text(place.resolution)
    if place.k and found.get("operator") == "combined":
        found["k"] = number_or_text(place.k)
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
        return _("No rank changes")
    return ngettext(
        "%(moved)s of %(all)s leaf would change rank",
        "%(moved)s of %(all)s leaves would change rank",
        comparison.n_leaves,
    ) % {"moved": presentation.count(comparison.n_moved), "all": presentation.count(comparison.n_leaves)}


def parted(side: Side) -> str:
    """How many leaves move against the first column, and of these how many by the operator and how many by rounding."""
    if not side.n_moved:
        return _("No rank changes")
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
            sentences.append(text % {"label": label_of(side.algorithm), "what": f" {_('and')} ".join(parts)})
    return " ".join(sentences)


def places(n: int) -> str:
    return ngettext("%(n)s place", "%(n)s places", n) % {"n": presentation.count(n)}


def _by_move(pair: tuple[int, ComparedLeaf]) -> int:
    return pair[0]
