"""The course of an entry as a picture: an SVG from the server, and the same as traces and layout of plotly.js.

Places in the SVG are parts of the inner box, whose margins the style sheet sets, so one picture fits every width.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any

import numpy as np
from django.utils import formats
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from apps.pages.convergence.figures.course import Axis, Course, GroupNumbers, moment_of
from apps.pages.convergence.figures.labels import mark_of
from apps.priorities.sentences.numbers import percent, points
from apps.web.figures import scales, traces
from apps.web.figures.elements import element, joined
from apps.web.figures.figure import Trace

# Inner widths in pixels for which days are labelled: of the large picture beside its facts and on a narrow window, and
# of a tile. Labels of tiles may take half the room.
WIDE, NARROW, TILE = 794, 284, 224
_ROOM, _ROOM_OF_TILE = 0.8, 0.55
N_INTERVALS, N_INTERVALS_OF_TILE = 4, 2
_HEADROOM = 1.12
_UNIT = 1000  # of the view box
_LEAST_OFF = 0.05  # points that are written as more than zero
_NEAR_END = 70 / WIDE  # part of the axis beside the last point that decides on which side its value is written
_HIT_WORDS = {WIDE: (92, 54), NARROW: (92, 54)}  # pixels kept free at the left and the right of their middle
Segment = tuple[list[tuple[float, float]], float]  # places with values, and where the last one ends
_MARKS = {"before": "before", "missing": "gap", "idle": "idle", "inferred": "idle inferred"}
_WIDTH_OF_WORDS = 170 / WIDE  # part of the axis


@dataclass(frozen=True, eq=False)
class Scale:
    """The vertical axis. ticks: values with labels."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    def part(self, value: float) -> float:
        """The place of a value, 0 at the top."""
        return (self.high - value) / (self.high - self.low)


def scale_of(numbers: GroupNumbers, rows: Iterable[int], axis: Axis, *, is_tile: bool = False) -> Scale:
    """One scale that has room for all these entries."""
    n = N_INTERVALS_OF_TILE if is_tile else N_INTERVALS
    headroom = 1.0 if is_tile else _HEADROOM
    top = scales.top_of(numbers.furthest(row, axis) * headroom for row in rows)
    if numbers.query.unit == "points":
        return Scale(-top, top, scales.point_ticks(top, n))
    return Scale(0.0, top, scales.share_ticks(top, n))


def tick_days(axis: Axis, width: int) -> Sequence[date]:
    return scales.day_ticks(axis.first, axis.last, width, room=_ROOM_OF_TILE if width == TILE else _ROOM)


def axis_ticks(axis: Axis, width: int) -> list[tuple[float, str]]:
    """Ordinals with their labels: hours where a short axis has them, and days else."""
    room = _ROOM_OF_TILE if width == TILE else _ROOM
    days = tick_days(axis, width)
    hours = scales.hour_ticks(axis.first, axis.last, width, room=room) if axis.is_by_hour else ()
    if axis.is_by_hour and not hours and not days:  # midnights at the edges alone
        hours = scales.hour_ticks(axis.first, axis.last, width)
    if hours:
        return [(at, hour_label(at, axis)) for at in hours]
    return [(float(day.toordinal()), day_label(day, axis)) for day in days]


def hour_label(at: float, axis: Axis) -> str:
    """The time, at midnight the day that begins."""
    hour = round(at % 1 * 24) % 24
    return day_label(date.fromordinal(round(at)), axis) if not hour else f"{hour:02d}:00"


def day_label(day: date, axis: Axis) -> str:
    """Label of a day; 1 January has its year on an axis over several years."""
    if day.month == 1 and day.day == 1 and date.fromordinal(int(axis.first)).year < day.year:
        return formats.date_format(day, "j M Y")
    return scales.day_text(day)


def state_class(course: Course) -> str:
    return mark_of(course.state, course.off_now).removeprefix("$")


