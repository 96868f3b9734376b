"""Small multiples of convergence: one panel per subgroup with its share and target, in sections that share a scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np
from django.http import QueryDict
from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from apps.pages.convergence.figures.labels import (
    Links,
    RawRows,
    caption,
    file_name,
    mark_of,
    moment_url,
    revision_marks,
)
from apps.priorities.sentences.numbers import UNKNOWN, compare_shares
from apps.series.convergence.query import BEFORE_ENTRY, DAILY_UP_TO
from apps.series.convergence.records import Convergence, sample_weekly
from apps.series.daily_series import F8, Mask
from apps.web.figures import axes, traces
from apps.web.figures.figure import Column, Figure, Table, Trace
from apps.web.figures.used_and_target import used_words_of

PAGE = 12  # panels
SMALL = 0.05  # share of the parent; smaller subgroups have a section of their own
STEPS = (0.01, 0.02, 0.04, 0.06, 0.10, 0.20, 0.40, 0.60, 1.0)  # their halves have few digits, too
_OUTLIER = 2.5  # a panel that needs this many times the next scale gets its own


@dataclass(frozen=True, slots=True)
class Section:
    """rows: all its members; scales: upper end of each one's axis, 0..1; common: the shared scale; shown: rows on this
    page with their scales.
    """

    is_small: bool
    rows: list[int]
    scales: list[float]
    common: float
    shown: list[tuple[int, float]]


def sections_of(convergence: Convergence, page: int) -> list[Section]:
    """Return the sections of a page of twelve panels: large shares first, each section by distance from target.

    Finished days decide the order and the shared scale; a newest point outside it extends the scale.
    """
    order, over = convergence.order(), scales_of(convergence, convergence.n_finished)
    widened = scales_of(convergence) if convergence.n_finished < len(convergence.on) else over
    targets = _largest(convergence.target[:, : convergence.n_finished]).tolist()
    large = [row for row in order if targets[row] >= SMALL]
    tail = [row for row in order if targets[row] < SMALL]
    here = set([*large, *tail][(page - 1) * PAGE : page * PAGE])
    sections = []
    for rows, is_small in ((large, False), (tail, True)):
        scales, shared = shared_scales([over[row] for row in rows])
        common = max([shared, *(widened[row] for row, top in zip(rows, scales, strict=True) if top == shared)])
        scales = [common if top == shared else max(top, widened[row]) for row, top in zip(rows, scales, strict=True)]
        shown = [(row, scale) for row, scale in zip(rows, scales, strict=True) if row in here]
        if shown:
            sections.append(Section(is_small, rows, scales, common, shown))
    return sections


def scales_of(convergence: Convergence, n_points: int | None = None) -> list[float]:
    """Return for each panel the smallest scale that fits all of its points, or the first `n_points`."""
    part = slice(n_points)
    needed = np.maximum(
        _largest(convergence.actual[:, part]), _largest(convergence.target[:, part] + convergence.slack[:, part])
    )
    steps = np.array(STEPS)
    at = np.minimum(np.searchsorted(steps, needed - 1e-12), len(steps) - 1)
    scales: list[float] = steps[at].tolist()
    return scales


def shared_scales(steps: Sequence[float]) -> tuple[list[float], float]:
    """Return the scale of each panel of a section, and the shared one: a single outlier doesn't flatten the others."""
    ordered = [*sorted(steps, reverse=True), 0.0, 0.0]
    common = ordered[1] if 0 < _OUTLIER * ordered[1] < ordered[0] else ordered[0]
    return [step if step > common else common for step in steps], common


def _largest(values: F8) -> F8:
    """Maximum of the known values of each row; 0 if there are none."""
    maxima: F8 = np.max(values, axis=1, initial=0.0, where=np.isfinite(values))
    return maxima


