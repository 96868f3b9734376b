"""Figure of a tree as a treemap (nested fields) or an icicle (levels from left to right), drawn by the browser."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.policies.settings import PolicySettings
from apps.policies.tree.names import RESERVE
from apps.priorities.records import EntryRow, IciclePage, Sector
from apps.priorities.sentences.numbers import NBSP, clock_text, compare_shares, count, percent
from apps.web.figures.figure import Choice, Column, Control, Figure, Swatch, Table, with_changes
from apps.web.figures.traces import BALANCE, ON_TARGET, balance_legend, balance_step
from apps.web.figures.tree_options import ENTRY_PARAMETER, TreeOptions, tree_controls
from apps.web.figures.used_and_target import short_balance, used_text
from apps.web.shell.lines import tolerance_for, tolerance_of

_SHARES = (0.01, 0.05, 0.10, 0.25, 0.50)  # borders between the steps, as shares of the parent
_SHARE_COLORS = ("$seq-0", "$seq-1", "$seq-2", "$seq-3", "$seq-5", "$seq-6")  # text has enough contrast on each
_N_LOW = 4  # the first four need the text colour for low amounts
_STATES = {"idle": "no_demand"}  # names used by the convergence figures

CSV_HEADER = (
    "path",
    "entry",
    "uid",
    "target",
    "target_of_total",
    "actual",
    "actual_of_total",
    "deviation_points",
    "state",
)


@dataclass(frozen=True, slots=True)
class Paint:
    """Colour tokens of a field, its text and its edge. is_hatched: no demand."""

    fill: str
    ink: str = "$ink"
    line: str = "$surface"
    is_hatched: bool = False


WHOLE = Paint("$surface-3")
UNKNOWN = Paint("$surface", "$ink-2", "$line-strong")
_NO_DEMAND = Paint("$surface", line="$line", is_hatched=True)


def paint_of(row: EntryRow | None, options: TreeOptions) -> Paint:
    """Return the colours of a field. row: None for combined entries."""
    if row is None:
        return UNKNOWN
    if row.parent_uid is None:
        return WHOLE
    return _share_paint(row, options) if options.color == "share" else _balance_paint(row)


def _balance_paint(row: EntryRow) -> Paint:
    if row.state == "idle":
        return _NO_DEMAND
    if row.deviation_points is None or row.state == "unknown":
        return UNKNOWN
    return Paint(BALANCE[ON_TARGET if row.state == "on" else balance_step(row.deviation_points)])


def _share_paint(row: EntryRow, options: TreeOptions) -> Paint:
    share = row.actual if options.size == "actual" else row.target
    if share is None:
        return UNKNOWN
    step = bisect_right(_SHARES, share)
    return Paint(_SHARE_COLORS[step], "$on-seq-low" if step < _N_LOW else "$on-seq-high")


def legend_of(options: TreeOptions, paints: list[Paint]) -> list[Swatch]:
    """Return the steps, and the other kinds of fields in the picture. paints: of its entries."""
    idle = [Swatch(_NO_DEMAND.fill, _("no demand"), is_hatched=True)] if _NO_DEMAND in paints else []
    unknown = [Swatch(UNKNOWN.fill, _("no data"), is_outlined=True)] if UNKNOWN in paints else []
    if options.color == "balance":
        return [*balance_legend(), *idle, *unknown]
    edges = [f"{share * 100:g}" for share in _SHARES]
    between = [_("%(first)s to %(last)s") % {"first": low, "last": high} for low, high in pairwise(edges)]
    texts = [
        _("below %(n)s") % {"n": f"{edges[0]}{NBSP}%"},
        *(f"{span}{NBSP}%" for span in between),
        _("%(n)s and more") % {"n": f"{edges[-1]}{NBSP}%"},
    ]
    return [*(Swatch(color, text) for color, text in zip(_SHARE_COLORS, texts, strict=True)), *unknown]


def entries_of(sector: Sector) -> Iterator[EntryRow]:
    """Yield the entries drawn below a field, in drawing order."""
    for child in sector.children:
        if child.row is not None:
            yield child.row
            yield from entries_of(child)


def sentence_of(page: IciclePage, options: TreeOptions) -> str:
    """Return the finding, and how many of the entries are drawn. Reserves and combined entries are no finding."""
    finding = _largest(page, options) if options.color == "share" else _farthest(page)
    if page.n_shown == page.n_entries:
        return finding
    words = {"n": count(page.n_shown), "of": count(page.n_entries)}
    drawn = (
        ngettext(
            "%(n)s of %(of)s entry is shown; the table lists all.",
            "%(n)s of %(of)s entries are shown; the table lists all.",
            page.n_entries,
        )
        % words
    )
    return f"{finding} {drawn}"


def _farthest(page: IciclePage) -> str:
    rows = [row for row in entries_of(page.top) if row.state in {"over", "under"} and row.kind != RESERVE]
    if rows:
        worst = max(rows, key=lambda row: abs(row.deviation_points or 0.0))
        words = {"name": worst.name, "words": words_of(worst, page.settings), "of": top_name(page)}
        return _("Of all entries drawn below %(of)s, %(name)s is furthest off its group’s target: %(words)s.") % words
    if page.as_of is None:
        return _("No usage data.")
    return _("All entries shown are within tolerance.")


def _largest(page: IciclePage, options: TreeOptions) -> str:
    sizes = [(field.size, field.row.name) for field in page.top.children if field.row and field.row.kind != RESERVE]
    if not sizes:
        return _("All entries below %(name)s are reserves or combined.") % {"name": top_name(page)}
    size, name = max(sizes, key=itemgetter(0))
    words = {"name": name, "share": percent(size), "of": top_name(page)}
    if options.size == "actual":
        return _("%(name)s used the most: %(share)s of %(of)s.") % words
    return _("%(name)s has the largest target: %(share)s of %(of)s.") % words


def empty_text(page: IciclePage, options: TreeOptions) -> str:
    """Explain why nothing is drawn below the entry."""
    name = {"name": top_name(page)}
    if page.n_entries <= 1:
        return _("%(name)s has no entries below.") % name
    if options.size == "actual":
        return _("Usage of the entries below %(name)s is unknown. Choose “target” to see their shares.") % name
    return _("No entry below %(name)s has a target. Choose “actual” to see their usage.") % name


def words_of(row: EntryRow, settings: PolicySettings) -> str:
    """Return e.g. "used 52.6 %, target 40.0 %, 12.6 points over"."""
    if row.target is None:
        return _("no shares of its own")
    if row.suppressed:
        return _("target %(target)s, not shown") % {"target": percent(row.target)}
    if row.actual is None or row.state == "unknown":
        return _("target %(target)s, no data") % {"target": percent(row.target)}
    if row.kind == RESERVE and row.state == "idle":
        return _("reserve, target %(target)s") % {"target": percent(row.target)}
    slack = tolerance_for(row, tolerance_of(settings)).around(row.target)
    return used_text(row.actual, row.target, _STATES.get(row.state, row.state), slack)


def short_text(row: EntryRow) -> str:
    """Return e.g. "▲ 12.6"."""
    if row.parent_uid is None or row.target is None or row.suppressed or row.actual is None or row.state == "unknown":
        return ""
    if row.kind == RESERVE and row.state == "idle":
        return _("reserve")
    return short_balance(row.actual, row.target, _STATES.get(row.state, row.state))


def field_lines(sector: Sector, page: IciclePage) -> list[str]:
    """Return the lines of a field's hover text: name and balance, fraction of the whole, number of members."""
    part = _("%(n)s of %(all)s") % {"n": percent(sector.size), "all": top_name(page)}
    row = sector.row
    if row is None:
        return [_("%(more)s (combined)") % {"more": more_text(sector.n_together)}, part]
    members = (
        ngettext("%(n)s member", "%(n)s members", row.n_children) % {"n": count(row.n_children)}
        if row.n_children
        else ""
    )
    own = _("the policy") if row.parent_uid is None else words_of(row, page.settings)
    return [line for line in (f"{row.name}: {own}", "" if row == page.top.row else part, members) if line]


