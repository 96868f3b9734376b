"""`at`: a revision's number, or a time with its zone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rest_framework import serializers

from apps.api.errors import Refusal
from apps.api.v1.sentences import SaidSerializer
from apps.core.errors import FieldProblem
from apps.policies.history.revision_lookup import read_instant, read_moment


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
    since = serializers.DateTimeField()
    until = serializers.DateTimeField(allow_null=True, help_text="null: it still is")
    as_of = serializers.DateTimeField(allow_null=True, help_text="Of the numbers; null: none are kept from then")
    snapshot_revision = serializers.IntegerField(allow_null=True, help_text="That the numbers were computed on")
    reconstructed = serializers.BooleanField(help_text="Computed later, for that instant")
    notes = SaidSerializer(many=True, help_text="Where the numbers are from, and what became known later")
