"""Every subgroup, every day: by how many points it was over or under its target, in named steps of balance."""

from __future__ import annotations

from math import isfinite
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.figures import axes, traces
from apps.figures.balance import BALANCE, ON_TARGET, balance_legend, balance_step
from apps.figures.convergence.words import Links, caption, day_words, file_name, short_balance, used_words_of
from apps.figures.figure import Column, Figure, Table
from apps.priorities.convergence.records import Convergence

LEAST_ENTRIES = 12  # fewer are better read as lines
MOST_CELLS = 40_000
_MOST_DAYS = 60
_MOST_LETTERS = 22  # of a name


def heat_figure(found: Convergence, links: Links) -> Figure:
    """The last sixty days at most, the subgroups farthest from their targets first; what isn't known has no cell."""
    title = _("Every subgroup, every day")
    rows = found.order()
    n_days = min(len(found.on), _MOST_DAYS)
    rows = rows[: max(MOST_CELLS // max(n_days, 1), 1)]
    if not n_days or not rows:
        message = _("There are no days of subgroups in this period.")
        return Figure("heat", title, message, (), {}, Table((), (), ()), empty=message, reads=False)
    days = slice(len(found.on) - n_days, len(found.on))
    on = found.on[days]
    names = _unique([found.members[row].name for row in rows])
    steps = [[_step(*cell) for cell in _cells(found, row, days)] for row in rows]
    words = [
        used_words_of(found.actual[row, days], found.target[row, days], found.states[row, days].tolist())
        for row in rows
    ]
    cells = traces.steps([axes.moment(one) for one in on], names[::-1], steps[::-1], words[::-1], BALANCE)
    n_off = sum(str(found.states[row, -1]) in {"over", "starved", "inferred"} for row in rows)
    return Figure(
        name="heat",
        title=title,
        note=ngettext("points from target, last day", "points from target, last %(n)s days", n_days) % {"n": n_days},
        sentence=ngettext(
            "%(off)s of %(n)s subgroup is off its target; %(first)s is the farthest.",
            "%(off)s of %(n)s subgroups are off their targets; %(first)s is the farthest.", len(rows),
        ) % {"off": n_off, "n": len(rows), "first": names[0]},
        traces=[cells],
        layout={
            "margin": axes.margin(156, 12, 4, 24),
            "hovermode": "closest",
            "xaxis": axes.day_axis(on[0], on[-1]) | {"showspikes": False, "fixedrange": True},
            "yaxis": {
                "type": "category", "showgrid": False, "tickfont": {"size": 12}, "tickvals": names[::-1],
                "ticktext": [_short(name) for name in names[::-1]],
            },
        },
        table=_table(found, rows, names, days),
        size="xl" if len(rows) > LEAST_ENTRIES * 2 else "l",
        file=file_name(found, "heat"),
        caption=caption(found),
        moment_url=links.moment if found.is_by_hour else links.moment.replace("{at}", "{at}T23:59"),
        reads=False,
        legend=balance_legend(),
    )  # fmt: skip


def _cells(found: Convergence, row: int, days: slice) -> Any:
    return zip(found.actual[row, days].tolist(), found.target[row, days].tolist(), found.states[row, days].tolist(),
               strict=True)  # fmt: skip


def _step(actual: float, target: float, state: str) -> int | None:
    """The place in the seven steps; without demand counts as on target."""
    if not isfinite(actual) or not isfinite(target) or not state or state == "before_entry":
        return None
    if state in {"on", "no_demand"}:
        return ON_TARGET
    return balance_step((actual - target) * 100)


def _short(name: str) -> str:
    """As much of a name as fits beside the rows."""
    return name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}…"


def _unique(names: list[str]) -> list[str]:
    """Rows of a category axis need different names: equal ones get invisible marks behind them."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, -1) + 1
        found.append(name + "\u200b" * seen[name])
    return found


def _table(found: Convergence, rows: list[int], names: list[str], days: slice) -> Table:
    """A row a subgroup: its balance on the newest day; the CSV has the points of every day."""
    on = [axes.moment(one) for one in found.on[days]]
    off = found.deviation[:, days] * 100
    last_day = slice(len(found.on) - 1, len(found.on))
    shown = [
        [name, *(short_balance(*cell) for cell in _cells(found, row, last_day))]
        for name, row in zip(names, rows, strict=True)
    ]
    raw = [
        [names[at], *(round(one, 4) if isfinite(one) else "" for one in off[row].tolist())]
        for at, row in enumerate(rows)
    ]
    last = day_words(found.on[-1])
    return Table((Column(_("Entry"), is_number=False), Column(last)), shown, raw, header=("entry", *on))
