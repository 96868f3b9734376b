"""Serializers made from the domain's records: each field with its type and what it means."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Any, get_args, get_type_hints

from rest_framework import serializers

_FIELDS: dict[type, type[serializers.Field[Any, Any, Any, Any]]] = {
    str: serializers.CharField,
    int: serializers.IntegerField,
    float: serializers.FloatField,
    bool: serializers.BooleanField,
    datetime: serializers.DateTimeField,
}


@cache
def serializer_of(record: type) -> type[serializers.Serializer[Any]]:
    """For answers: one field for each of a frozen dataclass whose fields are `Annotated` with a text."""
    hints = get_type_hints(record, include_extras=True)
    made = {each.name: _field(hints[each.name]) for each in fields(record)}
    return type(f"{record.__name__}Serializer", (serializers.Serializer,), made)


def _field(hint: Any) -> serializers.Field[Any, Any, Any, Any]:
    kind, text = get_args(hint)
    kinds = [each for each in get_args(kind) or (kind,) if each is not NoneType]
    return _FIELDS[kinds[0]](allow_null=NoneType in get_args(kind), help_text=text)
