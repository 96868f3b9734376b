"""Records of a figure (sentence, picture, table, controls) and its JSON form.

`traces` and `layout` are those of plotly.js (https://plotly.com/javascript/reference/), of its basic bundle: lines and
bars. A colour is the name of a design token, such as `$series-1` or `$band/0.55`, which the browser resolves, so that
one response serves both themes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal

import orjson
from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.core.periods import DEFAULT_DAYS, FORMER_DAYS, PERIODS_DAYS

Trace = dict[str, Any]
Size = Literal["xs", "s", "m", "l", "xl"]
MOST_FIGURE_ROWS = 400  # of a table on a page; the CSV has all


@dataclass(frozen=True, slots=True)
class Choice:
    """query: the page's whole query string with this choice. swatch: colour token of a series chip.

    alone: query that shows only this series (double click or Shift+Enter). drop: query without it.
    """

    key: str
    label: str
    query: str
    is_chosen: bool
    swatch: str = ""
    note: str = ""
    alone: str = ""
    drop: str = ""


@dataclass(frozen=True, slots=True)
class Control:
    """kind: `seg` selects one choice; `chips` any number; `path` links to ancestors.

    drop_label: verb of the links that drop a choice. caption: whether the label is shown before the choices.
    """

    label: str
    choices: Sequence[Choice]
    kind: Literal["seg", "chips", "path"] = "seg"
    drop_label: str = ""
    caption: bool = False


def with_changes(query: QueryDict, **changes: str | Sequence[str] | None) -> str:
    """Return the query string with some parameters replaced, or removed if None; the order of the others
    is unchanged.
    """
    copy = query.copy()
    for name, value in changes.items():
        if value is None:
            copy.pop(name, None)
        elif isinstance(value, str):
            copy[name] = value
        else:
            copy.setlist(name, list(value))
    return str(copy.urlencode())


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    is_number: bool = True


@dataclass(frozen=True)
class Table:
    """The numbers of a picture, newest or first line first. `rows` are formatted texts; `raw` are numbers
    for the CSV.
    """

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[str]]
    raw: Sequence[Sequence[Any]]
    header: tuple[str, ...] = ()  # of the CSV: names with units; default: the column titles
    queries: Sequence[str] = ()  # page query that the first cell of each row opens; empty: no links

    @property
    def first_rows(self) -> Sequence[Sequence[str]]:
        return self.rows[:MOST_FIGURE_ROWS]

    @property
    def first_queries(self) -> Sequence[str]:
        return self.queries[:MOST_FIGURE_ROWS]

    @property
    def n_more(self) -> int:
        return max(len(self.rows) - MOST_FIGURE_ROWS, 0)

    @property
    def csv_header(self) -> tuple[str, ...]:
        return self.header or tuple(column.title for column in self.columns)


@dataclass(frozen=True, slots=True)
class EndLabel:
    """A label at the right end of a line; `at` is a value on the y axis."""

    at: float
    text: str
    swatch: str = ""  # colour token of a short line before the text
    color: str = "$ink-2"


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line, such as a revision: `at` on the x axis, `text` for its hover, `url` to open on click."""

    at: str
    label: str
    text: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Swatch:
    """A colour token of the picture with its meaning."""

    color: str
    text: str
    is_hatched: bool = False
    is_outlined: bool = False
    is_dot: bool = False  # a hollow dot in the cell


@dataclass(frozen=True)
class Figure:
    """One figure. `layout` has the ranges of both axes, and its margins.

    name: part of the page's ids and of the file name. title: a noun phrase; note: unit, scale, period. sentence: the
    finding with its number, at most two sentences. file: name of a download without extension. caption: policy,
    revision and time, below a downloaded picture. reads: arrow keys move a read-out over the points of traces whose
    `meta.read` is true. moment_url: page at a past time; {at} is replaced by the value of x. empty: text shown instead
    of a picture without data. drawing: what the browser draws by itself from `extra`, then without traces and layout.
    """

    name: str
    title: str
    sentence: str
    traces: Sequence[Trace]
    layout: dict[str, Any]
    table: Table
    note: str = ""
    size: Size = "l"
    file: str = ""
    caption: str = ""
    labels: Sequence[EndLabel] = ()
    marks: Sequence[Mark] = ()
    controls: Sequence[Control] = ()
    legend: Sequence[Swatch] = ()
    moment_url: str = ""
    reads: bool = True
    empty: str = ""
    drawing: Literal["", "tree", "flow"] = ""
    extra: dict[str, Any] = field(default_factory=dict)  # additional JSON for this figure's script

    @property
    def series(self) -> list[Swatch]:
        """The labels at the ends of lines as a list, for narrow windows; empty if chips already list the series."""
        if any(control.kind == "chips" for control in self.controls):
            return []
        return [Swatch(label.swatch, label.text.replace("<br>", ", ")) for label in self.labels if label.swatch]


def figure_json(figure: Figure) -> dict[str, Any]:
    """Return everything a page needs to draw, read and update one figure, to be encoded by `encode_json`."""
    return {
        "name": figure.name,
        "title": figure.title,
        "note": figure.note,
        "sentence": figure.sentence,
        "file": figure.file or f"fairshare_{figure.name}",
        "caption": figure.caption,
        "size": figure.size,
        "reads": figure.reads,
        "empty": figure.empty,
        "moment_url": figure.moment_url,
        "controls": figure.controls,
        "legend": figure.legend,
        "series": figure.series,
        "labels": figure.labels,
        "marks": figure.marks,
        "data": figure.traces,
        "layout": figure.layout,
        "table": {
            "columns": figure.table.columns,
            "rows": figure.table.first_rows,
            "n_more": figure.table.n_more,
            "queries": figure.table.first_queries,
        },
        **figure.extra,
    }


def encode_json(content: Any) -> tuple[bytes, str]:
    """Encode a response and its tag. Records become objects, arrays lists, NaN and infinities (gaps) null."""
    body = orjson.dumps(content, default=_as_list, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return body, sha256(body).hexdigest()[:32]


def _as_list(value: Any) -> list[Any]:
    """Convert sequences that are not lists, such as rows that are formatted on demand."""
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError


def period_label(days: int) -> str:
    """30 d; 1 y."""
    return _("%(n)s d") % {"n": days} if days < 365 else _("1 y")


def period_choices(query: QueryDict, name: str, key: str, chosen: int) -> list[Choice]:
    """Links that set the parameter `name` to each period, in days; `key` starts their ids."""
    return [
        Choice(
            f"{key}-{days}",
            period_label(days),
            with_changes(query, **{name: str(days)}),
            days == chosen,
        )
        for days in PERIODS_DAYS
    ]


def read_days(query: QueryDict, name: str, *, by_default: int = DEFAULT_DAYS) -> int:
    """Return the period that is asked for, in days. Raises Invalid with the parameter's name for another."""
    periods = {str(days): period for days, period in {**FORMER_DAYS, **{each: each for each in PERIODS_DAYS}}.items()}
    text = query.get(name) or str(by_default)
    if text not in periods:
        known = ", ".join(map(str, PERIODS_DAYS))
        message = _("“%(text)s” is not one of %(known)s.") % {"text": text[:40], "known": known}
        raise Invalid(message, fields=[FieldProblem(name, message)])
    return periods[text]
