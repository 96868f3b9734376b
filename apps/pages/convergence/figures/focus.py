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
    found = picked.convergence
    if not found.members:
        return _without_data(_("Pick up to eight entries to compare."), found)
    series = [_series(picked, options, at) for at in range(len(found.members))]
    in_range = _in_range(found, options)
    if not in_range.any():
        values = {"first": day_text(options.period.from_on), "last": day_text(options.period.to_on)}
        return _without_data(
            _("There are no numbers between %(first)s and %(last)s. Choose a longer range.") % values,
            found,
            _controls(series, options, query),
        )
    if not any(np.isfinite(one.values[in_range]).any() for one in series):
        message = _("No visible numbers of these subgroups.")
        return _without_data(message, found, _controls(series, options, query))
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


def _without_data(message: str, found: Convergence, controls: Sequence[Control] = ()) -> Figure:
    return _empty(message, controls, {"picks": [str(member.uid) for member in found.members], "slots": ""})


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
    found = picked.convergence
    member = found.members[at]
    slot = options.slots[at] if at < len(options.slots) else at
    names = [one.name for one in found.members]
    label = picked.paths[at].replace("/", " / ") if names.count(member.name) > 1 else member.name
    actual, target, state = found.actual[at], found.target[at], found.states[at]
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


def _in_range(found: Convergence, options: FocusOptions) -> Any:
    """Mask of points within the range; the newest snapshot is in every range that ends with the last day."""
    if found.is_by_hour:
        return np.ones(len(found.on), np.bool_)
    last = found.on[-1] if found.on and found.latest_at is not None else options.period.to_on
    ends = last if options.period.to_on >= (found.state.through_on or last) else options.period.to_on
    return np.array([options.period.from_on <= on <= ends for on in found.on], np.bool_)


def _drawn_points(found: Convergence) -> Any:
    """Indices of the drawn points: all, or of long series weekly ones before the last year."""
    n = len(found.on)
    if n <= _DAILY_UP_TO:
        return np.arange(n)
    return np.concatenate([np.arange((n - 366) % 7, n - 366, 7), np.arange(n - 366, n)])


def _build_figure(
    picked: Selection, options: FocusOptions, query: QueryDict, links: Links, series: list[_Series], in_range: Any
) -> Figure:
    found, points = picked.convergence, _drawn_points(picked.convergence)
    x = [axes.moment(found.on[at]) for at in points]
    shown = [one for one in series if one.is_shown]
    goal = {"points": 0.0, "ratio": 100.0, "percent": None}[options.unit]
    drawn: list[dict[str, Any]] = []
    if goal is not None:
        drawn.append(traces.target([x[0], x[-1]], [goal, goal]))
    elif len(shown) == 1:
        drawn += _own_target(found, shown[0].at, x, points)
    labels = []
    for one in shown:
        y = axes.rounded(one.values[points], 2)
        states = found.states[one.at, points].tolist()
        words = used_words_of(found.actual[one.at, points], found.target[one.at, points], states)
        drawn.append(
            traces.line(x, y, name=one.label, color=one.color, words=words, width=2.25 if len(shown) == 1 else 1.75)
        )
        last = next((at for at in reversed(range(len(y))) if y[at] is not None), None)
        if last is not None and y[last] is not None:
            drawn.append(traces.end_dot(x[last], float(y[last] or 0), color=one.color))
            labels.append(EndLabel(float(y[last] or 0), f"{one.label} {one.balance}", one.color))
    is_alone = options.unit == "percent" and len(shown) == 1
    more = (found.target[shown[0].at][in_range] * 100).tolist() if is_alone else []
    return Figure(
        name="focus",
        title=_title(picked.paths),
        note={
            "points": _("Points from target"),
            "ratio": _("Percent of target"),
            "percent": _("share, percent"),
        }[options.unit],
        sentence=_sentence(found, shown),
        traces=drawn,
        layout=_layout(found, options, in_range, shown, more),
        table=_table(found, shown, in_range),
        size="xl",
        file=file_name(found, "convergence"),
        caption=caption(found),
        labels=labels,
        marks=revision_marks(found, links),
        controls=_controls(series, options, query),
        moment_url=moment_url(found, links),
        extra={
            "picks": [one.uid for one in series],
            "slots": _slots_text(series),
            "fits": {"always": [] if goal is None else [goal], "from_zero": options.unit != "points"},
        },
    )


def _own_target(found: Convergence, at: int, x: list[str], points: Any) -> list[dict[str, Any]]:
    target, slack = found.target[at, points] * 100, found.slack[at, points] * 100
    low = axes.rounded(np.maximum(target - slack, 0), 2)
    high, middle = axes.rounded(target + slack, 2), axes.rounded(target, 2)
    return [*traces.tolerance(x, low, high), traces.target(x, middle)]