Shape = Literal["on", "over", "under", "idle", "nodata"]
_STATE_WORDS = {
    "on": gettext_noop("on target"),
    "over": gettext_noop("over"),
    "starved": gettext_noop("under, jobs wait"),
    "met": gettext_noop("under, no demand"),
    "no_demand": gettext_noop("no demand"),
    "inferred": gettext_noop("under; demand unknown"),
    BEFORE_ENTRY: gettext_noop("before the entry"),
}
STATES = tuple(_STATE_WORDS)
_SHAPES: dict[str, tuple[Shape, str]] = {
    "on": ("on", _STATE_WORDS["on"]),
    "over": ("over", _STATE_WORDS["over"]),
    "starved": ("under", _STATE_WORDS["starved"]),
    "inferred": ("under", gettext_noop("under")),
    "met": ("idle", gettext_noop("no demand")),
    "no_demand": ("idle", _STATE_WORDS["no_demand"]),
}


@dataclass(frozen=True, slots=True)
class Heading:
    """actual, target: texts below the name. shape: form and colour of the balance; amount: in points, or "".

    word: name of the balance.
    """

    actual: str
    target: str
    shape: Shape
    amount: str
    word: str


def state_text(state: str) -> str:
    """Return the label of a state."""
    return _(_STATE_WORDS[state]) if state in _STATE_WORDS else UNKNOWN


def heading_of(convergence: Convergence, row: int) -> Heading:
    """Return the heading for the last point: the newest snapshot's, or the last day's."""
    actual, target = (float(column[row, -1]) for column in (convergence.actual, convergence.target))
    shares = compare_shares(actual, target)
    reads = (_("actual %(share)s") % {"share": shares.actual}, _("target %(target)s") % {"target": shares.target})
    if not convergence.visible[row].any():
        return Heading(_("not shown: fewer than five active members"), reads[1], "nodata", "", "")
    shape, amount, word = balance_text(str(convergence.states[row, -1]), actual, target)
    return Heading(*reads, shape, amount, word)


def balance_text(state: str, actual: float, target: float, *, decimals: int | None = None) -> tuple[Shape, str, str]:
    """Return the shape, the amount in points, and the word for a point; shares are NaN where unknown.

    decimals: of the column of shares beside it; by default what the two shares need.
    """
    if not isfinite(actual - target) or not state:
        return "nodata", "", state_text(state) if state == BEFORE_ENTRY else _("no data")
    shape, word = _SHAPES.get(state, _SHAPES["no_demand"])
    points = compare_shares(actual, target, decimals=decimals).points
    return shape, points if shape in {"over", "under"} else "", _(word)


def newest_text(convergence: Convergence) -> str:
    """Explain that headings are from the newest snapshot; "" if the last point is a finished day or hour."""
    if convergence.latest_at is None:
        return ""
    at = formats.date_format(timezone.localtime(convergence.latest_at), "j M, H:i")
    over = _("complete hours") if convergence.is_by_hour else _("complete days")
    text = _("Headings and ends of lines are from the newest snapshot, %(at)s; summary and averages cover %(over)s.")
    return text % {"at": at, "over": over}


OVERLAYS = ("band", "changes", "demand", "gaps")


def panels_figure(convergence: Convergence, query: QueryDict, links: Links, name: str = "panels") -> Figure:
    """`panels` in the JSON has the traces and the layout of each subgroup on this page; `data` is empty."""
    text = query.get("page", "1")
    page = max(int(text), 1) if text.isdecimal() and len(text) < 9 else 1
    shown = sample_weekly(convergence) if convergence.period.n_days > DAILY_UP_TO else convergence
    chosen = set(query.getlist("overlay")) or set(OVERLAYS)
    marks = revision_marks(shown, links) if "changes" in chosen else []
    rules = [{"at": mark.at, "label": "", "text": mark.text, "url": mark.url} for mark in marks]
    x = [axes.moment(on) for on in shown.on]
    panels = [
        {
            "uid": str(shown.members[row].uid),
            "name": shown.members[row].name,
            "marks": rules,
            "data": _panel(shown, row, x, top, chosen),
            "layout": _layout(shown, top),
            "heading": heading_of(shown, row),
        }
        for section in (sections_of(shown, page) if shown.on else ())
        for row, top in section.shown
    ]
    return Figure(
        name=name,
        title=_("Shares and targets"),
        note=_("share, percent"),
        sentence=_sentence(shown),
        traces=(),
        layout={},
        table=_table(shown),
        size="xs",
        file=file_name(shown, name),
        caption=caption(shown),
        moment_url=moment_url(shown, links),
        empty="" if shown.on else _("There are no days in this period."),
        extra={"panels": panels, "newest": newest_text(shown)},
    )


