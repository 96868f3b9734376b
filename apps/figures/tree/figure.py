"""One tree as an icicle (levels from left to right) or a treemap (fields within each other), by Plotly's own traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import QueryDict
from django.utils import formats
from django.utils.translation import gettext as _

from apps.figures.controls import Choice, Control, changed
from apps.figures.figure import Column, Figure, Table, Trace
from apps.figures.traces import plotly_text
from apps.figures.tree.asked import ENTRY, TreeAsked, tree_controls
from apps.figures.tree.colors import Paint, legend_of, paint_of
from apps.figures.tree.words import (
    field_lines,
    more_words,
    nothing_words,
    sentence_of,
    short_words,
    top_name,
    words_of,
)
from apps.priorities.records.tree import EntryRow, IciclePage, Sector
from apps.priorities.sentences.numbers import percent

HEADER = 20  # pixels of a treemap's parent above its children
GAP = 2  # beside and below them
_HATCH = {"size": 6, "solidity": 0.12, "fgcolor": "$line-strong", "bgcolor": "$surface"}
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


@dataclass(frozen=True)
class _Field:
    """A sector in its place: id, parent's id, and what a click on it leads to: a state of the page or another page."""

    id: str
    parent: str
    sector: Sector
    query: str | None
    url: str
    paint: Paint
    said: list[str]


def tree_figure(
    page: IciclePage, asked: TreeAsked, query: QueryDict, entry: Callable[[UUID, str], str] = lambda _uid, _name: ""
) -> Figure:
    """Nothing is in it that isn't in `page`, which holds what one actor may see."""
    fields = list(_fields(page, asked, query, entry))
    name = top_name(page)
    empty = "" if page.top.children else nothing_words(page, asked)
    return Figure(
        name="tree",
        title=_("Shares of %(name)s") % {"name": name},
        note=_note(asked, name),
        sentence=empty or sentence_of(page, asked),
        traces=[] if empty else [_trace(fields, asked)],
        layout={"margin": {"l": 0, "r": 0, "t": 0, "b": 0}, "hovermode": "closest"},
        table=_table(page, fields, query),
        size="xl",
        file=f"fairshare_{page.policy_slug}_{asked.kind}_rev{page.revision}",
        caption=_caption(page),
        controls=[_path(page, query), *tree_controls(asked, query)],
        legend=[] if empty else legend_of(asked, [one.paint for one in fields if one.sector.row]),
        reads=False,
        empty=empty,
        extra={"fields": [_field_answer(one) for one in fields], "chosen": str(page.chosen.uid)},
    )


def _fields(
    page: IciclePage, asked: TreeAsked, query: QueryDict, entry: Callable[[UUID, str], str]
) -> Iterator[_Field]:
    """From the top down, each followed by what is below it."""
    waiting: list[tuple[Sector, EntryRow | None, str]] = [(page.top, None, "")]
    while waiting:
        sector, above, parent = waiting.pop()
        row, paint, said = sector.row, paint_of(sector.row, asked), field_lines(sector, page)
        if row is None:
            url = "" if above is None else entry(above.uid, above.name)
            yield _Field(f"{parent}-rest", parent, sector, None, url, paint, said)
            continue
        up = page.way[-1] if row == page.top.row and page.way else None
        yield _Field(str(row.uid), parent, sector, entry_query(query, up or row), "", paint, said)
        below = sorted(sector.children, key=_largest_first) if asked.kind == "treemap" else sector.children
        waiting += [(child, row, str(row.uid)) for child in reversed(below)]


def _largest_first(sector: Sector) -> tuple[bool, float]:
    """What is drawn together comes last."""
    return sector.row is None, -sector.size


def entry_query(query: QueryDict, row: EntryRow) -> str:
    """Of the page with this entry chosen; the root isn't named."""
    return changed(query, **{ENTRY: None if row.parent_uid is None else str(row.uid)})


