"""Algorithms as text: description, declared properties, and their specific numbers with over or under."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isinf
from typing import Any

from django.utils.translation import gettext as _

from apps.engine.algorithms import Algorithm, algorithms_of_packages, all_algorithms, explanation_of, get_algorithm
from apps.engine.analysis.properties import Measured, measured_algorithms, measured_operators
from apps.engine.errors import BadParameter
from apps.engine.operators import DEFAULT_K, Properties, get_operator
from apps.engine.target_state import State as EntryState
from apps.priorities.sentences import numbers
from apps.priorities.sentences.operators import operator_text, resolution_text
from apps.web.shell.presentation import Balance
from apps.web.svg.bars import State

_NEAR = 1e-9  # a level fairshare this near to 1 is on target
_MOST_PLAIN_NUMBER = 1e6
_TELLING = ("level_fs", "weight", "effective_usage")
_OF_THE_GROUP = frozenset({"slurm-fair-tree"})


@dataclass(frozen=True, slots=True)
class PropertyText:
    """One declared property, and whether it holds."""

    holds: bool
    title: str
    text: str
    measured: bool | None = None  # result of the trial at load, for operators of packages

    @property
    def is_contradicted(self) -> bool:
        return self.measured is not None and self.measured != self.holds


@dataclass(frozen=True, slots=True)
class Described:
    """An algorithm as pages show it."""

    name: str
    label: str
    formula: str
    component: str
    reference: str
    package: str
    takes_inherit: bool
    properties: Sequence[PropertyText]
    orders_like: str  # built-in operators that give the same order as a package's
    operator: str  # with its formula, "" for an algorithm without operators

    @property
    def is_contradicted(self) -> bool:
        return any(each.is_contradicted for each in self.properties)


@dataclass(frozen=True, slots=True)
class OwnNumber:
    """A number specific to an algorithm: its name, its value, and what it means for this entry."""

    name: str
    title: str
    value: str
    exact: str
    balance: Balance | None  # with the number as its amount
    words: str


def describe(name: str, settings: Mapping[str, Any] | None = None) -> Described | None:
    """Description with the parameters that decide its properties; None if its package is missing."""
    try:
        algorithm = get_algorithm(name)
    except BadParameter:
        return None
    shown = settings or defaults_of(algorithm)
    measured = measured_operators().get(str(shown.get("operator", "")))
    properties = _with_measurement(properties_in_words(algorithm.properties(shown)), measured)
    return Described(
        name=algorithm.name,
        label=algorithm.label,
        formula=algorithm.formula,
        component=algorithm.component,
        reference=algorithm.reference,
        package=algorithms_of_packages().package.get(name, ""),
        takes_inherit=algorithm.takes_inherit,
        properties=_with_trial(properties, measured_algorithms().get(name)),
        orders_like="" if measured is None else ", ".join(measured.orders_like),
        operator=_operator(shown),
    )


def decides_by_levels(settings: Mapping[str, Any]) -> bool:
    """Whether all leaves below an entry rank before or after all leaves below its sibling."""
    return explanation_of(settings).kind == "levels"


def _with_measurement(texts: Sequence[PropertyText], measured: Measured | None) -> Sequence[PropertyText]:
    """Declared properties, each with the measurement of a package's operator."""
    if measured is None:
        return texts
    measurements = (None, measured.proportional_redistribution, None, measured.boundaries)
    return [replace(text, measured=each) for text, each in zip(texts, measurements, strict=True)]


def _with_trial(texts: Sequence[PropertyText], measured: Properties | None) -> Sequence[PropertyText]:
    """Properties declared to hold, each with the measurement of a package's algorithm.

    Properties not declared to hold are unchanged: that no small tree disproves them shows nothing.
    """
    if measured is None:
        return texts
    measurements = (
        measured.isolation,
        measured.proportional_redistribution,
        measured.scale_invariance,
        measured.boundaries,
    )
    return [
        replace(text, measured=each) if text.holds else text for text, each in zip(texts, measurements, strict=True)
    ]


def _operator(settings: Mapping[str, Any]) -> str:
    if not settings.get("operator"):
        return ""
    try:
        operator = get_operator(settings["operator"], k=settings.get("k", DEFAULT_K))
    except BadParameter:
        return ""
    return f"{operator.label}: F = {operator.formula}"


def defaults_of(algorithm: Algorithm) -> dict[str, Any]:
    """Default values of all parameters, without optional ones and ones that don't apply."""
    settings: dict[str, Any] = {"name": algorithm.name}
    for parameter in algorithm.parameters:
        if parameter.applies(settings) and not parameter.is_optional:
            settings[parameter.name] = parameter.default
    return settings


def label_of(settings: Mapping[str, Any], *, with_resolution: bool = False) -> str:
    """Short label for column heads: Aequus, relative; Slurm: Fair Tree; with resolution: Aequus, relative at 256."""
    algorithm = all_algorithms().get(str(settings.get("name", "")))
    label = str(settings.get("name", "")) if algorithm is None else algorithm.label.removesuffix(": priority vectors")
    label = label.removesuffix(": deviations by level")
    if not settings.get("operator"):
        return label
    operator = operator_text(str(settings["operator"]), settings.get("k") if with_resolution else None)
    if with_resolution and settings.get("resolution"):
        operator = _("%(operator)s at %(resolution)s") % {
            "operator": operator,
            "resolution": resolution_text(int(settings["resolution"])),
        }
    return f"{label}, {operator}"


