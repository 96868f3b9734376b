"""Curves of a policy's settings: weight of usage by age, and priority by actual share at one target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.engine.decay import Window, weights
from apps.engine.decay_functions import DECAY_FUNCTIONS, DecayFunction
from apps.engine.errors import BadParameter, PackageFailed
from apps.engine.operators import DEFAULT_K, Operator, all_operators, get_operator
from apps.policies.settings import PolicySettings
from apps.priorities.metering import window_of
from apps.priorities.sentences.numbers import MINUS, percent, signed
from apps.web.figures import axes, traces
from apps.web.figures.figure import Choice, Column, Control, EndLabel, Figure, Slider, Table, with_changes

DAY_S = 86_400
HORIZONS_DAYS = (7, 30, 90, 365)
DEFAULT_DAYS = 30
_POINTS_A_DAY = {7: 24, 30: 8, 90: 3, 365: 1}
_TABLE_STEP = {7: 6, 30: 8, 90: 9, 365: 7}  # in points: six hours, a day, three days, a week
_DEFAULT_FUNCTIONS = ("slurm", "gridengine", "lsf")
_OWN = "own"


@dataclass(frozen=True, slots=True)
class DecayOptions:
    """days: period shown; functions: decay functions to compare with the policy's own."""

    days: int
    functions: tuple[str, ...]


def read_decay(query: QueryDict) -> DecayOptions:
    """Parse `?age=30&function=slurm&function=lsf`; `function=own` shows the policy's own function only.

    Raises Invalid, with the parameter's name, for an unknown function or age.
    """
    text = query.get("age", str(DEFAULT_DAYS))
    if text not in {str(days) for days in HORIZONS_DAYS}:
        message = _("“%(text)s” is not one of %(known)s.")
        message %= {"text": text[:40], "known": ", ".join(map(str, HORIZONS_DAYS))}
        raise Invalid(message, fields=[FieldProblem("age", message)])
    functions = tuple(dict.fromkeys(query.getlist("function"))) if "function" in query else _DEFAULT_FUNCTIONS
    for name in functions:
        if name not in DECAY_FUNCTIONS and name != _OWN:
            message = _("Unknown decay function “%(name)s”.") % {"name": name[:40]}
            raise Invalid(message, fields=[FieldProblem("function", message)])
    return DecayOptions(int(text), tuple(name for name in functions if name != _OWN))


def policy_decay_figure(settings: PolicySettings, policy: str, query: QueryDict, *, as_of_s: float) -> Figure:
    """Draw the figure for a policy with these settings; other functions use their parameters in them, or
    the defaults.
    """
    windows = {name: _window_with(settings.window, function) for name, function in DECAY_FUNCTIONS.items()}
    options = read_decay(query)
    return decay_figure(window_of(settings.window), windows, options, query, policy=policy, as_of_s=as_of_s)


def _window_with(window: Mapping[str, Any], function: DecayFunction) -> Window:
    """The policy's window with another decay function; a linear one ends with the default window if it has no end."""
    names = {"length_s", *(parameter.name for parameter in function.parameters)}
    terms = {name: value for name, value in window.items() if name in names}
    if function.name == "linear" and terms["length_s"] is None:
        del terms["length_s"]
    return window_of(PolicySettings.from_json({"window": {**terms, "aging": function.name}}).window)


