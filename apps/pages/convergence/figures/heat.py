"""Heat map of a level: one cell for each entry and day, in steps of points over or under target."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from math import isfinite
from typing import Any

from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.pages.convergence.figures.course import moment_of, ordinal_of
from apps.pages.convergence.figures.labels import caption, day_text, file_name
from apps.pages.convergence.figures.over_time import stop_label
from apps.pages.convergence.figures.tiles import balance_text
from apps.priorities.level_facts import IDLE_STATES, OFF_STATES
from apps.priorities.sentences.numbers import clock_text
from apps.series.convergence.records import Convergence
from apps.web.figures import axes
from apps.web.figures.elements import element, joined
from apps.web.figures.figure import Column, Figure, Swatch, Table
from apps.web.figures.traces import BALANCE, ON_TARGET, balance_legend, balance_step
from apps.web.figures.used_and_target import short_balance, used_words_of
from apps.web.texts.shortened import shortened

LEAST_ENTRIES = 2  # one alone is the picture above it
MOST_HEAT_ROWS = 40  # of the picture, limited by the names beside it; the table has all
_MOST_HEAT_DAYS = 60
_MOST_HEAT_LETTERS = {"wide": 22, "narrow": 12}  # of a name, by the window
_ROW, _BELOW = 17, 24  # pixels of a row, and below the last one
_LABELLED = 5  # days under the cells; in narrow windows every other one


def heat_figure(convergence: Convergence) -> Figure:
    """Draw at most the last sixty points, entries farthest from target first; unknown values have no cell."""
    title = _("Every entry, every hour") if convergence.is_by_hour else _("Every entry, every day")
    rows = convergence.order()
    n_points = min(len(convergence.on), _MOST_HEAT_DAYS)
    if not n_points or not rows:
        message = _("There are no days in this period.")
        return Figure("heat", title, message, (), {}, Table((), (), ()), empty=message, reads=False)
    points = slice(len(convergence.on) - n_points, len(convergence.on))
    shown = rows[:MOST_HEAT_ROWS]
    stops = [_ordinal(on) for on in convergence.on[points]]
    return Figure(
        name="heat",
        title=title,
        note=_note(convergence, len(shown), len(rows), n_points),
        sentence=_sentence(convergence, rows),
        traces=(),
        layout={},
        table=_table(convergence, rows, points),
        file=file_name(convergence, "heat"),
        caption=caption(convergence),
        legend=[*balance_legend(), Swatch("$surface", _("no demand"), is_outlined=True)],
        reads=False,
        extra={
            "axis": {
                "at": [round((at + 0.5) / n_points, 5) for at in range(n_points)],
                "stops": [moment_of(stop) for stop in stops],
                "labels": [_label(on, stop) for on, stop in zip(convergence.on[points], stops, strict=True)],
                "resting": n_points - 1,
            },
            "rows": [
                {
                    "uid": str(convergence.members[row].uid),
                    "name": convergence.members[row].name,
                    "reads": used_words_of(
                        convergence.actual[row, points],
                        convergence.target[row, points],
                        convergence.states[row, points].tolist(),
                        convergence.slack[row, points],
                    ),
                }
                for row in shown
            ],
            "svg": _draw(convergence, shown, points),
        },
    )


def _ordinal(on: date) -> float:
    return ordinal_of(timezone.make_naive(on) if isinstance(on, datetime) else on)


def _label(on: date, stop: float) -> str:
    return clock_text(on, "j M, H:i") if isinstance(on, datetime) else stop_label(stop)


def _draw(convergence: Convergence, rows: list[int], points: slice) -> SafeString:
    """Pictures beside each other, which the style sheet places: names, cells, balances, and days below the cells.

    Cells of one step are one path, so that thousands of them are a few elements.
    """
    height = {"height": f"{len(rows) * _ROW}", "width": "100%", "aria_hidden": "true"}
    below = {**height, "height": f"{_BELOW}"}
    n_points = points.stop - points.start
    view = {"viewBox": f"0 0 {n_points} {len(rows)}", "preserveAspectRatio": "none"}
    return joined(
        [
            element("svg", joined(_names(convergence, rows)), **{"class": "heat-names"}, **height),
            element("svg", joined(_boxes(convergence, rows, points)), **{"class": "heat-cells"}, **view, **height),
            element("svg", joined(_balances(convergence, rows)), **{"class": "heat-now"}, **height),
            element("svg", joined(_days(convergence, points)), **{"class": "heat-days"}, **below),
        ]
    )


def _names(convergence: Convergence, rows: list[int]) -> Iterator[SafeString]:
    for at, row in enumerate(rows):
        for css, most in _MOST_HEAT_LETTERS.items():
            text = shortened(convergence.members[row].name, most)
            yield element("text", text, **{"class": css}, x="0", y=_baseline(at))


def _baseline(at: int) -> str:
    return f"{at * _ROW + _ROW / 2 + 4:g}"


def _balances(convergence: Convergence, rows: list[int]) -> Iterator[SafeString]:
    """Of the last point, at the right."""
    last = slice(len(convergence.on) - 1, len(convergence.on))
    for at, row in enumerate(rows):
        for cell in _cells(convergence, row, last):
            shape = balance_text(cell[2], cell[0], cell[1])[0]
            css = {"class": shape} if shape in ("over", "under") else {}
            yield element("text", short_balance(*cell), **css, x="100%", y=_baseline(at), text_anchor="end")


def _boxes(convergence: Convergence, rows: list[int], points: slice) -> Iterator[SafeString]:
    """In units of one cell. Gaps are a stroke of the style sheet; hollow cells are smaller by it."""
    paths: dict[str, list[str]] = {}
    for at, row in enumerate(rows):
        for column, cell in enumerate(_cells(convergence, row, points)):
            step = _step(*cell)
            if step is not None and cell[2] in IDLE_STATES:
                paths.setdefault("idle", []).append(f"M{column}.08 {at}.1h.84v.8h-.84z")
            elif step is not None:
                paths.setdefault(BALANCE[step].removeprefix("$"), []).append(f"M{column} {at}h1v1h-1z")
    for kind, boxes in sorted(paths.items()):
        yield element("path", "", **{"class": f"cell {kind}"}, d="".join(boxes))


def _days(convergence: Convergence, points: slice) -> Iterator[SafeString]:
    """A few days under their columns."""
    on = convergence.on[points]
    for number, column in enumerate(range(len(on) - 1, -1, -max(-(-len(on) // _LABELLED), 1))):
        at, css = on[column], {"class": "wide"} if number % 2 else {}
        text = clock_text(at, "H:i") if isinstance(at, datetime) else _label(at, _ordinal(at)).partition(" ")[2]
        x, anchor = ((column + 0.5) / len(on), "middle") if column < len(on) - 1 else (1.0, "end")
        yield element("text", text, **css, x=f"{x * 100:.2f}%", y="16", text_anchor=anchor)


def _sentence(convergence: Convergence, rows: list[int]) -> str:
    n_off = sum(str(convergence.states[row, -1]) in OFF_STATES for row in rows)
    text = ngettext("%(off)s of %(n)s entry is off target.", "%(off)s of %(n)s entries are off target.", len(rows))
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
    if state == "on" or state in IDLE_STATES:
        return ON_TARGET
    return balance_step((actual - target) * 100)


def _table(convergence: Convergence, rows: list[int], days: slice) -> Table:
    """One row per entry with its latest balance; the CSV has every day."""
    on = [axes.moment(day) for day in convergence.on[days]]
    off = convergence.deviation[:, days] * 100
    names = [convergence.members[row].name for row in rows]
    last_day = slice(len(convergence.on) - 1, len(convergence.on))
    shown = [
        [name, *(short_balance(*cell) for cell in _cells(convergence, row, last_day))]
        for name, row in zip(names, rows, strict=True)
    ]
    raw = [
        [name, *(round(value, 4) if isfinite(value) else "" for value in off[row].tolist())]
        for name, row in zip(names, rows, strict=True)
    ]
    last = day_text(convergence.on[-1])
    return Table((Column(_("Entry"), is_number=False), Column(last)), shown, raw, header=("entry", *on))