def more_text(n: int) -> str:
    return ngettext("%(n)s more", "%(n)s more", n) % {"n": count(n)}


def top_name(page: IciclePage) -> str:
    return page.top.row.name if page.top.row is not None else page.policy_name


@dataclass(frozen=True)
class _Field:
    """A sector with the target of a click: a query of this page, or the URL of another.

    parent: index of the field that it is in; -1 for the whole.
    """

    parent: int
    sector: Sector
    query: str | None
    url: str
    paint: Paint
    lines: list[str]


def tree_figure(
    page: IciclePage, options: TreeOptions, query: QueryDict, entry: Callable[[UUID, str], str] = lambda _uid, _name: ""
) -> Figure:
    """Draw a page of a tree; it shows only what is in `page`, which holds what one actor may see."""
    fields = list(_fields(page, options, query, entry))
    name = top_name(page)
    empty = "" if page.top.children else empty_text(page, options)
    return Figure(
        name="tree",
        title=_("Shares of %(name)s") % {"name": name},
        note=_note(options, name),
        sentence=empty or sentence_of(page, options),
        traces=[],
        layout={},
        table=_table(page, fields, query),
        size="xl",
        file=f"fairshare_{page.policy_slug}_{options.kind}_rev{page.revision}",
        caption=_caption(page),
        controls=[_path(page, query), *tree_controls(options, query)],
        legend=[] if empty else legend_of(options, [field.paint for field in fields if field.sector.row]),
        reads=False,
        empty=empty,
        drawing="tree",
        extra={
            "kind": options.kind,
            "fields": [_field_json(field) for field in fields],
            "chosen": str(page.chosen.uid),
        },
    )


