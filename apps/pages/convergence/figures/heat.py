"""Heat map of every subgroup by day: points over or under target, in steps of balance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from itertools import groupby
from math import isfinite
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.pages.convergence.figures.labels import Links, caption, day_text, file_name, moment_url
from apps.pages.convergence.figures.tiles import balance_text
from apps.series.convergence.records import Convergence
from apps.web.figures import axes, traces
from apps.web.figures.figure import Column, EndLabel, Figure, Swatch, Table, Trace
from apps.web.figures.traces import BALANCE, ON_TARGET, balance_legend, balance_step
from apps.web.figures.used_and_target import short_balance, used_words_of

LEAST_ENTRIES = 12  # fewer are easier to read as lines
MOST_ROWS = 32  # of the picture, limited by the names beside it
_MOST_DAYS, _NARROW_DAYS = 60, 28
_MOST_LETTERS, _FEW_LETTERS = 22, 12  # characters of a name in wide and in narrow windows
_TEXT_COLORS = {"over": "$over", "under": "$under"}


def heat_figure(convergence: Convergence, links: Links) -> Figure:
    """Draw at most the last sixty points, subgroups farthest from target first; unknown values have no cell."""
    title = _("Every subgroup, every hour") if convergence.is_by_hour else _("Every subgroup, every day")
    rows = convergence.order()
    n_points = min(len(convergence.on), _MOST_DAYS)
    if not n_points or not rows:
        message = _("There are no days in this period.")
        return Figure("heat", title, message, (), {}, Table((), (), ()), empty=message, reads=False)
    points = slice(len(convergence.on) - n_points, len(convergence.on))
    on = convergence.on[points]
    names = [convergence.members[row].name for row in rows]
    shown, row_names = rows[:MOST_ROWS], names[:MOST_ROWS]
    return Figure(
        name="heat",
        title=title,
        note=_note(convergence, len(shown), len(rows), n_points),
        sentence=_sentence(convergence, rows, names),
        traces=_traces(convergence, shown, points),
        layout={
            "margin": axes.margin(156, 96, 4, 24),
            "hovermode": "closest",
            "xaxis": axes.day_axis(on[0], on[-1])
            | {"range": _edges(on), "showspikes": False, "fixedrange": True, "showline": False},
            "yaxis": {
                "showgrid": False,
                "tickfont": {"size": 12},
                "tickvals": list(range(len(row_names))),
                "ticktext": [_short(name) for name in row_names[::-1]],
                "fixedrange": True,
                "range": [-0.5, len(row_names) - 0.5],
                "ticklabelstandoff": 6,
            },
        },
        table=_table(convergence, rows, names, points),
        size="xl" if len(shown) > LEAST_ENTRIES * 2 else "l",
        file=file_name(convergence, "heat"),
        caption=caption(convergence),
        labels=_balances(convergence, shown),
        legend=[*balance_legend(), Swatch("$line-strong", _("no demand"), is_dot=True)],
        moment_url=moment_url(convergence, links),
        reads=False,
        extra={"narrow": _narrow(convergence, row_names, len(rows), on)},
    )


def _traces(convergence: Convergence, rows: list[int], points: slice) -> list[Trace]:
    """Runs of equal steps of balance; days without demand have a hollow dot, as they are neither over nor under."""
    on = convergence.on[points]
    x, half = [axes.moment(day) for day in on], _half_step(on)
    runs, idle, read_outs = [], [], []
    for at, row in enumerate(reversed(rows)):
        states = convergence.states[row, points].tolist()
        steps = [_step(*cell) for cell in _cells(convergence, row, points)]
        for step, days in groupby(range(len(on)), key=steps.__getitem__):
            if step is not None:
                first, last = _ends(days)
                runs.append((step, at, axes.moment(_start(on[first]) - half), axes.moment(_start(on[last]) + half)))
        idle += [(moment, at) for moment, state in zip(x, states, strict=True) if state == "no_demand"]
        words = used_words_of(convergence.actual[row, points], convergence.target[row, points], states)
        read_outs.append(traces.read_only(x, [float(at)] * len(x), name=convergence.members[row].name, words=words))
    return [*traces.steps(runs, BALANCE), *([traces.hollow_dots(idle)] if idle else []), *read_outs]


def _ends(days: Iterable[int]) -> tuple[int, int]:
    listed = list(days)
    return listed[0], listed[-1]


def _sentence(convergence: Convergence, rows: list[int], names: list[str]) -> str:
    n_off = sum(str(convergence.states[row, -1]) in {"over", "starved", "inferred"} for row in rows)
    text = ngettext("%(off)s of %(n)s subgroup is off target.", "%(off)s of %(n)s subgroups are off target.", len(rows))
    return text % {"off": n_off, "n": len(rows)}


def _note(convergence: Convergence, n_shown: int, n_rows: int, n_points: int) -> str:
    if convergence.is_by_hour:
        text = ngettext("Points from target, %(n)s hour", "Points from target, %(n)s hours", n_points)
    else:
        text = ngettext("Points from target, %(n)s day", "Points from target, %(n)s days", n_points)
    note = text % {"n": n_points}
    if n_shown == n_rows:
        return note
    return _("%(note)s; %(n)s of %(all)s") % {"note": note, "n": n_shown, "all": n_rows}


def _edges(on: Sequence[date]) -> list[str]:
    """Return the range of the axis: half a step before the first and after the last point."""
    half = _half_step(on)
    return [axes.moment(_start(on[0]) - half), axes.moment(_start(on[-1]) + half)]


def _half_step(on: Sequence[date]) -> timedelta:
    return timedelta(minutes=30) if isinstance(on[-1], datetime) else timedelta(hours=12)


def _start(at: date) -> datetime:
    return at if isinstance(at, datetime) else datetime.combine(at, time())


def _narrow(convergence: Convergence, names: list[str], n_rows: int, on: Sequence[date]) -> dict[str, Any]:
    """Variant for narrow windows: fewer days and shorter names."""
    few = on[-_NARROW_DAYS:]
    short = [_short(name, _FEW_LETTERS) for name in names[::-1]]
    return {"range": _edges(few), "note": _note(convergence, len(names), n_rows, len(few)), "ticktext": short}


def _balances(convergence: Convergence, rows: list[int]) -> list[EndLabel]:
    """Labels with the balance at the end of each row, as in the table."""
    last = slice(len(convergence.on) - 1, len(convergence.on))
    labels = []
    for index, row in enumerate(reversed(rows)):
        for actual, target, state in _cells(convergence, row, last):
            color = _TEXT_COLORS.get(balance_text(state, actual, target)[0], "$ink-2")
            labels.append(EndLabel(index, short_balance(actual, target, state), color=color))
    return labels


def _cells(convergence: Convergence, row: int, days: slice) -> Any:
    return zip(
        convergence.actual[row, days].tolist(),
        convergence.target[row, days].tolist(),
        convergence.states[row, days].tolist(),
        strict=True,
    )


def _step(actual: float, target: float, state: str) -> int | None:
    """Return the index of the balance step; without demand counts as on target."""
    if not isfinite(actual) or not isfinite(target) or not state or state == "before_entry":
        return None
    if state in {"on", "no_demand"}:
        return ON_TARGET
    return balance_step((actual - target) * 100)


def _short(name: str, n_letters: int = _MOST_LETTERS) -> str:
    """Shorten a name to fit beside the rows."""
    return name if len(name) <= n_letters else f"{name[: n_letters - 1]}…"


def _table(convergence: Convergence, rows: list[int], names: list[str], days: slice) -> Table:
    """One row per subgroup with its latest balance; the CSV has every day."""
    on = [axes.moment(day) for day in convergence.on[days]]
    off = convergence.deviation[:, days] * 100
    last_day = slice(len(convergence.on) - 1, len(convergence.on))
    shown = [
        [name, *(short_balance(*cell) for cell in _cells(convergence, row, last_day))]
        for name, row in zip(names, rows, strict=True)
    ]
    raw = [
        [names[at], *(round(value, 4) if isfinite(value) else "" for value in off[row].tolist())]
        for at, row in enumerate(rows)
    ]
    last = day_text(convergence.on[-1])
    return Table((Column(_("Entry"), is_number=False), Column(last)), shown, raw, header=("entry", *on))