def end_text(course: Course, at: int) -> str:
    if course.unit == "share":
        return percent(float(course.shares[at]))
    off = float(course.off[at])
    if abs(off) < _LEAST_OFF:
        return scales.points_text(0.0)
    return (_("%(n)s over") if off > 0 else _("%(n)s under")) % {"n": points(off / 100)}


def is_end_text_below(course: Course, at: int) -> bool:
    """Whether the value of the last point is written below it, because the line comes from above."""
    axis, end, first = course.axis, course.values[at], at
    while first and course.values[first - 1] is not None:
        first -= 1
    if end is None or first == at:
        return False
    parts = [axis.part(place) for place in axis.points[first : at + 1]]
    near = np.linspace(max(parts[0], parts[-1] - _NEAR_END), parts[-1], 9)[:-1]  # the line above or below the words
    return bool(np.interp(near, parts, np.asarray(course.values[first : at + 1], np.float64)).mean() > end)


def hit_part(axis: Axis, at: float, width: int) -> float:
    """Middle of the words about the day on target: clear of now and of the right end."""
    left, right = _HIT_WORDS[width]
    least = (axis.part(axis.now) if axis.now is not None else 0.0) + left / width
    return max(least, min(axis.part(at), 1 - right / width)) if least < 1 - right / width else 1 - right / width


# --- SVG


class Pen:
    """Places in the view box of courses with one axis and one scale, whose places are mostly the same."""

    def __init__(self, axis: Axis, scale: Scale) -> None:
        self.axis, self.scale = axis, scale
        self.x = cache(lambda at: f"{axis.part(at) * _UNIT:.1f}".removesuffix(".0"))
        self.y = cache(lambda value: f"{scale.part(value) * _UNIT:.1f}".removesuffix(".0"))

    def line(self, places: Sequence[float], values: Sequence[float | None]) -> str:
        """A line with gaps where a value is unknown."""
        path, is_down = [], False
        for place, value in zip(places, values, strict=True):
            if value is None:
                is_down = False
                continue
            path.append(f"{'L' if is_down else 'M'}{self.x(place)} {self.y(value)}")
            is_down = True
        return "".join(path)

    def steps(self, segment: Sequence[tuple[float, float]], end: float) -> str:
        """A line whose values hold until the next one."""
        path = "".join(
            f"{'H' if at else 'M'}{self.x(place)}{'V' if at else ' '}{self.y(value)}"
            for at, (place, value) in enumerate(segment)
        )
        return f"{path}H{self.x(end)}"

    def area(self, places: Sequence[float], low: Sequence[float], high: Sequence[float]) -> str:
        there = self.line(places, high)
        back = self.line(places[::-1], low[::-1])
        return f"{there}{back.replace('M', 'L', 1)}Z" if there else ""

    def box(self, first: float, last: float, top: float, bottom: float) -> str:
        return f"M{self.x(first)} {top:g}H{self.x(last)}V{bottom:g}H{self.x(first)}Z"


def segments_of(course: Course, row: Sequence[float | None]) -> list[Segment]:
    """Runs of known values of a step line, at their changes only; the last one holds to the end of the axis."""
    places = course.axis.points
    runs: list[Segment] = []
    open_run: list[tuple[float, float]] = []
    for place, value in zip(places, row, strict=True):
        if value is None:
            if open_run:
                runs.append((open_run, place))
                open_run = []
        elif not open_run or open_run[-1][1] != value:
            open_run.append((place, value))
    if open_run:
        runs.append((open_run, max(course.axis.whole[1], places[-1])))
    return runs


def draw_svg(course: Course, pen: Pen, *, is_tile: bool = False) -> SafeString:
    """The whole picture as an SVG, hidden from assistive technology: words say the same beside it."""
    return _element(
        "svg", "chart course", joined(_parts(course, pen, is_tile=is_tile)), aria_hidden="true", focusable="false"
    )


