"""Coverage calendar of usage sources: one row per source, one cell per day (complete, incomplete, without usage, not
due).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any

from django.http import QueryDict
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.usage.quality.coverage import Coverage, Day, SourceDays
from apps.web.figures import axes
from apps.web.figures.figure import (
    Column,
    Control,
    EndLabel,
    Figure,
    Size,
    Swatch,
    Table,
    Trace,
    period_choices,
    read_days,
)
from apps.web.figures.traces import NO_HOVER

DAYS = "coverage_days"  # query parameter of the page
MOST_DRAWN_SOURCES = 25  # sources in the picture; table and CSV have all
_WIDTH, _HEIGHT = 0.84, 0.72  # of a cell, in days and rows
_MOST_SOURCE_LETTERS, _FEW_LETTERS = 24, 14  # characters of a name in wide and in narrow windows
_NONE = "rgba(0,0,0,0)"
_WITH_GAPS = (Coverage.HOLE, Coverage.PART)


def coverage_figure(sources: Sequence[SourceDays], query: QueryDict) -> Figure:
    """Draw the calendar, sources with most gaps first."""
    n_days = read_days(query, DAYS)
    rows = sorted(sources, key=lambda source: -source.count(Coverage.HOLE) * 1000 - source.count(Coverage.PART))
    drawn = rows[:MOST_DRAWN_SOURCES]
    empty = "" if rows else _("No usage sources yet")
    return Figure(
        name="coverage",
        title=_("Coverage"),
        note=_note(n_days, len(drawn), len(rows)),
        sentence=_sentence(rows, n_days),
        traces=_cells(drawn) if drawn else [],
        layout=_layout(drawn),
        table=_table(rows),
        size=_size(len(drawn)),
        labels=[EndLabel(_row(drawn, at), _complete(source)) for at, source in enumerate(drawn)],
        legend=[
            Swatch("$level-mark", _("Complete")),
            Swatch("$warn-mark", _("Partial")),
            Swatch("$bad", _("Missing"), is_outlined=True),
            Swatch("$line-strong", _("Not due")),
        ]
        if rows
        else (),
        controls=[Control(_("Period"), period_choices(query, DAYS, "days", n_days))],
        file=f"fairshare_coverage_{n_days}d",
        empty=empty,
        reads=bool(rows),
        extra={"narrow": {"ticktext": [_short(source.name, _FEW_LETTERS) for source in drawn]}},
    )


def _row(drawn: Sequence[SourceDays], at: int) -> int:
    """Position on the y axis; the first source is on top."""
    return len(drawn) - 1 - at


def _cells(drawn: Sequence[SourceDays]) -> list[Trace]:
    """Draw days of one state as one area, so that thousands of days are a few elements: runs of equal days, then the
    gaps between days over them. Invisible lines carry the hover texts.
    """
    areas: dict[str, Trace] = {}
    outlines = _area(fillcolor=_NONE, line={"width": 1.5, "color": "$bad"})
    for at, source in enumerate(drawn):
        for state, run in groupby(source.days, key=attrgetter("state")):
            days = list(run)
            if state is Coverage.HOLE:
                for day in days:
                    _add_box(outlines, day, day, _row(drawn, at) - _HEIGHT / 2, _HEIGHT)
            for low, height, color in _boxes(state, _row(drawn, at)):
                area = areas.setdefault(color, _area(fillcolor=color, line={"width": 0}))
                _add_box(area, days[0], days[-1], low, height)
    gaps = _area(fillcolor="$surface", line={"width": 0})
    for before, after in pairwise(drawn[0].days):
        begins, ends = _instant(before.on, _WIDTH / 2), _instant(after.on, -_WIDTH / 2)
        gaps["x"] += [begins, begins, ends, ends, begins, None]
        gaps["y"] += [-0.5, len(drawn) - 0.5, len(drawn) - 0.5, -0.5, -0.5, None]
    over = [area for area in (areas.pop("$line-strong", None), outlines) if area and area["x"]]
    return [*areas.values(), gaps, *over, *(_hover_line(source, _row(drawn, at)) for at, source in enumerate(drawn))]


def _area(**pen: Any) -> Trace:
    return {"type": "scatter", "mode": "lines", "fill": "toself", "x": [], "y": [], **pen, **NO_HOVER}


def _add_box(area: Trace, first: Day, last: Day, low: float, height: float) -> None:
    begins, ends = _instant(first.on, -_WIDTH / 2), _instant(last.on, _WIDTH / 2)
    area["x"] += [begins, begins, ends, ends, begins, None]
    area["y"] += [low, low + height, low + height, low, low, None]


def _boxes(state: Coverage, row: int) -> list[tuple[float, float, str]]:
    """Return (base, height, colour): a half box for incomplete days, a thin line if nothing is due."""
    low = row - _HEIGHT / 2
    return {
        Coverage.FULL: [(low, _HEIGHT, "$level-mark")],
        Coverage.PART: [(low, _HEIGHT / 2, "$warn-mark"), (row, _HEIGHT / 2, "$surface-3")],
        Coverage.HOLE: [],
        Coverage.OFF: [(row - 0.03, 0.06, "$line-strong")],
    }[state]


def _hover_line(source: SourceDays, row: int) -> dict[str, Any]:
    """An invisible line with the text of each day, for hover and keyboard."""
    return {
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 0},
        "name": source.name,
        "meta": {"read": True},
        "x": [axes.moment(day.on) for day in source.days],
        "y": [row] * len(source.days),
        "customdata": [_words(day) for day in source.days],
        "hovertemplate": f"{source.name} %{{customdata}}<extra></extra>",
    }


def _words(day: Day) -> str:
    if day.state is Coverage.PART:
        return ngettext("%(n)s hour missing", "%(n)s hours missing", day.n_missing) % {"n": day.n_missing}
    return {
        Coverage.FULL: _("Complete"),
        Coverage.HOLE: _("no usage all day"),
        Coverage.OFF: _("Not due"),
    }[day.state]


def _layout(drawn: Sequence[SourceDays]) -> dict[str, Any]:
    n = max(len(drawn), 1)
    days = [day.on for day in drawn[0].days] if drawn else []
    x: dict[str, Any] = {"range": [0, 1]}
    if days:
        edges = [_instant(days[0], -0.5), _instant(days[-1], 0.5)]
        x = axes.day_axis(days[0], days[-1]) | {"range": edges, "showspikes": False}
    return {
        "margin": axes.margin(156, 96, 4, 24),
        "xaxis": x,
        "yaxis": {
            "range": [-0.5, n - 0.5],
            "showgrid": False,
            "tickvals": [_row(drawn, at) for at in range(len(drawn))],
            "ticktext": [_short(source.name, _MOST_SOURCE_LETTERS) for source in drawn],
        },
    }


def _instant(day: date, days: float) -> str:
    return axes.moment(datetime.combine(day, time()) + timedelta(days=days))


def _short(name: str, n_letters: int) -> str:
    """Shorten a name in the middle, because names of one peer start alike."""
    half = n_letters // 2
    return name if len(name) <= n_letters else f"{name[: half - 1]}…{name[-half:]}"


def _size(n: int) -> Size:
    return "xs" if n <= 3 else "s" if n <= 7 else "m" if n <= 11 else "l" if n <= 15 else "xl"


def _complete(source: SourceDays) -> str:
    full, expected = source.count(Coverage.FULL), (len(source.days) - source.count(Coverage.OFF))
    if not expected:
        return _("Not due")
    return _("Complete") if full == expected else _("%(n)s of %(all)s") % {"n": full, "all": expected}


def _note(n_days: int, n_drawn: int, n_all: int) -> str:
    words = {"days": n_days, "n": n_drawn, "all": n_all}
    if n_drawn == n_all:
        return _("complete days of the last %(days)s") % words
    return _("complete days of the last %(days)s, %(n)s of %(all)s sources") % words


def _sentence(rows: Sequence[SourceDays], n_days: int) -> str:
    if not rows:
        return _("No usage sources yet")
    worst = rows[0]
    gaps, parts = worst.count(Coverage.HOLE), worst.count(Coverage.PART)
    if not gaps + parts:
        return ngettext(
            "%(name)s has no gaps in the last %(days)s days.",
            "None of the %(n)s sources has gaps in the last %(days)s days.",
            len(rows),
        ) % {"n": len(rows), "days": n_days, "name": worst.name}
    last = max(day.on for day in worst.days if day.state in _WITH_GAPS)
    text = ngettext(
        "%(name)s has %(n)s day with a gap in the last %(days)s, the last on %(day)s.",
        "%(name)s has %(n)s days with a gap in the last %(days)s, the last on %(day)s.",
        gaps + parts,
    ) % {"name": worst.name, "n": gaps + parts, "days": n_days, "day": formats.date_format(last, "j M")}
    others = sum(row.count(*_WITH_GAPS) > 0 for row in rows[1:])
    if not others:
        return text
    more = ngettext("%(n)s more source has gaps.", "%(n)s more sources have gaps.", others) % {"n": others}
    return f"{text} {more}"


def _table(rows: Sequence[SourceDays]) -> Table:
    shown = []
    for row in rows:
        tally = Counter(day.state for day in row.days)
        gaps = ", ".join(
            f"{formats.date_format(day.on, 'j M')} {_words(day)}"
            for day in reversed(row.days)
            if day.state in _WITH_GAPS
        )
        counts = (tally[Coverage.FULL], tally[Coverage.PART], tally[Coverage.HOLE], tally[Coverage.OFF])
        shown.append([row.name, *map(str, counts), gaps or "\u2013"])
    return Table(
        columns=(
            Column(_("Source"), is_number=False),
            Column(_("Complete")),
            Column(_("Incomplete")),
            Column(_("Without usage")),
            Column(_("Not due")),
            Column(_("Gaps"), is_number=False),
        ),
        rows=shown,
        raw=[
            [row.name, day.on.isoformat(), day.n_hours, day.n_missing, day.state.value]
            for row in rows
            for day in row.days
        ],
        header=("source", "day", "hours_with_usage", "hours_missing", "state"),
    )