def decay_figure(
    own: Window, windows: Mapping[str, Window], options: DecayOptions, query: QueryDict, *, policy: str, as_of_s: float
) -> Figure:
    """own: the policy's window; windows: one for each registered function.

    Ages in days from now, weights in percent of the usage. Functions that decay at fixed instants are evaluated as of
    `as_of_s`.
    """
    ages_s = np.linspace(0.0, options.days * DAY_S, options.days * _POINTS_A_DAY[options.days] + 1)
    days = [round(float(age) / DAY_S, 4) for age in ages_s]
    shown = {_OWN: own, **{name: windows[name] for name in options.functions if name != own.aging}}
    labels = {name: _("active") if name == _OWN else DECAY_FUNCTIONS[name].label for name in shown}
    left = {name: weights(ages_s, window, as_of_s) * 100 for name, window in shown.items()}
    colors = {name: _color(own, name) for name in shown}
    drawn = [
        traces.line(
            days,
            [round(float(percent), 2) for percent in left[name]],
            name=labels[name],
            color=colors[name],
            words=[_words(day, float(percent)) for day, percent in zip(days, left[name], strict=True)],
            width=2.25 if name == _OWN else 1.75,
        )
        for name in reversed(shown)
    ]
    at_end = {name: float(left[name][-1]) for name in sorted(shown, key=lambda name: -float(left[name][-1]))}
    return Figure(
        name="decay",
        title=_("Weight of usage over its age"),
        note=_("% of usage"),
        sentence=_sentence(own, options.days, at_end[_OWN], as_of_s),
        traces=drawn,
        layout={
            "margin": axes.margin(44, 158, 26, 24),
            **_window_end(own, options.days),
            "xaxis": {
                "range": [0, options.days],
                **_age_ticks(options.days),
                "unifiedhovertitle": {"text": _("%{x:.1f} days old")},
            },
            "yaxis": axes.share_axis([100.0], whole=True),
        },
        table=_table(days, left, labels, _TABLE_STEP[options.days]),
        labels=[EndLabel(value, labels[name], colors[name]) for name, value in at_end.items()],
        controls=_controls(own, options, query),
        file=f"fairshare_{policy}_decay_{options.days}d",
        caption=policy,
    )


def _other_functions(own: Window) -> list[str]:
    """List the functions that can be compared with the policy's own."""
    return [name for name in DECAY_FUNCTIONS if name != own.aging]


def _color(own: Window, name: str) -> str:
    """Each function has a fixed colour, whatever else is shown; the policy's own has the accent."""
    return "$accent" if name == _OWN else traces.series_color(1 + _other_functions(own).index(name))


def _window_end(own: Window, days: int) -> dict[str, Any]:
    """A vertical line where the policy's window ends, if that is within the picture."""
    if own.length_s is None or own.length_s > days * DAY_S:
        return {}
    at = own.length_s / DAY_S
    line = {"color": "$line-strong", "width": 1, "dash": "1.5px,2px"}
    text = {"text": _("window ends"), "font": {"color": "$ink-3"}, "showarrow": False}
    return {
        "shapes": [
            {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "layer": "below", "line": line}
        ],
        "annotations": [{"x": at, "yref": "paper", "y": 1, "yanchor": "bottom", "yshift": 3, **text}],
    }


def _age_ticks(days: int) -> dict[str, Any]:
    marks = axes.ticks(0, days, 6)
    return {
        "tickvals": marks,
        "ticktext": [_("now") if mark == 0 else _("%(n)s d") % {"n": f"{mark:g}"} for mark in marks],
    }


def _words(day: float, left: float) -> str:
    return _("%(left)s %% left") % {"left": f"{left:.1f}"}


def _sentence(own: Window, days: int, left: float, as_of_s: float) -> str:
    week = float(weights([7 * DAY_S], own, as_of_s)[0]) * 100
    values = {"week": f"{week:.1f}", "left": f"{left:.1f}", "days": days}
    if days == HORIZONS_DAYS[0]:
        return _("Usage is weighted %(week)s %% after 7 days.") % values
    return _("Usage is weighted %(week)s %% after 7 days and %(left)s %% after %(days)s days.") % values


def _table(days: list[float], left: Mapping[str, Any], labels: Mapping[str, str], step: int) -> Table:
    rows = range(0, len(days), step)
    return Table(
        columns=(Column(_("Age, days")), *(Column(f"{label}, %") for label in labels.values())),
        rows=[[f"{days[at]:g}", *(f"{float(curve[at]):.1f}" for curve in left.values())] for at in rows],
        raw=[[days[at], *(round(float(curve[at]), 4) for curve in left.values())] for at in range(len(days))],
        header=("age_days", *(f"left_percent_{name}" for name in left)),
    )


def _controls(own: Window, options: DecayOptions, query: QueryDict) -> list[Control]:
    horizons = [
        Choice(
            f"age-{days}",
            _("%(n)s d") % {"n": days} if days < 365 else _("1 y"),
            with_changes(query, age=str(days)),
            options.days == days,
        )
        for days in HORIZONS_DAYS
    ]
    functions = [Choice("function-own", _("active"), with_changes(query, function=[_OWN]), True, swatch="$accent")]
    for name in _other_functions(own):
        others = [other for other in options.functions if other != name]
        picked = others if name in options.functions else [*others, name]
        functions.append(
            Choice(
                f"function-{name}",
                DECAY_FUNCTIONS[name].label,
                with_changes(query, function=picked or [_OWN]),
                name in options.functions,
                swatch=_color(own, name),
                alone=with_changes(query, function=name),
            )
        )
    return [
        Control(_("Age"), horizons),
        Control(_("Decay functions compared with this policy’s"), functions, kind="chips"),
    ]


