"""Figures on pages: the frame with sentence and table, and the JSON and CSV that the browser fetches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from apps.core.errors import Invalid
from apps.web.figures import Figure, Table
from apps.web.figures.elements import element, joined
from apps.web.figures.figure import encode_json, figure_json
from apps.web.rest.rendering import is_known, not_modified, tagged
from apps.web.shell.requests import csv_response


@dataclass(frozen=True)
class FigureFrame:
    """Context of `web/_figure.html`. source: URL of the figure's JSON; its CSV URL ends in `.csv`.

    is_refused: the query is invalid.
    """

    figure: Figure
    source: str
    query: str
    is_refused: bool = False

    @property
    def rows(self) -> SafeString:
        """Table rows, each with a link to its page state. A template would take ten times as long for hundreds."""
        table = self.figure.table
        classes = [{"class": "num"} if column.is_number else {} for column in table.columns[1:]]

        def cells(row: Sequence[str], query: str | None) -> Iterator[SafeString]:
            name = row[0] if query is None else element("a", row[0], href=f"?{query}", data_choice="row")
            yield element("th", name, scope="row")
            yield from (element("td", text, **each) for text, each in zip(row[1:], classes, strict=True))

        queries = table.first_queries or repeat(None)
        return joined(element("tr", joined(cells(*line))) for line in zip(table.first_rows, queries, strict=False))

    @property
    def csv_url(self) -> str:
        """URL of the CSV; parameters of `source` override those of the page, as in the browser."""
        path, _, own = self.source.partition("?")
        query = QueryDict(self.query, mutable=True)
        for name, values in QueryDict(own).lists():
            query.setlist(name, values)
        return f"{path}.csv?{query.urlencode()}" if query else f"{path}.csv"


def framed(request: HttpRequest, source: str, make: Callable[[], Figure]) -> FigureFrame:
    """The figure for the page's query; `source` returns the same for this query.

    An invalid query is shown as a message instead of the picture, without failing the page.
    """
    try:
        figure = make()
    except Invalid as problem:
        name = source.partition("?")[0].rstrip("/").rpartition("/")[2]
        nothing = Table((), (), ())
        title = _("This can’t be shown.")
        figure = Figure(name, title, problem.message, (), {}, nothing, empty=problem.message, reads=False)
        return FigureFrame(figure, source, request.GET.urlencode(), is_refused=True)
    return FigureFrame(figure, source, request.GET.urlencode())


def answer_figure(request: HttpRequest, figure: Figure, form: str) -> HttpResponseBase:
    """The figure as JSON, or its numbers as CSV, unformatted."""
    if form == "csv":
        name = f"{figure.file or f'fairshare_{figure.name}'}.csv"
        return csv_response(name, figure.table.csv_header, figure.table.raw)
    if form != "json":
        raise Http404
    return _json(request, figure)


def _json(request: HttpRequest, figure: Figure) -> HttpResponse:
    """JSON of a figure; 304 without a body if the browser has these numbers."""
    body, tag = encode_json(figure_json(figure))
    if is_known(request, tag):
        response = not_modified(tag)
        del response["Content-Type"]
        return response
    return tagged(HttpResponse(body, content_type="application/json"), tag)