def _fields(
    page: IciclePage, options: TreeOptions, query: QueryDict, entry: Callable[[UUID, str], str]
) -> Iterator[_Field]:
    """Yield fields from the top down, each followed by those below it."""
    waiting: list[tuple[Sector, EntryRow | None, int]] = [(page.top, None, -1)]
    for number in itertools.count():
        if not waiting:
            return
        sector, above, parent = waiting.pop()
        row, paint, lines = sector.row, paint_of(sector.row, options), field_lines(sector, page)
        if row is None:
            url = "" if above is None else entry(above.uid, above.name)
            yield _Field(parent, sector, None, url, paint, lines)
            continue
        up = page.way[-1] if row == page.top.row and page.way else None
        yield _Field(parent, sector, entry_query(query, up or row), "", paint, lines)
        below = sorted(sector.children, key=_largest_first) if options.kind == "treemap" else sector.children
        waiting += [(child, row, number) for child in reversed(below)]


def _largest_first(sector: Sector) -> tuple[bool, float]:
    """Sort key; combined entries come last."""
    return sector.row is None, -sector.size


def entry_query(query: QueryDict, row: EntryRow) -> str:
    """Return the page's query with this entry chosen; the root is not in the address."""
    return with_changes(query, **{ENTRY_PARAMETER: None if row.parent_uid is None else str(row.uid)})


def _field_json(field: _Field) -> dict[str, Any]:
    return {
        "id": "" if field.sector.row is None else str(field.sector.row.uid),
        "parent": field.parent,
        "name": more_text(field.sector.n_together) if field.sector.row is None else field.sector.row.name,
        "short": short_text(field.sector.row) if field.sector.row else "",
        "lines": field.lines,
        "query": field.query,
        "url": field.url,
        "size": round(field.sector.size, 9),
        "fill": field.paint.fill,
        "ink": field.paint.ink,
        "line": field.paint.line,
        "is_hatched": field.paint.is_hatched,
    }


def _path(page: IciclePage, query: QueryDict) -> Control:
    """Links from the root to the chosen entry; the last one is the current one."""
    top = page.top.row
    rows = [*page.way, *([top] if top is not None and top.uid != page.chosen.uid else []), page.chosen]
    last = len(rows) - 1
    choices = [Choice(f"way-{row.uid}", row.name, entry_query(query, row), at == last) for at, row in enumerate(rows)]
    return Control(_("Path"), choices, kind="path")


def _note(options: TreeOptions, name: str) -> str:
    return {
        ("target", "share"): _("Size shows: Target, %(name)s · Colour shows: Share of parent"),
        ("target", "balance"): _("Size shows: Target, %(name)s · Colour shows: Balance"),
        ("actual", "share"): _("Size shows: Actual, %(name)s · Colour shows: Share of parent"),
        ("actual", "balance"): _("Size shows: Actual, %(name)s · Colour shows: Balance"),
    }[options.size, options.color] % {"name": name}


def _caption(page: IciclePage) -> str:
    as_of = clock_text(page.as_of) if page.as_of else ""
    parts = (page.policy_name, _("Revision %(n)s") % {"n": page.revision}, as_of)
    return " · ".join(part for part in parts if part)


def _table(page: IciclePage, fields: list[_Field], query: QueryDict) -> Table:
    """The drawn entries in drawing order; a click on a row opens it."""
    rows = [field.sector.row for field in fields if field.sector.row is not None]
    return Table(
        columns=(
            Column(_("Entry"), is_number=False),
            Column(_("Target")),
            Column(_("Actual")),
            Column(_("Target of %(name)s") % {"name": page.policy_name}),
            Column(_("Balance")),
        ),
        rows=[_cells(row, page.settings) for row in rows],
        raw=[list(_numbers(row)) for row in rows],
        header=CSV_HEADER,
        queries=[entry_query(query, row) for row in rows],
    )


def _cells(row: EntryRow, settings: PolicySettings) -> list[str]:
    balance = short_text(row) or ("" if row.parent_uid is None else words_of(row, settings))
    shares = compare_shares(row.actual, row.target)
    return [row.path, shares.target, shares.actual, percent(row.target_global), balance]


def _numbers(row: EntryRow) -> Iterator[Any]:
    yield from (row.path, row.name, str(row.uid))
    numbers = (row.target, row.target_global, row.actual, row.actual_global, row.deviation_points)
    yield from ("" if number is None else number for number in numbers)
    yield row.state