def _panel(convergence: Convergence, row: int, x: list[str], scale: float, chosen: set[str]) -> list[Trace]:
    target, slack = convergence.target[row] * 100, convergence.slack[row] * 100
    y = axes.rounded(convergence.actual[row] * 100, 2)
    drawn: list[Trace] = []
    if "demand" in chosen:
        for begins, ends in _runs(x, convergence.idle[row] | convergence.idle_inferred[row]):
            drawn.append(traces.no_demand(begins, ends, scale * 100))
        drawn += [_starved(begins, ends) for begins, ends in _runs(x, convergence.states[row] == "starved")]
    if "gaps" in chosen:
        missing = np.array([on in convergence.gaps for on in convergence.on], np.bool_)
        drawn += [
            traces.shade(begins, ends, scale * 100, fillcolor="$line-strong/0.35") for begins, ends in _runs(x, missing)
        ]
    early = convergence.days.is_before_first | (convergence.states[row] == BEFORE_ENTRY)
    drawn += [traces.shade(begins, ends, scale * 100, fillcolor="$surface-3/0.55") for begins, ends in _runs(x, early)]
    if "band" in chosen:
        low = axes.rounded(np.maximum(target - slack, 0), 2)
        drawn += traces.tolerance(x, low, axes.rounded(target + slack, 2))
    drawn.append(traces.target(x, axes.rounded(target, 2)))
    states = convergence.states[row].tolist()
    last = next((at for at in reversed(range(len(y))) if y[at] is not None), None)
    color = "$level-mark" if last is None else mark_of(states[last], float(convergence.deviation[row, last]))
    words = used_words_of(convergence.actual[row], convergence.target[row], states)
    drawn.append(traces.line(x, y, name=convergence.members[row].name, color=color, words=words))
    if last is not None:
        drawn.append(traces.end_dot(x[last], y[last] or 0.0, color=color))
    return drawn


def _runs(x: list[str], mask: Mask) -> list[tuple[str, str]]:
    """First and last moment of each run of days in the mask; a day is as wide as the step to the next one."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).tolist()
    return [(x[first], x[min(after, len(x) - 1)]) for first, after in zip(edges[::2], edges[1::2], strict=True)]


def _starved(begins: str, ends: str) -> Trace:
    """A bar on the axis where jobs waited below target."""
    pen = {"color": "$under-mark", "width": 4}
    return {"type": "scatter", "mode": "lines", "x": [begins, ends], "y": [0, 0], "line": pen, **traces.NO_HOVER}


def _layout(convergence: Convergence, scale: float) -> dict[str, Any]:
    top = scale * 100
    marks = [0.0, top / 2, top]
    x = axes.day_axis(convergence.on[0], convergence.on[-1], few=True) | {"fixedrange": True, "nticks": 3}
    return {
        "margin": axes.margin(26, 8, 8, 18),
        "hovermode": "x",
        "dragmode": False,
        "xaxis": x,
        "yaxis": {"range": [0, top * 1.02], "tickvals": marks, "ticktext": [f"{tick:g}" for tick in marks]},
    }


def _sentence(convergence: Convergence) -> str:
    """Count the subgroups that are off target now."""
    now = convergence.states[:, -1].tolist() if convergence.on else []
    off = sum(state not in {"on", "no_demand", "met", ""} for state in now)
    text = ngettext("%(off)s of %(n)s subgroup is off target.", "%(off)s of %(n)s subgroups are off target.", len(now))
    return text % {"off": off, "n": len(now)}


def _table(convergence: Convergence) -> Table:
    """One row per day, newest first, two columns per subgroup."""
    pairs = [
        column
        for row in range(len(convergence.members))
        for column in (convergence.actual[row], convergence.target[row])
    ]
    forms = (_("%(name)s, actual %%"), _("%(name)s, target %%"))
    titles = [title % {"name": member.name} for member in convergence.members for title in forms]
    raw = RawRows(convergence.on[::-1], [column[::-1] for column in pairs])
    return Table((Column(_("Day"), is_number=False), *map(Column, titles)), (), raw)
