"""Cursors of lists: where the next page begins."""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypeVar

import orjson
from rest_framework import serializers

from apps.core.errors import FieldProblem
from apps.web import bounds
from apps.web.rest.errors import Refusal

Position = TypeVar("Position", int, list[Any])


class CursorField(serializers.CharField):
    """Cursor of the next page, from the position of this one's last row; null on the last page."""

    def __init__(self, **more: Any) -> None:
        super().__init__(allow_null=True, **more)

    def to_representation(self, value: Any) -> str:
        return encode_cursor(int(value))


class CursorSerializer(serializers.Serializer[Any]):
    cursor = serializers.CharField(max_length=bounds.CURSOR, required=False, help_text="`next` of the previous page")


def encode_cursor(position: Any) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(position)).rstrip(b"=").decode()


def read_cursor(query: dict[str, Any], kind: type[Position] = int) -> Position | None:  # type: ignore[assignment]
    """Position after which the page starts; None for the first page.

    A cursor encodes a position in the sort order, so that rows inserted or deleted meanwhile shift nothing.
    """
    text = query.get("cursor")
    if not text:
        return None
    try:
        position = orjson.loads(base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)))
    except (binascii.Error, ValueError):
        position = None
    if isinstance(position, kind) and not isinstance(position, bool):
        return position
    message = "is not a cursor of this list: use its `next`"
    raise Refusal(f"cursor {message}.", code="bad_cursor", fields=[FieldProblem("cursor", message)])
