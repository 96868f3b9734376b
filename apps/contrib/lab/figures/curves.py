"""Line figures about operators: profiles, smallest jobs of leaves, and the depth-oblivious exponent."""

from __future__ import annotations

from math import log, log10

from django.utils.translation import gettext as _

from apps.contrib.lab.figures.context import FigureContext
from apps.contrib.lab.operators.records import ExponentPoint, LeafJob, ProfilePoint
from apps.priorities.sentences.numbers import job_hours, number, percent, ratio, signed
from apps.web.figures import axes, traces
from apps.web.figures.figure import EndLabel, Figure, Trace

_LEAST_JOB_H = 0.01


def profiles(context: FigureContext) -> Figure:
    """Draw priority by actual at one target: the queried operator in ink, the others behind it."""
    by_operator: dict[str, list[ProfilePoint]] = {}
    for row in context.of(ProfilePoint):
        by_operator.setdefault(row.operator, []).append(row)
    own = by_operator.get(context.own, [])
    drawn: list[Trace] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": [row.actual for row in rows],
            "y": [round(row.priority, 4) for row in rows],
            "line": {"color": "$level-mark/0.6", "width": 1},
            **traces.NO_HOVER,
        }
        for name, rows in by_operator.items()
        if name != context.own
    ]
    drawn.append(
        traces.line(
            [row.actual for row in own],
            [round(row.priority, 4) for row in own],
            name=context.own,
            color="$ink",
            words=[_profile_text(row) for row in own],
            width=2.25,
        )
    )
    drawn.append(traces.target([context.target, context.target], [-1, 1]))
    drawn.append(traces.end_dot(context.target, 0.0, color="$ink"))
    marks = [-1.0, -0.5, 0.0, 0.5, 1.0]
    return context.figure(
        drawn,
        {
            "margin": axes.margin(44, 96, 8, 24),
            "hovermode": "closest",
            "xaxis": {
                "range": [0, 1],
                "tickvals": [0, 0.25, 0.5, 0.75, 1],
                "ticktext": ["0", "25", "50", "75", "100\u00a0%"],
            },
            "yaxis": {"range": [-1.02, 1.02], "tickvals": marks, "ticktext": [signed(mark, 1) for mark in marks]},
        },
        labels=[EndLabel(own[-1].priority, context.own, "$ink")] if own else [],
        controls=[context.operator_control(by_operator), context.target_control()],
        file=f"fairshare_{context.policy}_profiles_{context.own}",
    )


def _profile_text(row: ProfilePoint) -> str:
    return _("at actual %(actual)s: priority %(priority)s") % {
        "actual": percent(row.actual, 0),
        "priority": signed(row.priority, 2),
    }


def leaf_jobs(context: FigureContext) -> Figure:
    """Draw the fraction of leaves for which a job of a size is visible, in any component and on every level."""
    rows = context.of(LeafJob)
    if not rows:
        nothing = _("No usage yet: numbers appear with the first recompute.")
        return context.figure([], {}, (), empty=nothing, reads=False)
    known = [value for row in rows for value in (row.any_level_h, row.every_level_h) if value is not None]
    high = log10(max([1.0, *known])) + 0.2
    low = log10(max(min([hours for hours in known if hours > 0], default=_LEAST_JOB_H), _LEAST_JOB_H)) - 0.2
    drawn, labels = [], []
    styles = ((_("in the vector"), "$series-1", "any_level_h"), (_("on every level"), "$series-2", "every_level_h"))
    for label, color, name in styles:
        x, y = _cumulative([getattr(row, name) for row in rows], len(rows), low, high)
        words = [_part_text(10**at, part) for at, part in zip(x, y, strict=True)]
        drawn.append(traces.line(x, y, name=label, color=color, words=words, width=2.0))
        drawn[-1]["line"]["shape"] = "hv"
        labels.append(EndLabel(y[-1], label, color))
    ends = [power for power in range(int(low) - 1, int(high) + 2) if low <= power <= high]
    return context.figure(
        drawn,
        {
            "margin": axes.margin(44, 158, 8, 24),
            "hovermode": "closest",
            "xaxis": {"range": [low, high], "tickvals": ends, "ticktext": [f"{10.0**power:,g}" for power in ends]},
            "yaxis": axes.share_axis([100.0], whole=True),
        },
        rows,
        note=_("percent of leaves, by the size of the job in %(unit)s") % {"unit": context.figure_table.unit},
        labels=labels,
    )


def _cumulative(values: list[float | None], n: int, low: float, high: float) -> tuple[list[float], list[float]]:
    """Percent of leaves up to each size, in powers of ten, from the left edge to the right one."""
    sizes = sorted(max(low, log10(max(value, 10**low))) for value in values if value is not None)
    n_any = sum(size <= low for size in sizes)  # leaves for which any job is visible
    x, y = [low], [100.0 * n_any / n]
    for at, size in enumerate(sizes[n_any:], start=n_any + 1):
        x.append(round(size, 6))
        y.append(round(100.0 * at / n, 4))
    return [*x, high], [*y, y[-1]]


def _part_text(job_h: float, part: float) -> str:
    return _("a job of %(job)s h is visible for %(part)s of the leaves") % {
        "job": job_hours(job_h),
        "part": percent(part / 100),
    }


def exponent(context: FigureContext) -> Figure:
    """Draw k over the parent's ratio; entries with a reduced exponent are on the curve, all others at 1."""
    rows = context.of(ExponentPoint)
    curve = [row for row in rows if row.entry is None]
    points = [row for row in rows if row.entry is not None]
    low, high = log(curve[0].parent_ratio), log(curve[-1].parent_ratio)
    drawn = [
        traces.line(
            [log(row.parent_ratio) for row in curve],
            [round(row.k, 4) for row in curve],
            name="k",
            color="$ink",
            words=[_curve_text(row) for row in curve],
            width=2.0,
        )
    ]
    drawn.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [min(max(log(row.parent_ratio), low), high) for row in points],
            "y": [row.k for row in points],
            "marker": {"color": "$accent", "size": 9 if context.query.entry else 6},
            "customdata": [_point_text(row) for row in points],
            "hovertemplate": "%{customdata}<extra></extra>",
        }
    )
    drawn.append(traces.target([0.0, 0.0], [0.0, 1.04]))
    ticks = (0.2, 0.5, 1.0, 2.0, 5.0)
    return context.figure(
        drawn,
        {
            "margin": axes.margin(44, 12, 8, 24),
            "hovermode": "closest",
            "xaxis": {
                "range": [low, high],
                "tickvals": [log(tick) for tick in ticks],
                "ticktext": [number(tick, 0 if tick >= 1 else 1) for tick in ticks],
            },
            "yaxis": {
                "range": [0, 1.04],
                "tickvals": [0, 0.25, 0.5, 0.75, 1],
                "ticktext": ["0", "0.25", "0.5", "0.75", "1"],
            },
        },
        [*points, *curve],
        size="m",
    )


def _curve_text(row: ExponentPoint) -> str:
    return _("is %(k)s with the parent at %(ratio)s") % {"k": number(row.k, 2), "ratio": ratio(row.parent_ratio)}


def _point_text(row: ExponentPoint) -> str:
    return _("%(entry)s: k %(k)s, parent at %(ratio)s, own ratio %(own)s") % {
        "entry": row.entry,
        "k": number(row.k, 2),
        "ratio": ratio(row.parent_ratio),
        "own": ratio(row.local_ratio),
    }
