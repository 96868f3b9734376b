"""Tables as downloads of this face."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers

from apps.core.tables import FORMATS, MEDIA_TYPES, Column, Row, pieces

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