F8 = npt.NDArray[np.float64]
NAME, TARGET = "profile", "profile_target"  # query parameters of the page
DEFAULT_TARGET = 20.0
_DEFAULT_OPERATORS = ("absolute", "sigmoid-2")
_NO_OTHER = "own"
_N_POINTS = 201
_PROFILE_STEP = 10


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """target: percent, 0 < target < 100. others: operators to compare with the policy's own, at most eight."""

    target: float
    others: tuple[str, ...]


def read_profile(query: QueryDict, own: str) -> ProfileOptions:
    """Parse `?profile_target=20&profile=absolute&profile=slurm`; `profile=own` shows the policy's own operator only.

    own: the policy's operator, which is always shown. Raises Invalid, with the parameter's name, for an invalid target
    or operator.
    """
    names = query.getlist(NAME) if NAME in query else list(_DEFAULT_OPERATORS)
    for name in names:
        if name != _NO_OTHER:
            _operator(name, DEFAULT_K)
    others = [name for name in dict.fromkeys(names) if name not in (own, _NO_OTHER)]
    return ProfileOptions(_target(query.get(TARGET, f"{DEFAULT_TARGET:g}")), tuple(others[: traces.MOST_SERIES]))


def policy_profile_figure(algorithm: Mapping[str, Any], policy: str, query: QueryDict) -> Figure:
    """Draw the figure for these algorithm settings; `relative` if the algorithm has no operator."""
    own = str(algorithm.get("operator", "relative"))
    options = read_profile(query, own)
    return profile_figure(own, options, query, policy=policy, k=_k(algorithm.get("k", DEFAULT_K)))


def _k(value: Any) -> float:
    try:
        k = float(value)
    except ValueError:
        k = -1.0
    if not 0 <= k <= 1:  # also rejects NaN
        message = _("“%(text)s” is not a valid k: enter a number from 0 to 1.") % {"text": str(value)[:40]}
        raise Invalid(message, fields=[FieldProblem("k", message)])
    return k


def _target(text: str) -> float:
    try:
        target = float(text[:40].replace(",", ".", 1))
    except ValueError:
        target = -1.0
    if not 0 < target < 100:  # also rejects NaN
        message = _("“%(text)s” is not a valid target: enter percent above 0 and below 100.") % {"text": text[:40]}
        raise Invalid(message, fields=[FieldProblem(TARGET, message)])
    return target


def _operator(name: str, k: float) -> Operator:
    try:
        return get_operator(name, k=k)
    except BadParameter:
        message = _("Unknown operator “%(name)s”.") % {"name": name[:40]}
        raise Invalid(message, fields=[FieldProblem(NAME, message)]) from None


