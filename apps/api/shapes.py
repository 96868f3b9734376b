"""What all resources write the same way: lists, sentences, instants, entries, records, figures and tables."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, TypeVar
from uuid import UUID

import orjson
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import actor_of
from apps.api.errors import Refusal
from apps.core import clock, local_time
from apps.core.errors import FieldProblem
from apps.core.tables import FORMATS, MEDIA_TYPES, Column, Row, pieces
from apps.figures import Figure
from apps.figures.figure import encode_json, figure_json
from apps.mapping.permissions import see
from apps.policies.selectors import get_policy, read_instant, read_moment
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree


# --- Times in answers -------------------------------------------------------------------------------------------------
class UtcTimeField(serializers.DateTimeField):
    """An instant. One without offset is the site's local time: the first pass of an hour that clocks repeat; refused,
    with the two instants around it, where clocks skip it. The answer says in UTC which instant it is.
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


# --- Lists ------------------------------------------------------------------------------------------------------------
Place = TypeVar("Place", int, list[Any])


def listed(results: Any, next_place: Any = None) -> Response:
    return Response({"results": results, "next": None if next_place is None else encode_cursor(next_place)})


def list_of(item: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """For the schema."""
    name = item.__name__.removesuffix("Serializer")
    fields = {"results": item(many=True), "next": serializers.CharField(allow_null=True)}
    return inline_serializer(f"{name}List", fields)


def encode_cursor(place: Any) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(place)).rstrip(b"=").decode()


def decode_cursor(text: str, kind: type[Place]) -> Place:
    """A cursor holds a place in the order, so rows that come or go meanwhile shift nothing."""
    try:
        place = orjson.loads(base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)))
    except (binascii.Error, ValueError):
        place = None
    if isinstance(place, kind) and not isinstance(place, bool):
        return place
    message = "is no cursor of this list: take its `next`"
    raise Refusal(f"cursor {message}.", code="bad_cursor", fields=[FieldProblem("cursor", message)])


def asked(kind: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    """The query string, checked; unknown names are rejected, because a typo would be ignored."""
    lists = [name for name, field in kind().fields.items() if isinstance(field, serializers.ListField)]
    several = {name: request.query_params.getlist(name) for name in lists if name in request.query_params}
    return _checked(kind, {**request.query_params.dict(), **several})


def sent(kind: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    """The body, checked; unknown names are refused for the same reason."""
    data: Any = request.data
    if not isinstance(data, dict):
        message = "must be one JSON object"
        raise Refusal(f"The body {message}.", code="invalid", fields=[FieldProblem("body", message)])
    return _checked(kind, data)


def _checked(kind: type[serializers.Serializer[Any]], data: dict[str, Any]) -> dict[str, Any]:
    serializer = kind(data=data)
    unknown = [name for name in data if name not in serializer.fields]
    if unknown:
        known = ", ".join(serializer.fields) or "nothing"
        fields = [FieldProblem(str(name)[:60], f"is not known here; known: {known}") for name in unknown[:20]]
        raise Refusal(f"{fields[0].where} {fields[0].message}.", code="unknown_field", fields=fields)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


# --- Sentences --------------------------------------------------------------------------------------------------------
_VALUE: dict[str, Any] = {
    "oneOf": [
        {"type": "string"},
        {"type": "number"},
        {"type": "array", "items": {"oneOf": [{"type": "number"}, {"type": "string"}]}},
    ],
    "nullable": True,
}


@extend_schema_field({"type": "object", "additionalProperties": _VALUE})
class ScopeSerializer(serializers.Serializer[Any]):
    scope = serializers.ChoiceField(["local", "global"])
    sources = serializers.ListField(child=serializers.CharField(), help_text="These alone; empty: all of the scope")


class ValuesField(serializers.DictField):
    """Numbers, names and instants; infinity by name."""


class SaidSerializer(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="Stable; texts may change and be translated")
    values = ValuesField()
    text = serializers.CharField()


# --- Instants ---------------------------------------------------------------------------------------------------------
def moment_of(text: str | None, where: str = "at") -> int | datetime | None:
    """A number of up to nine digits is a revision; everything else must be a time."""
    try:
        return read_moment(text)
    except ValueError as error:
        raise _refusal(where, str(error)) from error


def instant_of(text: str, where: str) -> datetime:
    try:
        return read_instant(text)
    except ValueError as error:
        raise _refusal(where, str(error)) from error


def _refusal(where: str, message: str) -> Refusal:
    return Refusal(f"{where} {message}.", code="invalid", fields=[FieldProblem(where, message)])


class InstantField(serializers.CharField):
    """A time with its zone, to aware UTC: a naive one is refused, not guessed at."""

    def to_internal_value(self, data: Any) -> Any:
        try:
            return read_instant(super().to_internal_value(data))
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error


class MomentSerializer(serializers.Serializer[Any]):
    revision = serializers.IntegerField(help_text="Current then")
    since = UtcTimeField()
    until = UtcTimeField(allow_null=True, help_text="null: it still is")
    as_of = UtcTimeField(allow_null=True, help_text="Of the numbers; null: none are kept from then")
    snapshot_revision = serializers.IntegerField(allow_null=True, help_text="That the numbers were computed on")
    reconstructed = serializers.BooleanField(help_text="Computed later, for that instant")
    notes = SaidSerializer(many=True, help_text="Where the numbers are from, and what became known later")


# --- Entries ----------------------------------------------------------------------------------------------------------
def entry_uid(request: Request, policy_slug: str, text: str) -> UUID:
    """A uid as it is, also of an archived entry; a path only where the caller sees it."""
    try:
        return UUID(text)
    except ValueError:
        pass
    actor = actor_of(request)
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    sees = see(policy=policy, tree=tree, at=clock.now(), actor=actor)
    return tree.uuid(sees.require(tree.index_of_path(text)))


def reach_json(tree: TreeColumns, reach: int | None) -> dict[str, str | None]:
    """Of a rule: the entry below which it maps accounts, None for the whole policy. It lies above the rule's entry, so
    that everyone who sees the latter sees it.
    """
    if reach is None:
        return {"reach": None, "reach_path": None}
    return {"reach": str(tree.uuid(reach)), "reach_path": tree.path(reach)}


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
    body, tag = encode_json(figure_json(figure))
    is_known = request.headers.get("If-None-Match") == tag
    response = HttpResponse(b"" if is_known else body, status=304 if is_known else 200, content_type="application/json")
    response["ETag"] = tag
    return response
