"""Sankey diagram of core-hours from the sites that delivered them to the entries that used them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.federation.grid.totals import Grid
from apps.priorities.sentences.numbers import count
from apps.web.figures import axes, traces
from apps.web.figures.figure import Column, Figure, Table

MOST_FLOW_NODES = 8  # in a column; the rest is one node, “others”


@dataclass(frozen=True)
class Flows:
    """core_h[entry][site], shape (entries, sites), core-hours ≥ 0. n_hidden: entries whose amounts are not visible."""

    sites: tuple[str, ...]
    entries: tuple[str, ...]
    core_h: Sequence[Sequence[float]]
    n_hidden: int = 0

    @property
    def total(self) -> float:
        return sum(map(sum, self.core_h))


def grid_flow(grid: Grid) -> Figure:
    """Draw what each site delivered to each child of the entry, or to the entry itself if it has no children."""
    rows = grid.children or (grid.own,)
    shown = [row for row in rows if row.core_s is not None]
    flows = Flows(
        sites=tuple(site.name or _("This site") for site in grid.sites),
        entries=tuple(row.entry.name for row in shown),
        core_h=[[core_s / 3600 for core_s in row.core_s or ()] for row in shown],
        n_hidden=len(rows) - len(shown),
    )
    since = (
        _("all time") if grid.since is None else _("since %(day)s") % {"day": formats.date_format(grid.since, "j M Y")}
    )
    return flow_figure(flows, name=grid.name, policy=grid.policy_slug, period=since)


def flow_figure(flows: Flows, *, name: str, policy: str, period: str) -> Figure:
    """Draw the flows to the children of the entry `name`, nodes in descending order of their amounts."""
    drawn = _merged(flows)
    total = drawn.total
    of_site = [sum(row[at] for row in drawn.core_h) for at in range(len(drawn.sites))]
    of_entry = [sum(row) for row in drawn.core_h]
    links = [
        _link(drawn, site, entry, total)
        for site in range(len(drawn.sites))
        for entry in range(len(drawn.entries))
        if drawn.core_h[entry][site] > 0
    ]
    flow = {
        "sources": [_bar(*each, "$level-mark", total) for each in zip(drawn.sites, of_site, strict=True)],
        "targets": [
            _bar(name, amount, traces.series_color(at), total)
            for at, (name, amount) in enumerate(zip(drawn.entries, of_entry, strict=True))
        ],
        "links": links,
    }
    return Figure(
        name="flow",
        title=_("From sites to %(name)s") % {"name": name},
        note=_("core-hours, %(period)s") % {"period": period},
        sentence=_sentence(flows, of_site, drawn),
        traces=[],
        layout={},
        table=_table(flows),
        size="xl" if len(of_entry) > 3 else "l",
        file=f"fairshare_{policy}_flow",
        caption=policy,
        reads=False,
        empty="" if links else _("No visible core-hours in this period."),
        drawing="flow",
        extra={"flow": flow},
    )


def _merged(flows: Flows) -> Flows:
    """Sort nodes by amount and merge those from the eighth on."""
    of_site = [sum(row[at] for row in flows.core_h) for at in range(len(flows.sites))]
    sites = [at for at in sorted(range(len(of_site)), key=lambda at: -of_site[at]) if of_site[at] > 0]
    rows = [[row[at] for at in sites] for row in flows.core_h]
    entries = [at for at in sorted(range(len(rows)), key=lambda at: -sum(rows[at])) if sum(rows[at]) > 0]
    table = [rows[at] for at in entries]
    columns, names = _merge_rest(
        [list(column) for column in zip(*table, strict=True)], [flows.sites[at] for at in sites]
    )
    lines, labels = _merge_rest(
        [list(row) for row in zip(*columns, strict=True)], [flows.entries[at] for at in entries]
    )
    return Flows(tuple(names), tuple(labels), lines, flows.n_hidden)


def _merge_rest(rows: list[list[float]], names: list[str]) -> tuple[list[list[float]], list[str]]:
    if len(rows) <= MOST_FLOW_NODES:
        return rows, names
    first, rest = rows[: MOST_FLOW_NODES - 1], rows[MOST_FLOW_NODES - 1 :]
    others = ngettext("%(n)s other", "%(n)s others", len(rest)) % {"n": len(rest)}
    return [*first, [sum(column) for column in zip(*rest, strict=True)]], [*names[: MOST_FLOW_NODES - 1], others]


def _bar(name: str, amount: float, color: str, total: float) -> dict[str, Any]:
    part = f"{amount / total:.0%}".replace("%", "\u00a0%") if total else ""
    return {
        "name": name,
        "part": part,
        "amount": round(amount, 3),
        "color": color,
        "lines": [name, _words(amount, total)],
    }


def _link(flows: Flows, site: int, entry: int, total: float) -> dict[str, Any]:
    amount = flows.core_h[entry][site]
    return {
        "source": site,
        "target": entry,
        "amount": round(amount, 3),
        "color": traces.series_color(entry),
        "lines": [f"{flows.sites[site]} → {flows.entries[entry]}", _words(amount, total)],
    }


def _words(amount: float, total: float) -> str:
    values = {"amount": axes.short_amount(amount), "part": f"{100 * amount / total:.1f}" if total else "0"}
    return _("%(amount)s core-hours, %(part)s\u00a0%% of all") % values


def _sentence(flows: Flows, of_site: Sequence[float], drawn: Flows) -> str:
    if not drawn.sites:
        return _("No visible core-hours in this period.")
    values = {
        "site": drawn.sites[0],
        "part": f"{100 * of_site[0] / drawn.total:.1f}",
        "n": len(flows.sites),
        "amount": axes.short_amount(drawn.total),
    }
    text = _("%(site)s delivered %(part)s\u00a0%% of %(amount)s core-hours.") % values
    if not flows.n_hidden:
        return text
    more = ngettext("%(n)s entry not shown.", "%(n)s entries not shown.", flows.n_hidden)
    return f"{text} {more % {'n': flows.n_hidden}}"


def _table(flows: Flows) -> Table:
    return Table(
        columns=(Column(_("Entry"), is_number=False), *(Column(site) for site in flows.sites), Column(_("All"))),
        rows=[
            [name, *(count(amount) for amount in row), count(sum(row))]
            for name, row in zip(flows.entries, flows.core_h, strict=True)
        ],
        raw=[[name, *row, sum(row)] for name, row in zip(flows.entries, flows.core_h, strict=True)],
        header=("entry", *(f"core_h {site}" for site in flows.sites), "core_h all"),
    )