def profile_figure(own: str, options: ProfileOptions, query: QueryDict, *, policy: str, k: float) -> Figure:
    """own: operator to compare with; k: of `combined`. Actuals and the target in percent, priorities −1..1."""
    shown = {name: _operator(name, k) for name in (own, *options.others)}
    target = options.target / 100
    actuals = np.unique(np.append(np.linspace(0.0, 1.0, _N_POINTS), target))
    curves = {name: _values(operator, target, actuals) for name, operator in shown.items()}
    # Each operator has a fixed colour, whatever else is shown; the policy's own has the accent.
    colors = {name: "$accent" if name == own else traces.series_color(_color_index(own, name)) for name in shown}
    at = [round(float(actual) * 100, 6) for actual in actuals]
    lines = [
        traces.line(
            at,
            [round(float(value), 6) for value in curves[name]],
            name=name,
            color=colors[name],
            words=[signed(float(value), 3) for value in curves[name]],
            width=2.25 if name == own else 1.75,
        )
        for name in reversed(shown)
    ]
    marks = axes.ticks(0, 100, 5)
    return Figure(
        name="operator",
        title=_("Priority over actual"),
        note=_("above 0 is served earlier, below 0 later"),
        sentence=_profile_sentence(shown[own], options.target),
        traces=[
            traces.target([options.target, options.target], [-1, 1]),
            *lines,
            traces.end_dot(options.target, 0.0, color="$ink"),
        ],
        layout={
            "margin": axes.margin(44, 158, 8, 40),
            "xaxis": {
                "range": [0, 100],
                "tickvals": marks,
                "ticktext": [f"{mark:g}" for mark in marks[:-1]] + ["100\u00a0%"],
                "title": {"text": _("actual share")},
                "unifiedhovertitle": {"text": _("actual %{x:.1f} %")},
            },
            "yaxis": {
                "range": [-1.06, 1.06],
                "tickvals": [-1, -0.5, 0, 0.5, 1],
                "ticktext": [f"{MINUS}1", f"{MINUS}0.5", "0", "+0.5", "+1"],
            },
        },
        table=_profile_table(at, curves),
        labels=[EndLabel(float(curves[name][-1]), name, colors[name]) for name in shown],
        controls=_profile_controls(own, options, query, colors),
        file=f"fairshare_{policy}_operator_{own}_{options.target:g}",
        caption=_("%(actual)s, target %(target)s") % {"actual": policy, "target": percent(target)},
        extra={"slides": TARGET},
    )


def _values(operator: Operator, target: float, actuals: F8) -> F8:
    try:
        return operator(np.full(len(actuals), target), actuals)
    except PackageFailed as error:
        message = _("The operator “%(name)s” can’t be drawn: its package fails.") % {"name": operator.name}
        raise Invalid(message, fields=[FieldProblem(NAME, message)]) from error


def _listed_operators(own: str) -> list[str]:
    return [operator.name for operator in all_operators() if operator.name != own]


def _color_index(own: str, name: str) -> int:
    """Index of the series colour; the first colour is close to the accent, so it is used last."""
    listed = _listed_operators(own)
    return 1 + (listed.index(name) if name in listed else len(listed))


def _profile_sentence(own: Operator, target: float) -> str:
    part = target / 100
    half, double = _values(own, part, np.array([part / 2, min(2 * part, 1.0)]))
    values = {
        "target": percent(part),
        "name": own.name,
        "half": signed(float(half), 2),
        "double": signed(float(double), 2),
    }
    if 2 * part <= 1:
        text = _(
            "At a target of %(target)s, %(name)s gives %(half)s to an entry that used half of it, %(double)s to one "
            "that used twice as much."
        )
        return text % values
    text = _(
        "At a target of %(target)s, %(name)s gives %(half)s to an entry that used half of it, %(double)s to one "
        "that used everything."
    )
    return text % values


def _profile_table(at: list[float], curves: Mapping[str, F8]) -> Table:
    wanted = {round(n * 100 * _PROFILE_STEP / (_N_POINTS - 1), 6) for n in range(_N_POINTS // _PROFILE_STEP + 1)}
    rows = [n for n, actual in enumerate(at) if actual in wanted]
    return Table(
        columns=(Column(_("Actual")), *(Column(name) for name in curves)),
        rows=[[f"{at[n]:g}", *(signed(float(curve[n]), 3) for curve in curves.values())] for n in rows],
        raw=[[at[n], *(float(curve[n]) for curve in curves.values())] for n in range(len(at))],
        header=("actual_percent", *(f"priority_{name}" for name in curves)),
    )


def _profile_controls(own: str, options: ProfileOptions, query: QueryDict, colors: Mapping[str, str]) -> list[Control]:
    chips = []
    for name in dict.fromkeys([*_listed_operators(own), *options.others]):
        others = [other for other in options.others if other != name]
        picked = others if name in options.others else [*others, name]
        chips.append(
            Choice(
                f"profile-{name}",
                name,
                with_changes(query, **{NAME: picked or [_NO_OTHER]}),
                name in options.others,
                swatch=colors.get(name, traces.series_color(_color_index(own, name))),
                alone=with_changes(query, **{NAME: name}),
            )
        )
    rest = [(name, value) for name, values in query.lists() for value in values if name != TARGET]
    slider = Slider(TARGET, options.target, 1, 99, 1, percent(options.target / 100), rest)
    return [
        Control(_("Target"), [], kind="range", slider=slider),
        Control(_("Operators compared with this policy’s"), chips, kind="chips"),
    ]
