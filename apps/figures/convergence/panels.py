"""Small multiples: one panel a subgroup, its share beside its target, on the scale of its section."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.analytics.convergence.before_entry import BEFORE_ENTRY
from apps.analytics.convergence.period import DAILY_UP_TO
from apps.analytics.convergence.records import Convergence, by_weeks
from apps.analytics.series.storage.columns import Mask
from apps.figures import axes, traces
from apps.figures.convergence.headings import heading_of, newest_words
from apps.figures.convergence.raw_rows import RawRows
from apps.figures.convergence.sections import sections_of
from apps.figures.convergence.words import Links, caption, file_name, mark_of, revision_marks, used_words_of
from apps.figures.figure import Column, Figure, Table, Trace

OVERLAYS = ("band", "changes", "demand", "gaps")


def panels_figure(found: Convergence, query: QueryDict, links: Links, name: str = "panels") -> Figure:
    """`panels` of the answer has the traces and the layout of each subgroup on this page; `data` is empty."""
    page = _page(query)
    shown = by_weeks(found) if found.period.n_days > DAILY_UP_TO else found
    chosen = set(query.getlist("overlay")) or set(OVERLAYS)
    marks = revision_marks(shown, links) if "changes" in chosen else []
    rules = [{"at": one.at, "label": "", "text": one.text, "url": one.url} for one in marks]
    x = [axes.moment(on) for on in shown.on]
    panels = [
        {
            "uid": str(shown.members[row].uid),
            "name": shown.members[row].name,
            "marks": rules,
            "data": _panel(shown, row, x, top, chosen),
            "layout": _layout(shown, top),
            "heading": asdict(heading_of(shown, row)),
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
        moment_url=links.moment if shown.is_by_hour else links.moment.replace("{at}", "{at}T23:59"),
        empty="" if shown.on else _("There are no days in this period."),
        extra={"panels": panels, "newest": newest_words(shown)},
    )


def _page(query: QueryDict) -> int:
    text = query.get("page", "1")
    return max(int(text), 1) if text.isdecimal() and len(text) < 9 else 1


def _panel(found: Convergence, row: int, x: list[str], scale: float, chosen: set[str]) -> list[Trace]:
    target, slack = found.target[row] * 100, found.slack[row] * 100
    y = axes.rounded(found.actual[row] * 100, 2)
    drawn: list[Trace] = []
    if "demand" in chosen:
        for begins, ends in _stretches(x, found.idle[row] | found.idle_inferred[row]):
            drawn.append(traces.no_demand(begins, ends, scale * 100))
        drawn += [_starved(begins, ends) for begins, ends in _stretches(x, found.states[row] == "starved")]
    if "gaps" in chosen:
        missing = np.array([on in found.gaps for on in found.on], np.bool_)
        drawn += [_shade(begins, ends, scale * 100, "$line-strong/0.35") for begins, ends in _stretches(x, missing)]
    early = found.days.is_before_first | (found.states[row] == BEFORE_ENTRY)
    drawn += [_shade(begins, ends, scale * 100, "$surface-3/0.55") for begins, ends in _stretches(x, early)]
    if "band" in chosen:
        low = axes.rounded(np.maximum(target - slack, 0), 2)
        drawn += traces.tolerance(x, low, axes.rounded(target + slack, 2))
    drawn.append(traces.target(x, axes.rounded(target, 2)))
    states = found.states[row].tolist()
    last = next((at for at in reversed(range(len(y))) if y[at] is not None), None)
    color = "$level-mark" if last is None else mark_of(states[last], float(found.deviation[row, last]))
    words = used_words_of(found.actual[row], found.target[row], states)
    drawn.append(traces.line(x, y, name=found.members[row].name, color=color, words=words))
    if last is not None:
        drawn.append(traces.end_dot(x[last], y[last] or 0.0, color=color))
    return drawn


def _stretches(x: list[str], mask: Mask) -> list[tuple[str, str]]:
    """First and last moment of each run of days; a day is as wide as the step to the next one."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).tolist()
    return [(x[first], x[min(after, len(x) - 1)]) for first, after in zip(edges[::2], edges[1::2], strict=True)]


def _shade(begins: str, ends: str, top: float, color: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 0},
        "fill": "toself",
        "fillcolor": color,
        "x": [begins, begins, ends, ends, begins],
        "y": [0, top, top, 0, 0],
        **traces.NO_HOVER,
    }


def _starved(begins: str, ends: str) -> Trace:
    """Jobs waited below the target: a bar on the axis."""
    pen = {"color": "$under-mark", "width": 4}
    return {"type": "scatter", "mode": "lines", "x": [begins, ends], "y": [0, 0], "line": pen, **traces.NO_HOVER}


def _layout(found: Convergence, scale: float) -> dict[str, Any]:
    top = scale * 100
    marks = [0.0, top / 2, top]
    x = axes.day_axis(found.on[0], found.on[-1], few=True) | {"fixedrange": True, "nticks": 3}
    return {
        "margin": axes.margin(26, 8, 8, 18),
        "hovermode": "x",
        "dragmode": False,
        "xaxis": x,
        "yaxis": {"range": [0, top * 1.02], "tickvals": marks, "ticktext": [f"{one:g}" for one in marks]},
    }


def _sentence(found: Convergence) -> str:
    """How many are off their targets now."""
    now = found.states[:, -1].tolist() if found.on else []
    off = sum(state not in {"on", "no_demand", "met", ""} for state in now)
    text = ngettext("%(off)s of %(n)s subgroup is off target.", "%(off)s of %(n)s subgroups are off target.", len(now))
    return text % {"off": off, "n": len(now)}


def _table(found: Convergence) -> Table:
    """A row a day, newest first, two columns a subgroup."""
    pairs = [column for row in range(len(found.members)) for column in (found.actual[row], found.target[row])]
    forms = (_("%(name)s, actual %%"), _("%(name)s, target %%"))
    titles = [title % {"name": member.name} for member in found.members for title in forms]
    raw = RawRows(found.on[::-1], [column[::-1] for column in pairs])
    return Table((Column(_("Day"), is_number=False), *map(Column, titles)), (), raw)
