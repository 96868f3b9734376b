"""Profile of priority operators: F over actual for one target, the policy's own operator beside others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.engine.errors import BadParameter, PackageFailed
from apps.engine.operators import DEFAULT_K, Operator, all_operators, get_operator
from apps.figures import axes, traces
from apps.figures.controls import Choice, Control, Slider, changed
from apps.figures.figure import Column, EndLabel, Figure, Table
from apps.priorities.sentences.numbers import MINUS, percent, signed

F8 = npt.NDArray[np.float64]
NAME, TARGET = "profile", "profile_target"  # names in the query of the page
USUAL_TARGET = 20.0
_USUAL = ("absolute", "sigmoid-2")
_NO_OTHER = "own"
_N_POINTS = 201
_TABLE_STEP = 10


@dataclass(frozen=True, slots=True)
class ProfileAsked:
    """target: percent, 0 < target < 100. others: operators beside the policy's own, at most eight."""

    target: float
    others: tuple[str, ...]


def read_profile(query: QueryDict, own: str) -> ProfileAsked:
    """`?profile_target=20&profile=absolute&profile=slurm`; `profile=own` shows the policy's own operator alone.

    own: the policy's operator, which is always shown. Raises Invalid, with the name in the address, for a target or
    an operator that doesn't exist.
    """
    names = query.getlist(NAME) if NAME in query else list(_USUAL)
    for name in names:
        if name != _NO_OTHER:
            _operator(name, DEFAULT_K)
    others = [name for name in dict.fromkeys(names) if name not in (own, _NO_OTHER)]
    return ProfileAsked(_target(query.get(TARGET, f"{USUAL_TARGET:g}")), tuple(others[: traces.MOST_SERIES]))


def profile_of(algorithm: Mapping[str, Any], policy: str, query: QueryDict) -> Figure:
    """The figure for a policy with these settings of its algorithm; `relative` where that has no operator."""
    own = str(algorithm.get("operator", "relative"))
    asked = read_profile(query, own)
    return profile_figure(own, asked, query, policy=policy, k=float(algorithm.get("k", DEFAULT_K)))


def _target(text: str) -> float:
    try:
        target = float(text[:40].replace(",", ".", 1))
    except ValueError:
        target = -1.0
    if not 0 < target < 100:  # NaN is neither
        message = _("“%(text)s” is not a valid target: enter percent above 0 and below 100.") % {"text": text[:40]}
        raise Invalid(message, fields=[FieldProblem(TARGET, message)])
    return target


def _operator(name: str, k: float) -> Operator:
    try:
        return get_operator(name, k=k)
    except BadParameter:
        message = _("Unknown operator “%(name)s”.") % {"name": name[:40]}
        raise Invalid(message, fields=[FieldProblem(NAME, message)]) from None


def profile_figure(own: str, asked: ProfileAsked, query: QueryDict, *, policy: str, k: float = DEFAULT_K) -> Figure:
    """own: the operator to compare with, k: of `combined`. Actuals and the target in percent, priorities −1..1."""
    shown = {name: _operator(name, k) for name in (own, *asked.others)}
    target = asked.target / 100
    actuals = np.unique(np.append(np.linspace(0.0, 1.0, _N_POINTS), target))
    curves = {name: _values(operator, target, actuals) for name, operator in shown.items()}
    colors = _colors(own, shown)
    at = [round(float(one) * 100, 6) for one in actuals]
    lines = [
        traces.line(
            at,
            [round(float(one), 6) for one in curves[name]],
            name=name,
            color=colors[name],
            words=[signed(float(one), 3) for one in curves[name]],
            width=2.25 if name == own else 1.75,
        )
        for name in reversed(shown)
    ]
    marks = axes.ticks(0, 100, 5)
    return Figure(
        name="operator",
        title=_("Priority over actual"),
        note=_("above 0 is served earlier, below 0 later"),
        sentence=_sentence(shown[own], asked.target),
        traces=[
            traces.target([asked.target, asked.target], [-1, 1]),
            *lines,
            traces.end_dot(asked.target, 0.0, color="$ink"),
        ],
        layout={
            "margin": axes.margin(44, 158, 8, 40),
            "xaxis": {
                "range": [0, 100],
                "tickvals": marks,
                "ticktext": [f"{one:g}" for one in marks[:-1]] + ["100\u00a0%"],
                "title": {"text": _("actual share")},
                "unifiedhovertitle": {"text": _("actual %{x:.1f} %")},
            },
            "yaxis": {
                "range": [-1.06, 1.06],
                "tickvals": [-1, -0.5, 0, 0.5, 1],
                "ticktext": [f"{MINUS}1", f"{MINUS}0.5", "0", "+0.5", "+1"],
            },
        },
        table=_table(at, curves),
        labels=[EndLabel(float(curves[name][-1]), name, colors[name]) for name in shown],
        controls=_controls(own, asked, query, colors),
        file=f"fairshare_{policy}_operator_{own}_{asked.target:g}",
        caption=_("%(policy)s, target %(target)s") % {"policy": policy, "target": percent(target)},
        extra={"slides": TARGET},
    )


