"""Curves of a policy's settings: weight of usage by age, and priority by actual share at one target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.engine.decay import Window, weights
from apps.engine.decay_functions import DECAY_FUNCTIONS, DecayFunction
from apps.policies.settings import PolicySettings
from apps.priorities.metering import window_of
from apps.web.figures import axes, traces
from apps.web.figures.figure import (
    Choice,
    Column,
    Control,
    EndLabel,
    Figure,
    Table,
    period_choices,
    read_days,
    with_changes,
)

DAY_S = 86_400
_WEEK_DAYS = 7
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
    n_days = read_days(query, "age")
    functions = tuple(dict.fromkeys(query.getlist("function"))) if "function" in query else _DEFAULT_FUNCTIONS
    for name in functions:
        if name not in DECAY_FUNCTIONS and name != _OWN:
            message = _("Unknown decay function “%(name)s”.") % {"name": name[:40]}
            raise Invalid(message, fields=[FieldProblem("function", message)])
    return DecayOptions(n_days, tuple(name for name in functions if name != _OWN))


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
            words=[_("%(left)s %% left") % {"left": f"{percent:.1f}"} for percent in left[name]],
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


def _sentence(own: Window, days: int, left: float, as_of_s: float) -> str:
    week = float(weights([_WEEK_DAYS * DAY_S], own, as_of_s)[0]) * 100
    values = {"week": f"{week:.1f}", "left": f"{left:.1f}", "days": days}
    if days == _WEEK_DAYS:
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
        Control(_("Age"), period_choices(query, "age", "age", options.days)),
        Control(_("Decay functions compared with this policy’s"), functions, kind="chips"),
    ]