def _parts(course: Course, pen: Pen, *, is_tile: bool) -> Iterator[SafeString]:
    axis, scale = pen.axis, pen.scale
    grid = "".join(f"M0 {pen.y(value)}H{_UNIT}" for value, _text in scale.ticks[1:])
    yield _box("", _path("grid", grid), joined(_lines(course, pen, is_tile=is_tile)))
    yield _axis(course, pen, is_tile=is_tile)
    for value, text in scale.ticks:
        yield element("text", text, x="-6", y=_percent(scale.part(value)), dy="4", text_anchor="end")
    widths = {TILE: ""} if is_tile else {WIDE: "wide", NARROW: "narrow"}
    for width, css in widths.items():
        labels = [
            element("text", text, x=_percent(axis.part(at)), y="100%", dy="17") for at, text in axis_ticks(axis, width)
        ]
        yield _element("g", f"days {css}".strip(), joined(labels))
    end = course.end
    if is_tile:
        yield element("line", "", **{"class": "cross"}, visibility="hidden", y2="100%")
    else:
        yield from _words(course)
    if course.reach is not None:
        yield _dot("hit", axis.part(course.reach.at), scale.part(course.reach.value), 3 if is_tile else 4.5)
    if end is not None:
        value = course.values[end] or 0.0
        left, top = axis.part(axis.points[end]), scale.part(value)
        yield _dot(f"dot-end {state_class(course)}", left, top, 3 if is_tile else 4)
        if not is_tile:
            dy = "20" if is_end_text_below(course, end) else "-10"
            place = {"x": _percent(left), "y": _percent(top), "dx": "-8", "dy": dy}
            yield _element("text", "em halo end", end_text(course, end), **place)


def _element(tag: str, css: str, inner: str = "", **attributes: str) -> SafeString:
    return element(tag, inner, **({"class": css} if css else {}), **attributes)


def _percent(part: float) -> str:
    return f"{part * 100:.2f}%"


def _dot(css: str, left: float, top: float, r: float) -> SafeString:
    return _element("circle", css, cx=_percent(left), cy=_percent(top), r=f"{r:g}")


def _path(css: str, d: str) -> SafeString:
    return _element("path", css, d=d) if d else joined(())


def _box(css: str, *parts: SafeString, **place: str) -> SafeString:
    """Parts in units of the view box, stretched to the inner box."""
    size = {"width": "100%", "height": "100%", "viewBox": f"0 0 {_UNIT} {_UNIT}", **place}
    return _element("svg", css, joined(parts), preserveAspectRatio="none", **size)


def _lines(course: Course, pen: Pen, *, is_tile: bool) -> Iterator[SafeString]:
    """From bottom to top: days ahead, tolerance, no demand, the period before, projection, target, share."""
    axis, bottom = course.axis, float(_UNIT)
    if axis.now is not None and axis.last > axis.now:
        yield _path("ahead-bg", pen.box(axis.now, axis.last, 0, bottom))
    for kind in ("before", "missing", "idle", "inferred"):
        spans = course.marks.get(kind, ())
        yield _path(_MARKS[kind], "".join(pen.box(first, last, 0, bottom) for first, last in spans))
    band = []
    for (low, end), (high, _end) in zip(segments_of(course, course.low), segments_of(course, course.high), strict=True):
        back = "".join(
            f"H{pen.x(place)}V{pen.y(low[at - 1][1])}" if at else f"H{pen.x(place)}"
            for at, (place, _value) in reversed(list(enumerate(low)))
        )
        band.append(f"{pen.steps(high, end)}V{pen.y(low[-1][1])}{back}Z")
    yield _path("band", "".join(band))
    if not is_tile:
        rules = (tick.at for tick in course.revisions if tick.text and axis.shows(tick.at))
        yield _path("pub", "".join(f"M{pen.x(at)} 0V{_UNIT}" for at in rules))
        if axis.now is not None and axis.shows(axis.now):
            yield _path("now", f"M{pen.x(axis.now)} 0V{_UNIT}")
    yield _path("prior", pen.line(axis.points, course.before) if course.before else "")
    state = state_class(course)
    if course.likely and axis.now is not None:
        places = [axis.now, *axis.ahead]
        yield _path("fan", pen.area(places, course.least, course.most))
        yield _path(f"line fc {state}", pen.line(places, course.likely))
    yield _path("target", "".join(pen.steps(run, end) for run, end in segments_of(course, course.target)))
    starved = course.marks.get("starved", ())
    yield _path("starved", "".join(f"M{pen.x(first)} {_UNIT - 3}H{pen.x(last)}" for first, last in starved))
    yield _path(f"line {state}", pen.line(axis.points, course.values))


