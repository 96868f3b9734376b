"""Shapes of answers that several resources share: lists, messages, instants, entries and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, TypeVar

from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers
from rest_framework.response import Response

from apps.core import local_time
from apps.core.tables import FORMATS, MEDIA_TYPES, Column, Row, pieces
from apps.policies.tree.columns import TreeColumns
from apps.priorities.sentences import json_value
from apps.web.rest.cursors import encode_cursor

T = TypeVar("T")

TABLE_ANSWERS: dict[tuple[int, str], Any] = {
    (200, "text/csv"): OpenApiTypes.STR,
    (200, "application/vnd.apache.parquet"): OpenApiTypes.BINARY,
}


class UtcTimeField(serializers.DateTimeField):
    """An instant, sent in UTC.

    A received time without UTC offset is local time of the site: the first of two equal hours when clocks are set
    back. A local time that clocks skip is rejected, with the instants before and after it.
    """

    def enforce_timezone(self, value: datetime) -> datetime:
        try:
            if value.tzinfo is not None:
                return value.astimezone(UTC)
            return local_time.instant_of(value, timezone.get_current_timezone())
        except local_time.NoSuchTime as error:
            raise serializers.ValidationError(str(error), code="nonexistent_time") from error
        except OverflowError:
            self.fail("overflow")


def utc_text(at: datetime | None) -> str | None:
    """The instant as `UtcTimeField` sends it."""
    return None if at is None else UtcTimeField().to_representation(at)


def list_response(results: Any, next_position: Any = None) -> Response:
    """One page. next_position: cursor position of its last row; None for the last page."""
    return Response({"results": results, "next": None if next_position is None else encode_cursor(next_position)})


def first_page(rows: Sequence[T], size: int, position: Callable[[T], Any]) -> tuple[Sequence[T], Any]:
    """The first `size` rows, and the cursor position of the last of them; None if there are no further rows."""
    return (rows[:size], position(rows[size - 1])) if len(rows) > size else (rows, None)


def list_schema(item: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """OpenAPI component of `list_response` with these items."""
    name = item.__name__.removesuffix("Serializer")
    fields = {"results": item(many=True), "next": serializers.CharField(allow_null=True)}
    return inline_serializer(f"{name}List", fields)


def with_etag(response: Response, tag: Any) -> Response:
    response["ETag"] = f'"{tag}"'
    return response


class ValuesField(serializers.DictField):
    """Values of a message: numbers, names and instants. Infinity is the text "Infinity"."""

    def to_representation(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: json_value(each) for name, each in value.items()}


class SentenceSerializer(serializers.Serializer[Any]):
    """A message: its stable key, its values, and its text in the caller's language."""

    key = serializers.CharField(help_text="Stable, unlike the text")
    values = ValuesField()
    text = serializers.CharField(help_text="The message as a sentence, translated")


class ProblemCodeSerializer(serializers.Serializer[Any]):
    """What went wrong: a stable code and a sentence."""

    code = serializers.CharField(help_text="Stable")
    message = serializers.CharField()


class ScopeSerializer(serializers.Serializer[Any]):
    scope = serializers.ChoiceField(["local", "global"], help_text="local: usage of this site; global: of all sites")
    sources = serializers.ListField(
        child=serializers.CharField(), help_text="Usage sources to which the scope is limited; empty: all of the scope"
    )


class MomentSerializer(serializers.Serializer[Any]):
    """The past state that `at` selects."""

    revision = serializers.IntegerField(help_text="Revision that was current at that instant")
    since = UtcTimeField(help_text="When the revision was published")
    until = UtcTimeField(allow_null=True, help_text="When the next revision replaced it; null: it is still current")
    as_of = UtcTimeField(allow_null=True, help_text="Instant of the numbers; null: no snapshot is stored for it")
    snapshot_revision = serializers.IntegerField(
        allow_null=True, help_text="Revision for which the snapshot was computed"
    )
    reconstructed = serializers.BooleanField(help_text="The snapshot was computed later, for that instant")
    notes = SentenceSerializer(many=True, help_text="Origin of the numbers, and usage that became known later")


def reach_json(tree: TreeColumns, reach: int | None) -> dict[str, str | None]:
    """Reach of a mapping rule: the entry below which it may move accounts; null for the whole policy.

    The reach is an ancestor of the rule's entry, so everyone who may see that entry may see the reach.
    """
    if reach is None:
        return {"reach": None, "reach_path": None}
    return {"reach": str(tree.uuid(reach)), "reach_path": tree.path(reach)}


def table_response(name: str, columns: Sequence[Column], rows: Iterable[Row], format: str) -> StreamingHttpResponse:
    """Streamed. The first piece is made here, so that a refusal is an answer and no broken download."""
    chunks = pieces(columns, rows, format)
    first = next(chunks)
    response = StreamingHttpResponse(chain([first], chunks), content_type=MEDIA_TYPES[format])
    response["Content-Disposition"] = f'attachment; filename="{name}.{format}"'
    return response


class TableFormatField(serializers.ChoiceField):
    """`format`: a table instead of JSON."""

    def __init__(self, **more: Any) -> None:
        super().__init__(FORMATS, required=False, help_text="A table instead of JSON", **more)
