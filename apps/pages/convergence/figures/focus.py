"""Figure of up to eight picked subgroups: their distance from target in points, in percent of it, or their shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from math import isfinite
from typing import Any

import numpy as np
from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.pages.convergence.figures.labels import (
    Links,
    RawRows,
    caption,
    day_text,
    file_name,
    moment_url,
    revision_marks,
)
from apps.pages.convergence.figures.options import RANGES, UNITS, FocusOptions
from apps.series.convergence.records import Convergence, Selection
from apps.series.daily_series import F8
from apps.web.figures import axes, traces
from apps.web.figures.figure import Choice, Column, Control, EndLabel, Figure, Table, with_changes
from apps.web.figures.traces import MOST_SERIES
from apps.web.figures.used_and_target import short_balance, used_text, used_words_of

_DAILY_UP_TO = 731  # days; longer series are drawn weekly up to the last year
_SLIDER = 0.09  # fraction of the height
Layout = dict[str, Any]


@dataclass(frozen=True)
class _Series:
    """One pick. at: its row in the data; values: the drawn values."""

    uid: str
    label: str
    color: str
    at: int
    is_shown: bool
    values: F8
    balance: str


def focus_figure(picked: Selection, options: FocusOptions, query: QueryDict, links: Links) -> Figure:
    """Draw the picks in order. Days outside the range are included for the slider."""
    convergence = picked.convergence
    if not convergence.members:
        return _without_data(_("Pick up to eight entries to compare."), convergence)
    series = [_series(picked, options, at) for at in range(len(convergence.members))]
    in_range = _in_range(convergence, options)
    if not in_range.any():
        values = {"first": day_text(options.period.from_on), "last": day_text(options.period.to_on)}
        return _without_data(
            _("There are no numbers between %(first)s and %(last)s. Choose a longer range.") % values,
            convergence,
            _controls(series, options, query),
        )
    if not any(np.isfinite(curve.values[in_range]).any() for curve in series):
        message = _("No visible numbers of these subgroups.")
        return _without_data(message, convergence, _controls(series, options, query))
    return _build_figure(picked, options, query, links, series, in_range)


def too_many_picks(options: FocusOptions, query: QueryDict, names: Sequence[tuple[str, str]]) -> Figure:
    """Build the figure shown instead, with choices of picks to drop. names: key and label of nine picks."""
    n = len(options.picks)
    message = _("Eight subgroups fit in one figure, and %(n)s are picked.") % {"n": n}
    choices = []
    if n == MOST_SERIES + 1:
        for key, label in names:
            left = [(pick, slot) for pick, slot in zip(options.picks, options.slots, strict=True) if pick != key]
            dropped = options.slots[options.picks.index(key)]
            slots = "".join(str((slot if slot < MOST_SERIES else dropped) + 1) for _pick, slot in left)
            choices.append(
                Choice(
                    f"drop-{key}",
                    _("Drop %(name)s") % {"name": label},
                    with_changes(query, pick=[pick for pick, _slot in left], slots=slots),
                    False,
                )
            )
    else:
        first = with_changes(query, pick=list(options.picks[:MOST_SERIES]), slots=None, hide=None)
        choices = [
            Choice("drop-rest", _("Show the first eight"), first, False),
            Choice(
                "drop-all", _("Show the default four"), with_changes(query, pick=None, slots=None, hide=None), False
            ),
        ]
    return _empty(message, [Control(_("Drop"), choices, kind="chips")])


def _title(paths: Sequence[str] = ()) -> str:
    if len(paths) == 1:
        return _("%(name)s over time") % {"name": paths[0].rpartition("/")[2]}
    return _("Convergence")


def _without_data(message: str, convergence: Convergence, controls: Sequence[Control] = ()) -> Figure:
    return _empty(message, controls, {"picks": [str(member.uid) for member in convergence.members], "slots": ""})


def _empty(message: str, controls: Sequence[Control], extra: Mapping[str, Any] | None = None) -> Figure:
    return Figure(
        "focus",
        _title(),
        message,
        (),
        {},
        Table((), (), ()),
        size="xl",
        empty=message,
        controls=controls,
        reads=False,
        extra=dict(extra or {}),
    )


def _series(picked: Selection, options: FocusOptions, at: int) -> _Series:
    convergence = picked.convergence
    member = convergence.members[at]
    slot = options.slots[at] if at < len(options.slots) else at
    names = [entry.name for entry in convergence.members]
    label = picked.paths[at].replace("/", " / ") if names.count(member.name) > 1 else member.name
    actual, target, state = convergence.actual[at], convergence.target[at], convergence.states[at]
    known = np.flatnonzero(np.isfinite(actual) & np.isfinite(target))
    last = int(known[-1]) if known.size else -1
    numbers = (float(actual[last]), float(target[last]), str(state[last])) if known.size else (np.nan, np.nan, "")
    balance = short_balance(*numbers)
    uid = str(member.uid)
    shown = len(options.hidden & {uid, *options.picks[at : at + 1]}) == 0
    return _Series(uid, label, traces.series_color(slot), at, shown, _values(actual, target, options.unit), balance)


def _values(actual: F8, target: F8, unit: str) -> F8:
    """Return the drawn values. points: from target; ratio: percent of the target; percent: the share."""
    if unit == "points":
        return (actual - target) * 100
    if unit == "ratio":
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(target > 0, 100 * actual / target, np.nan)
    return actual * 100


def _in_range(convergence: Convergence, options: FocusOptions) -> Any:
    """Mask of points within the range; the newest snapshot is in every range that ends with the last day."""
    if convergence.is_by_hour:
        return np.ones(len(convergence.on), np.bool_)
    last = convergence.on[-1] if convergence.on and convergence.latest_at is not None else options.period.to_on
    ends = last if options.period.to_on >= (convergence.state.through_on or last) else options.period.to_on
    return np.array([options.period.from_on <= on <= ends for on in convergence.on], np.bool_)


def _drawn_points(convergence: Convergence) -> Any:
    """Indices of the drawn points: all, or of long series weekly ones before the last year."""
    n = len(convergence.on)
    if n <= _DAILY_UP_TO:
        return np.arange(n)
    return np.concatenate([np.arange((n - 366) % 7, n - 366, 7), np.arange(n - 366, n)])


def _build_figure(
    picked: Selection, options: FocusOptions, query: QueryDict, links: Links, series: list[_Series], in_range: Any
) -> Figure:
    convergence, points = picked.convergence, _drawn_points(picked.convergence)
    x = [axes.moment(convergence.on[at]) for at in points]
    shown = [curve for curve in series if curve.is_shown]
    goal = {"points": 0.0, "ratio": 100.0, "percent": None}[options.unit]
    drawn: list[dict[str, Any]] = []
    if goal is not None:
        drawn.append(traces.target([x[0], x[-1]], [goal, goal]))
    elif len(shown) == 1:
        drawn += _own_target(convergence, shown[0].at, x, points)
    labels = []
    for curve in shown:
        y = axes.rounded(curve.values[points], 2)
        states = convergence.states[curve.at, points].tolist()
        words = used_words_of(convergence.actual[curve.at, points], convergence.target[curve.at, points], states)
        drawn.append(
            traces.line(x, y, name=curve.label, color=curve.color, words=words, width=2.25 if len(shown) == 1 else 1.75)
        )
        last = next((at for at in reversed(range(len(y))) if y[at] is not None), None)
        if last is not None and y[last] is not None:
            drawn.append(traces.end_dot(x[last], float(y[last] or 0), color=curve.color))
            labels.append(EndLabel(float(y[last] or 0), f"{curve.label} {curve.balance}", curve.color))
    is_alone = options.unit == "percent" and len(shown) == 1
    more = (convergence.target[shown[0].at][in_range] * 100).tolist() if is_alone else []
    return Figure(
        name="focus",
        title=_title(picked.paths),
        note={
            "points": _("Points from target"),
            "ratio": _("Percent of target"),
            "percent": _("share, percent"),
        }[options.unit],
        sentence=_sentence(convergence, shown),
        traces=drawn,
        layout=_layout(convergence, options, in_range, shown, more),
        table=_table(convergence, shown, in_range),
        size="xl",
        file=file_name(convergence, "convergence"),
        caption=caption(convergence),
        labels=labels,
        marks=revision_marks(convergence, links),
        controls=_controls(series, options, query),
        moment_url=moment_url(convergence, links),
        extra={
            "picks": [curve.uid for curve in series],
            "slots": _slots_text(series),
            "fits": {"always": [] if goal is None else [goal], "from_zero": options.unit != "points"},
        },
    )


def _own_target(convergence: Convergence, at: int, x: list[str], points: Any) -> list[dict[str, Any]]:
    target, slack = convergence.target[at, points] * 100, convergence.slack[at, points] * 100
    low = axes.rounded(np.maximum(target - slack, 0), 2)
    high, middle = axes.rounded(target + slack, 2), axes.rounded(target, 2)
    return [*traces.tolerance(x, low, high), traces.target(x, middle)]


def _layout(
    convergence: Convergence, options: FocusOptions, in_range: Any, shown: list[_Series], extra: list[float]
) -> Layout:
    """Axes for the range; y has ticks for everything that can be zoomed to."""
    values = [value for curve in shown for value in curve.values[in_range].tolist()] + extra
    every = [value for curve in shown for value in curve.values.tolist()]
    if options.unit == "points":
        y = axes.points_axis(values)
        y |= axes.more_ticks(y, every, axes.points_text)
    else:
        y = axes.share_axis(values) if options.unit == "percent" else axes.amount_axis([100.0, *values])
        y |= axes.more_ticks(y, every, lambda value: f"{value:g}\u00a0%")
    indices = np.flatnonzero(in_range)
    first, last = convergence.on[indices[0]], convergence.on[indices[-1]]
    x = axes.day_axis(first, last)
    x["range"] = [axes.moment(first), axes.moment(last + _right_gap(first, last))]
    whole = [
        axes.moment(convergence.on[0]),
        axes.moment(convergence.on[-1] + _right_gap(convergence.on[0], convergence.on[-1])),
    ]
    x["rangeslider"] = {"visible": True, "range": whole, "thickness": _SLIDER, "yaxis": {"rangemode": "auto"}}
    left = 58 if options.unit == "points" else 44
    return {"margin": axes.margin(left, 206, 26, 24), "xaxis": x, "yaxis": y}


def _right_gap(first: date, last: date) -> timedelta:
    """Space at the right end, so that the last point is clear of the edge."""
    if isinstance(last, datetime):
        return timedelta(hours=1)
    return timedelta(days=max(1, round((last - first).days / 160)))


def _sentence(convergence: Convergence, shown: list[_Series]) -> str:
    """Describe the two picks farthest from their targets."""
    now = []
    for curve in shown:
        known = np.flatnonzero(np.isfinite(convergence.actual[curve.at]) & np.isfinite(convergence.target[curve.at]))
        if known.size:
            now.append((curve, int(known[-1])))
    if not now:
        return _("No visible numbers of these subgroups.")

    def off(pair: tuple[_Series, int]) -> float:
        return float(convergence.actual[pair[0].at, pair[1]] - convergence.target[pair[0].at, pair[1]])

    now.sort(key=lambda pair: -abs(off(pair)))
    first, index = now[0]
    numbers = (float(convergence.actual[first.at, index]), float(convergence.target[first.at, index]))
    words = used_text(*numbers, str(convergence.states[first.at, index]))
    text = f"{first.label}: {words}."
    if len(now) > 1 and str(convergence.states[now[1][0].at, now[1][1]]) not in {"on", "no_demand"}:
        second, index = now[1]
        numbers = (float(convergence.actual[second.at, index]), float(convergence.target[second.at, index]))
        text += f" {second.label}: {used_text(*numbers, str(convergence.states[second.at, index]))}."
    return text


def _table(convergence: Convergence, shown: list[_Series], in_range: Any) -> Table:
    """One row per point, newest first."""
    indices = np.flatnonzero(in_range)[::-1]
    on = [convergence.on[at] for at in indices]
    pairs = [
        column[indices] for curve in shown for column in (convergence.actual[curve.at], convergence.target[curve.at])
    ]
    texts = [[f"{c:.1f}" if isfinite(c) else "–" for c in (column * 100).tolist()] for column in pairs]
    rows = [[day_text(day), *numbers] for day, *numbers in zip(on, *texts, strict=True)]
    titles = [title for curve in shown for title in (_("%(name)s, actual %%"), _("%(name)s, target %%"))]
    names = [curve.label for curve in shown for _twice in range(2)]
    columns = [Column(title % {"name": name}) for title, name in zip(titles, names, strict=True)]
    kinds = [f"{curve.label} {kind}" for curve in shown for kind in ("actual_percent", "target_percent")]
    step = "hour" if convergence.is_by_hour else "day"
    first = Column(_("Hour") if convergence.is_by_hour else _("Day"), is_number=False)
    return Table((first, *columns), rows, RawRows(on, pairs), header=(step, *kinds))


def _controls(series: list[_Series], options: FocusOptions, query: QueryDict) -> list[Control]:
    labels = {"7": _("7 d"), "30": _("30 d"), "90": _("90 d"), "365": _("1 y"), "all": _("all")}
    ranges = [
        Choice(
            f"range-{range_name}",
            labels[range_name],
            with_changes(query, range=range_name),
            _is_range(options, range_name),
        )
        for range_name in RANGES
    ]
    names = {"points": _("Points from target"), "ratio": _("Percent of target"), "percent": _("Share")}
    units = [
        Choice(f"show-{unit}", names[unit], with_changes(query, show=unit), options.unit == unit) for unit in UNITS
    ]
    uids = [curve.uid for curve in series]
    stated = {"pick": uids, "slots": _slots_text(series)}
    hidden = [curve.uid for curve in series if not curve.is_shown]
    chips = []
    for curve in series:
        others = [uid for uid in hidden if uid != curve.uid]
        hide = others if not curve.is_shown else [*hidden, curve.uid]
        left = [each for each in series if each is not curve]
        alone = [uid for uid in uids if uid != curve.uid]
        is_alone = curve.is_shown and len(hidden) == len(uids) - 1
        chips.append(
            Choice(
                f"pick-{curve.uid}",
                curve.label,
                with_changes(query, **stated, hide=None if len(hide) == len(uids) else hide or None),
                curve.is_shown,
                swatch=curve.color,
                note=curve.balance,
                alone=with_changes(query, **stated, hide=None if is_alone or not alone else alone),
                drop=with_changes(
                    query,
                    pick=[each.uid for each in left] or None,
                    slots=_slots_text(left) or None,
                    hide=others or None,
                )
                if len(series) > 1
                else "",
            )
        )
    known = [] if options.by_hour else [Control(_("Period"), ranges)]
    picks = Control(_("Subgroups in the figure"), chips, kind="chips", drop_label=_("Drop"))
    return [*known, Control(_("Shown"), units), picks]


def _is_range(options: FocusOptions, range_name: str) -> bool:
    if options.range_:
        return options.range_ == range_name
    return options.period == options.whole if range_name == "all" else options.period.n_days == int(range_name)


def _slots_text(series: Sequence[_Series]) -> str:
    return "".join(curve.color.rpartition("-")[2] for curve in series)