def _axis(course: Course, pen: Pen, *, is_tile: bool) -> SafeString:
    """The line of the axis with its ticks, revisions above it, and the range of days on target."""
    axis = course.axis
    ticks = "".join(f"M{pen.x(at)} 0V4" for at, _text in axis_ticks(axis, TILE if is_tile else WIDE))
    shown = [tick for tick in course.revisions if axis.shows(tick.at)]
    quiet = "".join(f"M{pen.x(tick.at)} -4V0" for tick in shown if not tick.text and not is_tile)
    own = "".join(f"M{pen.x(tick.at)} -7V0" for tick in shown if tick.text)
    parts = [_path("axis", f"M0 0H{_UNIT}{ticks}"), _path("rev", quiet), _path("rev own", own)]
    reach = course.reach
    if reach is not None and reach.early is not None and not is_tile:
        last = min(reach.late if reach.late is not None else axis.last, axis.last)
        parts.append(_path("range", f"M{pen.x(reach.early)} -1.5H{pen.x(last)}"))
    return _box("on-axis", *parts, y="100%", height="4", viewBox=f"0 0 {_UNIT} 4")


def _words(course: Course) -> Iterator[SafeString]:
    axis = course.axis
    for words in revision_labels(course):
        place = {"x": _percent(words.part), "dx": "-5" if words.is_left else "5", "dy": "10"}
        kinds = ["revt", *(["wide"] if words.is_wide_only else []), *(["end"] if words.is_left else [])]
        yield _element("text", " ".join(kinds), words.text, **place)
    if axis.now is not None and axis.shows(axis.now) and axis.last > axis.now:
        place = {"x": _percent(axis.part(axis.now)), "y": "100%", "dx": "5", "dy": "-6"}
        yield _element("text", "nowt", _("now"), **place)
    if course.reach is not None:
        for width, css in ((WIDE, "wide"), (NARROW, "narrow")):
            place = {"x": _percent(hit_part(axis, course.reach.at, width)), "y": "100%", "dy": "-7"}
            yield _element("text", f"hitt {css}", course.reach.label, **place)


@dataclass(frozen=True, slots=True)
class RevisionLabel:
    """Words beside the rule of a revision. is_left: where the right end would cut them, or the line of now cross them.
    is_wide_only: a narrow window has no room.
    """

    part: float
    text: str
    is_left: bool
    is_wide_only: bool


def revision_labels(course: Course) -> list[RevisionLabel]:
    """Words of the newest revisions that have room; the read-out has the others."""
    rows: list[RevisionLabel] = []
    axis, limit = course.axis, 1.0
    now = axis.part(axis.now) if axis.now is not None and axis.shows(axis.now) else 1.0
    for tick in reversed(course.revisions):
        part = axis.part(tick.at)
        if not tick.text or not 0 <= part <= 1:
            continue
        end = now if part <= now else 1.0
        has_room = part + _WIDTH_OF_WORDS <= min(limit, end)
        if not has_room and (rows or part < _WIDTH_OF_WORDS):
            continue
        widest = _WIDTH_OF_WORDS * WIDE / NARROW
        is_wide_only = bool(rows) or (part + widest > end if has_room else part < widest)
        rows.append(RevisionLabel(part, tick.text, not has_room, is_wide_only))
        limit = part if has_room else part - _WIDTH_OF_WORDS
    return rows


# --- plotly.js