def _trace(fields: list[_Field], asked: TreeAsked) -> Trace:
    """The value of a field is what its children leave of it, so that their sum never exceeds it."""
    texts = [short_words(one.sector.row) if one.sector.row else "" for one in fields]
    trace: Trace = {
        "type": asked.kind,
        "ids": [one.id for one in fields],
        "parents": [one.parent for one in fields],
        "labels": [plotly_text(_name(one.sector)) for one in fields],
        "values": [_own_part(one.sector) for one in fields],
        "branchvalues": "remainder",
        "sort": False,
        "text": texts,
        "texttemplate": "%{label}<br>%{text}",
        "textposition": "middle left" if asked.kind == "icicle" else "top left",
        "textfont": {"color": [one.paint.ink for one in fields], "weight": 500},
        "marker": {
            "colors": [one.paint.fill for one in fields],
            "line": {"color": [one.paint.line for one in fields]},
            "pattern": {"shape": ["/" if one.paint.is_hatched else "" for one in fields], **_HATCH},
        },
        "customdata": ["<br>".join(map(plotly_text, one.said)) for one in fields],
        "hovertemplate": "%{customdata}<extra></extra>",
    }
    if asked.kind == "treemap":
        trace["marker"]["pad"] = {"t": HEADER, "l": GAP, "r": GAP, "b": GAP}
    return trace


def _own_part(sector: Sector) -> float:
    return round(max(sector.size - sum(child.size for child in sector.children), 0.0), 9)


def _name(sector: Sector) -> str:
    return more_words(sector.n_together) if sector.row is None else sector.row.name


def _field_answer(one: _Field) -> dict[str, Any]:
    """What the page needs beside the trace; of the same places as its lists."""
    return {
        "name": _name(one.sector),
        "short": short_words(one.sector.row) if one.sector.row else "",
        "said": one.said,
        "query": one.query,
        "url": one.url,
        "size": round(one.sector.size, 9),
    }


def _path(page: IciclePage, query: QueryDict) -> Control:
    """From the root to the entry that was chosen; the last one is where one is."""
    top = page.top.row
    rows = [*page.way, *([top] if top is not None and top.uid != page.chosen.uid else []), page.chosen]
    last = len(rows) - 1
    choices = [Choice(f"way-{row.uid}", row.name, entry_query(query, row), at == last) for at, row in enumerate(rows)]
    return Control(_("Path"), choices, kind="path")


def _note(asked: TreeAsked, name: str) -> str:
    said = {
        ("icicle", "target"): _("height is the target within %(name)s"),
        ("icicle", "actual"): _("height is the usage of %(name)s"),
        ("treemap", "target"): _("area is the target within %(name)s"),
        ("treemap", "actual"): _("area is the usage of %(name)s"),
    }[asked.kind, asked.size]
    color = _("share of the parent") if asked.color == "share" else _("points of the parent, over or under")
    return f"{said % {'name': name}} · {_('colour:')} {color}"


def _caption(page: IciclePage) -> str:
    as_of = formats.date_format(page.as_of, "j M Y, H:i") if page.as_of else ""
    parts = (page.policy_name, _("revision %(n)s") % {"n": page.revision}, as_of)
    return " · ".join(part for part in parts if part)


def _table(page: IciclePage, fields: list[_Field], query: QueryDict) -> Table:
    """What is drawn, in the order of the picture; a click on a row opens it."""
    rows = [one.sector.row for one in fields if one.sector.row is not None]
    return Table(
        columns=(
            Column(_("Entry"), is_number=False),
            Column(_("Target")),
            Column(_("Actual")),
            Column(_("Target of %(name)s") % {"name": page.policy_name}),
            Column(_("Balance")),
        ),
        rows=[_cells(row) for row in rows],
        raw=[list(_numbers(row)) for row in rows],
        header=CSV_HEADER,
        queries=[entry_query(query, row) for row in rows],
    )


def _cells(row: EntryRow) -> list[str]:
    balance = short_words(row) or ("" if row.parent_uid is None else words_of(row))
    return [row.path, percent(row.target), percent(row.actual), percent(row.target_global), balance]


def _numbers(row: EntryRow) -> Iterator[Any]:
    yield from (row.path, row.name, str(row.uid))
    numbers = (row.target, row.target_global, row.actual, row.actual_global, row.deviation_points)
    yield from ("" if one is None else one for one in numbers)
    yield row.state