def _layout(
    found: Convergence, options: FocusOptions, in_range: Any, shown: list[_Series], extra: list[float]
) -> Layout:
    """Axes for the range; y has ticks for everything that can be zoomed to."""
    values = [value for one in shown for value in one.values[in_range].tolist()] + extra
    every = [value for one in shown for value in one.values.tolist()]
    if options.unit == "points":
        y = axes.points_axis(values)
        y |= axes.more_ticks(y, every, axes.points_text)
    else:
        y = axes.share_axis(values) if options.unit == "percent" else axes.amount_axis([100.0, *values])
        y |= axes.more_ticks(y, every, lambda value: f"{value:g}\u00a0%")
    indices = np.flatnonzero(in_range)
    first, last = found.on[indices[0]], found.on[indices[-1]]
    x = axes.day_axis(first, last)
    x["range"] = [axes.moment(first), axes.moment(last + _right_gap(first, last))]
    whole = [axes.moment(found.on[0]), axes.moment(found.on[-1] + _right_gap(found.on[0], found.on[-1]))]
    x["rangeslider"] = {"visible": True, "range": whole, "thickness": _SLIDER, "yaxis": {"rangemode": "auto"}}
    left = 58 if options.unit == "points" else 44
    return {"margin": axes.margin(left, 206, 26, 24), "xaxis": x, "yaxis": y}


def _right_gap(first: date, last: date) -> timedelta:
    """Space at the right end, so that the last point is clear of the edge."""
    if isinstance(last, datetime):
        return timedelta(hours=1)
    return timedelta(days=max(1, round((last - first).days / 160)))


def _sentence(found: Convergence, shown: list[_Series]) -> str:
    """Describe the two picks farthest from their targets."""
    now = []
    for one in shown:
        known = np.flatnonzero(np.isfinite(found.actual[one.at]) & np.isfinite(found.target[one.at]))
        if known.size:
            now.append((one, int(known[-1])))
    if not now:
        return _("No visible numbers of these subgroups.")

    def off(pair: tuple[_Series, int]) -> float:
        return float(found.actual[pair[0].at, pair[1]] - found.target[pair[0].at, pair[1]])

    now.sort(key=lambda pair: -abs(off(pair)))
    first, index = now[0]
    numbers = (float(found.actual[first.at, index]), float(found.target[first.at, index]))
    words = used_text(*numbers, str(found.states[first.at, index]))
    text = f"{first.label}: {words}."
    if len(now) > 1 and str(found.states[now[1][0].at, now[1][1]]) not in {"on", "no_demand"}:
        second, index = now[1]
        numbers = (float(found.actual[second.at, index]), float(found.target[second.at, index]))
        text += f" {second.label}: {used_text(*numbers, str(found.states[second.at, index]))}."
    return text


def _table(found: Convergence, shown: list[_Series], in_range: Any) -> Table:
    """One row per point, newest first."""
    indices = np.flatnonzero(in_range)[::-1]
    on = [found.on[at] for at in indices]
    pairs = [column[indices] for one in shown for column in (found.actual[one.at], found.target[one.at])]
    texts = [[f"{c:.1f}" if isfinite(c) else "–" for c in (column * 100).tolist()] for column in pairs]
    rows = [[day_text(day), *numbers] for day, *numbers in zip(on, *texts, strict=True)]
    titles = [title for one in shown for title in (_("%(name)s, actual %%"), _("%(name)s, target %%"))]
    names = [one.label for one in shown for _twice in range(2)]
    columns = [Column(title % {"name": name}) for title, name in zip(titles, names, strict=True)]
    kinds = [f"{one.label} {kind}" for one in shown for kind in ("actual_percent", "target_percent")]
    step = "hour" if found.is_by_hour else "day"
    first = Column(_("Hour") if found.is_by_hour else _("Day"), is_number=False)
    return Table((first, *columns), rows, RawRows(on, pairs), header=(step, *kinds))


def _controls(series: list[_Series], options: FocusOptions, query: QueryDict) -> list[Control]:
    labels = {"7": _("7 d"), "30": _("30 d"), "90": _("90 d"), "365": _("1 y"), "all": _("all")}
    ranges = [
        Choice(f"range-{one}", labels[one], with_changes(query, range=one), _is_range(options, one)) for one in RANGES
    ]
    names = {"points": _("Points from target"), "ratio": _("Percent of target"), "percent": _("Share")}
    units = [Choice(f"show-{one}", names[one], with_changes(query, show=one), options.unit == one) for one in UNITS]
    uids = [one.uid for one in series]
    stated = {"pick": uids, "slots": _slots_text(series)}
    hidden = [one.uid for one in series if not one.is_shown]
    chips = []
    for one in series:
        others = [uid for uid in hidden if uid != one.uid]
        hide = others if not one.is_shown else [*hidden, one.uid]
        left = [each for each in series if each is not one]
        alone = [uid for uid in uids if uid != one.uid]
        is_alone = one.is_shown and len(hidden) == len(uids) - 1
        chips.append(
            Choice(
                f"pick-{one.uid}",
                one.label,
                with_changes(query, **stated, hide=None if len(hide) == len(uids) else hide or None),
                one.is_shown,
                swatch=one.color,
                note=one.balance,
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


def _is_range(options: FocusOptions, one: str) -> bool:
    if options.range_:
        return options.range_ == one
    return options.period == options.whole if one == "all" else options.period.n_days == int(one)


def _slots_text(series: Sequence[_Series]) -> str:
    return "".join(one.color.rpartition("-")[2] for one in series)