def traces_of(course: Course) -> list[Trace]:
    """Traces in the order of the lines of the SVG."""
    axis = course.axis
    drawn: list[Trace] = []
    for (low, end), (high, _end) in zip(segments_of(course, course.low), segments_of(course, course.high), strict=True):
        drawn += _band(low, high, end)
    x = [moment_of(at) for at in axis.points]
    if course.before:
        pen = {"color": "$line-strong", "width": 1.25}
        drawn.append(_trace(x, course.before, pen))
    color = f"${state_class(course)}"
    if course.likely and axis.now is not None:
        ahead = [moment_of(at) for at in (axis.now, *axis.ahead)]
        drawn += traces.fan(ahead, course.least, course.most)
        drawn.append(_trace(ahead, course.likely, {"color": color, "width": 1.75, "dash": "5px,3px"}))
    for run, end in segments_of(course, course.target):
        drawn.append(traces.target(*_held(run, end)))
    drawn.append(_trace(x, course.values, {"color": color, "width": 1.75}) | {"name": course.member.name})
    if course.reach is not None:
        ring = {"color": "$surface", "size": 9, "line": {"color": "$accent", "width": 2}}
        drawn.append(_markers(course.reach.at, course.reach.value, ring))
    if (end_at := course.end) is not None:
        dot = {"color": color, "size": 8, "line": {"color": "$surface", "width": 1.5}}
        drawn.append(_markers(axis.points[end_at], course.values[end_at] or 0.0, dot))
    return drawn


def _trace(x: Sequence[str], y: Sequence[float | None], pen: dict[str, Any]) -> Trace:
    return {"type": "scatter", "mode": "lines", "x": list(x), "y": list(y), "line": pen, **traces.NO_HOVER}


def _markers(at: float, value: float, marker: dict[str, Any]) -> Trace:
    place = {"x": [moment_of(at)], "y": [value]}
    return {"type": "scatter", "mode": "markers", **place, "marker": marker, **traces.NO_HOVER}


def _held(run: Sequence[tuple[float, float]], end: float) -> tuple[list[str], list[float]]:
    """Places and values of a step line, whose last value holds to `end`."""
    return [*(moment_of(at) for at, _value in run), moment_of(end)], [*(value for _at, value in run), run[-1][1]]


def _band(low: Sequence[tuple[float, float]], high: Sequence[tuple[float, float]], end: float) -> list[Trace]:
    """Both ends at the places of either: their steps may differ."""
    places = sorted({at for at, _value in (*low, *high)})

    def at_places(run: Sequence[tuple[float, float]]) -> list[float]:
        return [next(value for start, value in reversed(run) if start <= at) for at in places]

    x = [*(moment_of(at) for at in places), moment_of(end)]
    lows, highs = at_places(low), at_places(high)
    return traces.tolerance(x, [*lows, lows[-1]], [*highs, highs[-1]])


def layout_of(course: Course, scale: Scale) -> dict[str, Any]:
    """Layout for a wide picture; `narrow` has what differs on a narrow one."""
    axis = course.axis
    left = scales.LEFT_OF_WORDS if course.unit == "points" else scales.LEFT
    return {
        "margin": {"l": left, "r": scales.RIGHT, "t": scales.TOP, "b": scales.BOTTOM},
        "hovermode": False,
        "xaxis": {
            "type": "date",
            "range": [moment_of(axis.first), moment_of(axis.last)],
            "ticks": "outside",
            "ticklen": 4,
            "tickcolor": "$line-strong",
            **_day_axis(axis, WIDE),
        },
        "yaxis": {
            "range": [scale.low, scale.high],
            "tickvals": [value for value, _text in scale.ticks],
            "ticktext": [text for _value, text in scale.ticks],
            "ticklabelstandoff": 5,
        },
        "shapes": list(_shapes(course)),
        "annotations": list(_annotations(course, scale, WIDE)),
    }


def narrow_of(course: Course, scale: Scale) -> dict[str, Any]:
    return {"xaxis": _day_axis(course.axis, NARROW), "annotations": list(_annotations(course, scale, NARROW))}


def _day_axis(axis: Axis, width: int) -> dict[str, Any]:
    marks = axis_ticks(axis, width)
    return {"tickvals": [moment_of(at) for at, _text in marks], "ticktext": [text for _at, text in marks]}