def _values(operator: Operator, target: float, actuals: F8) -> F8:
    try:
        return operator(np.full(len(actuals), target), actuals)
    except PackageFailed as error:
        message = _("The operator “%(name)s” can’t be drawn: its package fails.") % {"name": operator.name}
        raise Invalid(message, fields=[FieldProblem(NAME, message)]) from error


def _colors(own: str, shown: Mapping[str, Any]) -> dict[str, str]:
    """An operator keeps its colour whatever else is shown; the policy's own is the accent."""
    return {name: "$accent" if name == own else traces.series_color(_place(own, name)) for name in shown}


def _listed(own: str) -> list[str]:
    return [operator.name for operator in all_operators() if operator.name != own]


def _place(own: str, name: str) -> int:
    """Of a series colour: the first one is near to the accent, so it is the last to be given."""
    listed = _listed(own)
    return 1 + (listed.index(name) if name in listed else len(listed))


def _sentence(own: Operator, target: float) -> str:
    part = target / 100
    half, double = _values(own, part, np.array([part / 2, min(2 * part, 1.0)]))
    said = {
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
        return text % said
    text = _(
        "At a target of %(target)s, %(name)s gives %(half)s to an entry that used half of it, %(double)s to one "
        "that used everything."
    )
    return text % said


def _table(at: list[float], curves: Mapping[str, F8]) -> Table:
    wanted = {round(n * 100 * _TABLE_STEP / (_N_POINTS - 1), 6) for n in range(_N_POINTS // _TABLE_STEP + 1)}
    rows = [n for n, one in enumerate(at) if one in wanted]
    return Table(
        columns=(Column(_("Actual, %")), *(Column(name) for name in curves)),
        rows=[[f"{at[n]:g}", *(signed(float(curve[n]), 3) for curve in curves.values())] for n in rows],
        raw=[[at[n], *(float(curve[n]) for curve in curves.values())] for n in range(len(at))],
        header=("actual_percent", *(f"priority_{name}" for name in curves)),
    )


def _controls(own: str, asked: ProfileAsked, query: QueryDict, colors: Mapping[str, str]) -> list[Control]:
    chips = []
    for name in dict.fromkeys([*_listed(own), *asked.others]):
        others = [one for one in asked.others if one != name]
        picked = others if name in asked.others else [*others, name]
        chips.append(
            Choice(
                f"profile-{name}",
                name,
                changed(query, **{NAME: picked or [_NO_OTHER]}),
                name in asked.others,
                swatch=colors.get(name, traces.series_color(_place(own, name))),
                alone=changed(query, **{NAME: name}),
            )
        )
    rest = [(name, value) for name, values in query.lists() for value in values if name != TARGET]
    slider = Slider(TARGET, asked.target, 1, 99, 1, percent(asked.target / 100), rest)
    return [
        Control(_("Target"), [], kind="range", slider=slider),
        Control(_("Operators compared with this policy’s"), chips, kind="chips"),
    ]
