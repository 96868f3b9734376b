"""The one shape of lists: {"results": […], "next": cursor or null}; and what is asked in an address, checked."""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypeVar

import orjson
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.errors import Refusal
from apps.core.errors import FieldProblem

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