def _shapes(course: Course) -> Iterator[dict[str, Any]]:
    axis = course.axis
    fills = {"before": "$surface-3/0.55", "missing": "$line-strong/0.35", "idle": "$line-strong/0.12"}
    if axis.now is not None and axis.last > axis.now:
        yield _rect(axis.now, axis.whole[1], "$surface-2/0.55")
    for kind, spans in course.marks.items():
        for first, last in spans:
            if kind == "starved":
                yield _level(first, last, 3, "$under-mark", 4)
            else:
                yield _rect(first, last, fills.get(kind, fills["idle"]))
    for tick in course.revisions:
        if tick.text:
            yield _rule(tick.at, {"color": "$remote/0.75", "width": 1, "dash": "1.5px,3px"})
        color, width = ("$remote", 2) if tick.text else ("$remote/0.55", 1.5)
        yield {
            "type": "line",
            "x0": moment_of(tick.at),
            "x1": moment_of(tick.at),
            "yref": "paper",
            "ysizemode": "pixel",
            "yanchor": 0,
            "y0": 0,
            "y1": 7 if tick.text else 4,
            "line": {"color": color, "width": width},
        }
    if axis.now is not None and axis.shows(axis.now) and axis.last > axis.now:
        yield _rule(axis.now, {"color": "$line-strong", "width": 1})
    reach = course.reach
    if reach is not None and reach.early is not None:
        last = min(reach.late if reach.late is not None else axis.last, axis.last)
        yield _level(reach.early, last, 1.5, "$accent", 3)


def _rect(first: float, last: float, fill: str) -> dict[str, Any]:
    ends = {"x0": moment_of(first), "x1": moment_of(last), "yref": "paper", "y0": 0, "y1": 1}
    return {"type": "rect", **ends, "layer": "below", "fillcolor": fill, "line": {"width": 0}}


def _rule(at: float, pen: dict[str, Any]) -> dict[str, Any]:
    ends = {"x0": moment_of(at), "x1": moment_of(at), "yref": "paper", "y0": 0, "y1": 1}
    return {"type": "line", **ends, "layer": "below", "line": pen}


def _level(first: float, last: float, above_px: float, color: str, width: float) -> dict[str, Any]:
    """A thick line on the axis."""
    ends = {"x0": moment_of(first), "x1": moment_of(last), "y0": above_px, "y1": above_px}
    place = {"yref": "paper", "ysizemode": "pixel", "yanchor": 0}
    return {"type": "line", **ends, **place, "line": {"color": color, "width": width}}


def _annotations(course: Course, scale: Scale, width: int) -> Iterator[dict[str, Any]]:
    """Words with the places that they have in the SVG, whose y is that of the base line."""
    axis = course.axis
    for words in revision_labels(course):
        if width == WIDE or not words.is_wide_only:
            shift = -5 if words.is_left else 5
            yield _note(words.text, words.part, 1, shift, -6, "right" if words.is_left else "left", "$remote")
    if axis.now is not None and axis.shows(axis.now) and axis.last > axis.now:
        yield _note(_("now"), axis.part(axis.now), 0, 5, 10, "left", "$ink-3")
    if course.reach is not None:
        part = hit_part(axis, course.reach.at, width)
        yield _note(course.reach.label, part, 0, 0, 11, "center", "$accent", weight=600)
    if (end := course.end) is not None:
        shift = -16 if is_end_text_below(course, end) else 14
        left, top = axis.part(axis.points[end]), 1 - scale.part(course.values[end] or 0.0)
        yield _note(end_text(course, end), left, top, -8, shift, "right", "$ink", weight=600)


def _note(
    text: str, x: float, y: float, xshift: float, yshift: float, anchor: str, color: str, *, weight: int = 400
) -> dict[str, Any]:
    return {
        "text": traces.plotly_text(text),
        "xref": "paper",
        "yref": "paper",
        "x": round(x, 4),
        "y": round(y, 4),
        "xshift": xshift,
        "yshift": yshift,
        "xanchor": anchor,
        "yanchor": "middle",
        "showarrow": False,
        "font": {"size": 11, "color": color, "weight": weight},
        "borderpad": 0,
        "borderwidth": 0,
    }
