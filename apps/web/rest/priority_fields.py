"""Fields of answers about priorities that several routes share."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.priorities.serving.served_snapshot import NO_OWN_ENTRY


@extend_schema_field(
    {
        "type": "object",
        "description": "The algorithm with its parameters; GET /api/v1/algorithms lists all of them.",
        "required": ["name"],
        "properties": {"name": {"type": "string"}},
        "additionalProperties": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    }
)
class AlgorithmField(serializers.DictField):
    """Name and parameters of the algorithm."""


@extend_schema_field({"oneOf": [{"type": "number"}, {"type": "string", "enum": ["Infinity", "-Infinity"]}]})
class NumberField(serializers.FloatField):
    """A number; infinity is the text "Infinity", because JSON has no number for it."""


class IdentitySerializer(serializers.Serializer[Any]):
    """Names of an account; absent names were not compared."""

    namespace = serializers.CharField(required=False)
    user = serializers.CharField(required=False)
    group = serializers.CharField(required=False)
    dn = serializers.CharField(required=False)
    fqan = serializers.CharField(required=False)
    project = serializers.CharField(required=False)


class ChoiceSerializer(serializers.Serializer[Any]):
    namespace = serializers.CharField()
    entry = serializers.CharField()


class PrioritySerializer(serializers.Serializer[Any]):
    account = serializers.CharField()
    group = serializers.CharField(required=False, help_text="As in the request")
    namespace = serializers.CharField(required=False, help_text="As in the request")
    entry = serializers.CharField(allow_null=True)
    factor = serializers.FloatField()
    rank = serializers.IntegerField(required=False, allow_null=True)
    of = serializers.IntegerField(required=False)
    priorities = serializers.ListField(child=NumberField(), required=False)
    vector = serializers.ListField(child=serializers.IntegerField(), required=False, allow_null=True)
    key = serializers.CharField(
        required=False,
        allow_null=True,
        help_text="Sort key, compared as a string within one snapshot; higher is sooner. aequus: the padded vector. "
        "gridwide: deviations in steps of 1e-10 points above -100, 13 digits a level, padded with 0 points, one number "
        "for deviations that tie. Else the position counted from the last",
    )
    provisional = serializers.BooleanField(required=False)
    error = serializers.ChoiceField(
        ["unmapped", "ambiguous", NO_OWN_ENTRY],
        required=False,
        help_text="no_own_entry: the account leads to a group, so that the numbers are not its own",
    )
    tried = serializers.ListField(
        child=IdentitySerializer(), required=False, help_text="For an unmapped account: names for which no rule matches"
    )
    choices = ChoiceSerializer(
        many=True, required=False, help_text="For an ambiguous name: its entry in each namespace"
    )
    hint = serializers.CharField(required=False, help_text="How to name the account instead")
