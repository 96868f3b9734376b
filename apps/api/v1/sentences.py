"""A sentence in REST: a stable key, its values, and the rendered text."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

_VALUE: dict[str, Any] = {
    "oneOf": [
        {"type": "string"},
        {"type": "number"},
        {"type": "array", "items": {"oneOf": [{"type": "number"}, {"type": "string"}]}},
    ],
    "nullable": True,
}


@extend_schema_field({"type": "object", "additionalProperties": _VALUE})
class ValuesField(serializers.DictField):
    """Numbers, names and instants; infinity by name."""


class SaidSerializer(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="Stable; texts may change and be translated")
    values = ValuesField()
    text = serializers.CharField()