def parameters_in_words(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, value) of every set parameter, in the registry's order."""
    try:
        parameters = get_algorithm(str(settings.get("name", ""))).parameters
    except BadParameter:
        return [(name, str(value)) for name, value in settings.items() if name != "name"]
    return [
        (parameter.label, typed(settings[parameter.name])) for parameter in parameters if parameter.name in settings
    ]


def typed(value: object) -> str:
    """A parameter's value as it would be typed."""
    if isinstance(value, float):
        return f"{value:.12g}"
    return str(value)


def properties_in_words(declared: Properties) -> list[PropertyText]:
    """Sentences on whether each property holds."""
    return [
        PropertyText(
            declared.isolation,
            _("Groups are isolated"),
            _("Usage of other groups never changes the order inside a group.")
            if declared.isolation
            else _("Usage of other groups changes the numbers inside a group, but never reverses its order.")
            if declared.order_in_groups
            else _("Usage of other groups can change the order inside a group."),
        ),
        PropertyText(
            declared.proportional_redistribution,
            _("Unused share is redistributed proportionally"),
            _("Unused share goes to the active siblings in proportion to their shares.")
            if declared.proportional_redistribution
            else _("Unused share goes to the active siblings, but not in proportion to their shares."),
        ),
        PropertyText(
            declared.scale_invariance,
            _("Scale-invariant"),
            _("Multiplying all shares or all usage of a group by one number changes nothing.")
            if declared.scale_invariance
            else _("Multiplying all shares or all usage of a group by one number can change its order."),
        ),
        PropertyText(
            declared.boundaries,
            _("Extremes are fixed"),
            _("Usage without shares always ranks last, shares without usage first.")
            if declared.boundaries
            else _("Usage without shares isn’t always last, shares without usage not always first."),
        ),
    ]


def own_numbers(
    columns: Mapping[str, float | None], algorithm: Mapping[str, Any], state: EntryState
) -> list[OwnNumber]:
    """Numbers of an entry that are specific to the algorithm; missing ones are left out."""
    name = str(algorithm.get("name", ""))
    return [_own(key, value, name, state) for key, value in columns.items() if value is not None]


def own_number(
    columns: Mapping[str, float | None], name: str, algorithm: Mapping[str, Any], state: EntryState
) -> OwnNumber | None:
    """One number specific to the algorithm; None if the entry has none."""
    value = columns.get(name)
    return None if value is None else _own(name, value, str(algorithm.get("name", "")), state)


def main_column(names: Sequence[str]) -> str:
    """The algorithm's own column that best shows who goes first; "" without one."""
    return next((name for name in _TELLING if name in names), next(iter(names), ""))


def title_of(name: str) -> str:
    """Column title of a number."""
    titles = {"level_fs": _("Level fairshare"), "weight": _("Weight"), "effective_usage": _("Effective usage")}
    return titles.get(name, name)


def _own(key: str, value: float, algorithm: str, state: EntryState) -> OwnNumber:
    if key in ("level_fs", "weight"):
        title = _("Level fairshare") if key == "level_fs" else _("Weight")
        return OwnNumber(key, title, quotient(value), f"{value!r}", _balance_of(value, state), _quotient_text(value))
    is_of_group = algorithm in _OF_THE_GROUP
    titles = {
        "norm_shares": _("Target") if is_of_group else _("Target in the policy"),
        "effective_usage": _("Usage in its group") if is_of_group else _("Charged usage"),
        "norm_usage": _("Usage in the policy"),
    }
    if key in titles:
        return OwnNumber(key, titles[key], numbers.percent(value), f"{value!r}", None, "")
    ratios = {
        "local_ratio": _("Own ratio r_l: usage / share in its group"),
        "k": _("Exponent k of the own ratio"),
        "effective_ratio": _("Ratio R of the whole path"),
    }
    return OwnNumber(key, ratios.get(key, key), quotient(value), f"{value!r}", None, "")


def quotient(value: float) -> str:
    """A number of any size, short: 1.49, 0.0032, 2.1e9, ∞."""
    if isinf(value):
        return "∞" if value > 0 else f"{numbers.MINUS}∞"
    if value == 0 or 1e-3 <= abs(value) < _MOST_PLAIN_NUMBER:
        digits = 2 if abs(value) >= 1 or value == 0 else 4
        return numbers.number(value, digits).rstrip("0").rstrip(".,")
    return f"{value:.2g}"


def _balance_of(value: float, state: EntryState) -> Balance | None:
    """Balance of a quotient in the words of the entry's state; None for entries without shares."""
    if value == 0:
        return None
    if value == inf or value >= 2.0**64:
        return Balance(State.IDLE, "", _("nothing used"))
    if state == "on" or abs(1 / value - 1) <= _NEAR:
        return Balance(State.ON, quotient(value), _("on target"))
    return Balance(State.UNDER if value > 1 else State.OVER, quotient(value), _("under") if value > 1 else _("over"))


def _quotient_text(value: float) -> str:
    if value == inf or value >= 2.0**64:
        return _("No usage: it ranks before all siblings with usage.")
    if value == 0:
        return _("No shares: all siblings with shares rank before it.")
    if abs(value - 1) <= _NEAR:
        return _("on target")
    if value > 1:
        return _("Its target is %(times)s times its usage.") % {"times": quotient(value)}
    return _("It used %(times)s times its target.") % {"times": quotient(1 / value)}
