"""`at`: a revision's number, or a time with its zone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rest_framework import serializers

from apps.api.errors import Refusal
from apps.errors import FieldProblem


def moment_of(text: str | None, where: str = "at") -> int | datetime | None:
    """A number of up to nine digits is a revision; everything else must be a time."""
    if text is None or text == "":
        return None
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    return instant_of(text, where)


def instant_of(text: str, where: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise _refusal(where, "is no time; write 2026-01-31T12:00:00Z") from error
    if instant.tzinfo is None:
        raise _refusal(where, "has no zone; write 2026-01-31T12:00:00Z")
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        raise _refusal(where, "is out of range") from error


def _refusal(where: str, message: str) -> Refusal:
    return Refusal(f"{where} {message}.", code="invalid", fields=[FieldProblem(where, message)])


class InstantField(serializers.CharField):
    """A time with its zone, to aware UTC: a naive one is refused, not guessed at."""

    def to_internal_value(self, data: Any) -> Any:
        try:
            return instant_of(super().to_internal_value(data), "")
        except Refusal as refusal:
            raise serializers.ValidationError(refusal.fields[0].message) from refusal
