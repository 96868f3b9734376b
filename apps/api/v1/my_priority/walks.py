"""The walk root→leaf in REST, level by level."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.v1.priorities import NumberField
from apps.api.v1.sentences import SaidSerializer, ValuesField

_NUMBER: dict[str, Any] = {
    "oneOf": [{"type": "number"}, {"type": "string", "enum": ["Infinity", "-Infinity"]}],
    "nullable": True,
}


@extend_schema_field({"type": "object", "additionalProperties": _NUMBER})
class ColumnsField(serializers.DictField):
    """The algorithm's own numbers, by its scheduler's names."""


@extend_schema_field({"oneOf": [{"type": "number"}, {"type": "string", "enum": ["parent"]}]})
class SharesField(serializers.CharField):
    """A number, or `parent`."""


class MessageSerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    numbers = ValuesField()


class AdjustmentTellingSerializer(serializers.Serializer[Any]):
    uid = serializers.CharField()
    resource = serializers.CharField()
    amount_s = serializers.FloatField()
    at = serializers.DateTimeField()
    note = serializers.CharField()
    counted = serializers.FloatField(help_text="After aging")
    sentence = serializers.CharField()


class LevelEffectSerializer(serializers.Serializer[Any]):
    """What one level does to F = 2^(−R / damping factor); the ratio R of the root is 1."""

    ratio_above = serializers.FloatField(allow_null=True, help_text="R of the level above; null: it has no shares")
    ratio = serializers.FloatField(allow_null=True, help_text="R of this level; null: it has no shares")
    local_ratio = serializers.FloatField(allow_null=True, help_text="r_l, where the algorithm has it")
    k = serializers.FloatField(allow_null=True, help_text="The exponent of r_l, where the formula applies")
    factor_above = serializers.FloatField()
    factor = serializers.FloatField()
    log2_change = NumberField(help_text="Of log2 F by this level; -Infinity where F becomes 0")


class WalkStepSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.CharField()
    shares = SharesField()
    target = serializers.FloatField(allow_null=True, help_text="Of its parent, 0..1")
    target_global = serializers.FloatField(allow_null=True)
    actual = serializers.FloatField(allow_null=True, help_text="Of what its siblings used together, 0..1")
    deviation_points = serializers.FloatField(allow_null=True, help_text="(actual − target) · 100: above 0 is over")
    priority = NumberField(allow_null=True)
    columns = ColumnsField()
    state = serializers.ChoiceField(["over", "under", "on", "idle", "unknown"])
    n_ahead = serializers.IntegerField(allow_null=True, help_text="Of the others at this level")
    n_siblings = serializers.IntegerField()
    n_equal = serializers.IntegerField(allow_null=True, help_text="Of the others, those with the same component")
    n_rounded = serializers.IntegerField(
        allow_null=True, help_text="Of these, those that are equal only as whole numbers at the policy's resolution"
    )
    effect = LevelEffectSerializer(allow_null=True, help_text="Where the algorithm makes one number of the whole path")
    message = MessageSerializer()
    sentence = serializers.CharField()
    sentences = SaidSerializer(many=True)
    adjustments = AdjustmentTellingSerializer(many=True)
    suppressed = serializers.BooleanField(help_text="true: its usage is hidden; its numbers are null")
