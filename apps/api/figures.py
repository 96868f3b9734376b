"""Figures and tables by REST: the JSON that pages draw, or the numbers behind it as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.request import Request

from apps.core.tables import FORMATS, MEDIA_TYPES, Column, Row, pieces
from apps.figures import Figure
from apps.figures.figure import answer_of, body_of

# --- Tables -----------------------------------------------------------------------------------------------------------
TABLE_ANSWERS: dict[tuple[int, str], Any] = {
    (200, "text/csv"): OpenApiTypes.STR,
    (200, "application/vnd.apache.parquet"): OpenApiTypes.BINARY,
}


def table_response(name: str, columns: Sequence[Column], rows: Iterable[Row], format: str) -> StreamingHttpResponse:
    """Streamed. The first piece is made here, so that a refusal is an answer and no broken download."""
    found = pieces(columns, rows, format)
    first = next(found)
    response = StreamingHttpResponse(chain([first], found), content_type=MEDIA_TYPES[format])
    response["Content-Disposition"] = f'attachment; filename="{name}.{format}"'
    return response


class TableFormatField(serializers.ChoiceField):
    """`format`: a table instead of JSON."""

    def __init__(self, **more: Any) -> None:
        super().__init__(FORMATS, required=False, help_text="A table instead of JSON", **more)


# --- Figures ----------------------------------------------------------------------------------------------------------
class FigureTableSerializer(serializers.Serializer[Any]):
    columns = serializers.ListField(child=serializers.DictField())
    rows = serializers.ListField(child=serializers.ListField(child=serializers.CharField(allow_blank=True)))
    n_more = serializers.IntegerField(help_text="Rows that are in the CSV alone")
    queries = serializers.ListField(
        child=serializers.CharField(allow_blank=True), help_text="What a row opens on its page, one a row or none"
    )


class FigureSerializer(serializers.Serializer[Any]):
    """For the schema: `data` and `layout` are those of plotly.js."""

    name = serializers.CharField()
    title = serializers.CharField(allow_blank=True)
    note = serializers.CharField(allow_blank=True)
    sentence = serializers.CharField(help_text="The finding with its number")
    file = serializers.CharField()
    caption = serializers.CharField(allow_blank=True)
    size = serializers.ChoiceField(["xs", "s", "m", "l", "xl"])
    reads = serializers.BooleanField()
    empty = serializers.CharField(allow_blank=True, help_text="Why there is no picture; empty where there is one")
    moment_url = serializers.CharField(allow_blank=True)
    controls = serializers.ListField(child=serializers.DictField())
    legend = serializers.ListField(child=serializers.DictField(), help_text="Colours in words")
    series = serializers.ListField(child=serializers.DictField(), help_text="Names of the lines, for narrow windows")
    labels = serializers.ListField(child=serializers.DictField())
    marks = serializers.ListField(child=serializers.DictField())
    table = FigureTableSerializer()

    def get_fields(self) -> dict[str, Any]:
        """serializers use the name `data`."""
        traces = serializers.ListField(child=serializers.DictField(), help_text="Traces of plotly.js")
        return {**super().get_fields(), "data": traces, "layout": serializers.DictField()}


FIGURE_ANSWERS: dict[tuple[int, str], Any] = {
    (200, "application/json"): FigureSerializer,
    (200, "text/csv"): OpenApiTypes.STR,
}


class FigureFilterSerializer(serializers.Serializer[Any]):
    """Parameters of every figure; each adds the names of its own state."""

    format = serializers.ChoiceField(["csv"], required=False, help_text="The numbers behind it instead of JSON")


def figure_response(request: Request, figure: Figure) -> HttpResponseBase:
    """304 without a body where the caller has these numbers."""
    if request.query_params.get("format") == "csv":
        columns = [Column(name) for name in figure.table.csv_header]
        name = figure.file or f"fairshare_{figure.name}"
        return table_response(name, columns, figure.table.raw, "csv")
    body, tag = body_of(answer_of(figure))
    is_known = request.headers.get("If-None-Match") == tag
    response = HttpResponse(b"" if is_known else body, status=304 if is_known else 200, content_type="application/json")
    response["ETag"] = tag
    return response
