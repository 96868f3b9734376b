"""What every figure consists of: a sentence, a picture, the same numbers as a table, its controls; and its JSON.

`traces` and `layout` are those of plotly.js (https://plotly.com/javascript/reference/); a colour is the name of a
design token, `$series-1` or `$band/0.55`, which the browser resolves, so that one answer serves both themes.
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


# --- Controls ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Choice:
    """query: the whole query string of the page with this choice. swatch: a token, for chips of a series.

    alone: the query that shows this series and no other, by double click or Shift+Enter. drop: the query without it.
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
class Slider:
    """A number of the page's query. text: the value in words. rest: the other names of the query, for a form."""

    name: str
    value: float
    low: float
    high: float
    step: float
    text: str
    rest: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Control:
    """kind: `seg` is one of several; `chips` any of several; `path` the way from the root; `range` a slider, without
    choices.

    drop_label: the verb of the links that drop one. caption: whether the label is shown before the choices.
    """

    label: str
    choices: Sequence[Choice]
    kind: Literal["seg", "chips", "path", "range"] = "seg"
    drop_label: str = ""
    slider: Slider | None = None
    caption: bool = False


def changed(query: QueryDict, **changes: str | Sequence[str] | None) -> str:
    """The query string with some names set anew, None takes one out; the order of the others stays."""
    copy = query.copy()
    for name, value in changes.items():
        if value is None:
            copy.pop(name, None)
        elif isinstance(value, str):
            copy[name] = value
        else:
            copy.setlist(name, list(value))
    return str(copy.urlencode())


# --- Figure -----------------------------------------------------------------------------------------------------------
Trace = dict[str, Any]
Size = Literal["xs", "s", "m", "l", "xl"]
MOST_ROWS = 400  # of a table on a page; the rest stands in the CSV


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    is_number: bool = True


@dataclass(frozen=True)
class Table:
    """The numbers of a picture. `rows` are formatted for people; `raw` are the same for CSV, as numbers.

    Newest or first line first, as read from top to bottom.
    """

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[str]]
    raw: Sequence[Sequence[Any]]
    header: tuple[str, ...] = ()  # of the CSV: names with units; the titles of the columns where empty
    queries: Sequence[str] = ()  # of the page, one a row: what the first cell of a row opens; empty: no links

    @property
    def first_rows(self) -> Sequence[Sequence[str]]:
        return self.rows[:MOST_ROWS]

    @property
    def first_queries(self) -> Sequence[str]:
        return self.queries[:MOST_ROWS]

    @property
    def n_more(self) -> int:
        return max(len(self.rows) - MOST_ROWS, 0)

    @property
    def csv_header(self) -> tuple[str, ...]:
        return self.header or tuple(column.title for column in self.columns)


@dataclass(frozen=True, slots=True)
class EndLabel:
    """A label at the right end of a line; `at` is a value of the y axis."""

    at: float
    text: str
    swatch: str = ""  # a token: a short line of this colour before the text
    color: str = "$ink-2"


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical rule, such as a revision: `at` on the x axis, `text` for its hover, `url` what a click opens."""

    at: str
    label: str
    text: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Swatch:
    """A colour of the picture, a token, in words."""

    color: str
    text: str
    is_hatched: bool = False
    is_outlined: bool = False
    is_dot: bool = False  # a hollow dot in the cell


@dataclass(frozen=True)
class Figure:
    """One figure. `layout` has the ranges of both axes and a margin of `axes.margin`: the first drawing uses them.

    name: part of the page's ids and of the file name. title: a noun phrase; note: unit, scale, period. sentence: the
    finding with its number, at most two sentences. file: of a download, without its ending. caption: policy, revision
    and moment, below a downloaded picture. reads: whether arrow keys move a read-out over the points of the traces
    whose `meta.read` is true. moment_url: opens the page as it was; {at} is replaced by the value of x. empty: what is
    shown in place of a picture without data.
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
    extra: dict[str, Any] = field(default_factory=dict)  # what a module of one figure alone needs

    @property
    def series(self) -> list[Swatch]:
        """The labels at the ends of lines as a list, for narrow windows; chips name the series themselves."""
        if any(control.kind == "chips" for control in self.controls):
            return []
        return [Swatch(one.swatch, one.text.replace("<br>", ", ")) for one in self.labels if one.swatch]


# --- Answer -----------------------------------------------------------------------------------------------------------
def answer_of(figure: Figure) -> dict[str, Any]:
    """Everything a page needs to draw, read and update one figure. `body_of` writes it: records as objects, arrays as
    lists, NaN and infinities, which are gaps, as null."""
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


def body_of(answer: Any) -> tuple[bytes, str]:
    """The bytes of an answer, and its ETag."""
    body = orjson.dumps(answer, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return body, f'"{sha256(body).hexdigest()[:32]}"'


def _plain(value: Any) -> list[Any]:
    """Rows that are no list, such as those that are formatted when they are read."""
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError


# --- Queries: what addresses of figures ask for -----------------------------------------------------------------------
def read_choice(query: QueryDict, name: str, known: Sequence[str]) -> str:
    """One of the known words, the first where none is given. Raises Invalid with the name in the address."""
    text = query.get(name) or known[0]
    if text not in known:
        message = _("“%(text)s” is not one of %(known)s.") % {"text": text[:40], "known": ", ".join(known)}
        raise Invalid(message, fields=[FieldProblem(name, message)])
    return text


def read_days(query: QueryDict, name: str, known: Sequence[int]) -> int:
    """One of the known numbers of days, the first where none is given. Raises Invalid with the name in the address."""
    return int(read_choice(query, name, [str(days) for days in known]))
