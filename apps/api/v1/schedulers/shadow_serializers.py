"""What the routes of shadow mode read and write: the scheduler's own numbers beside ours."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.api.instants import UtcTimeField
from apps.schedulers.shadow_differences import REASONS


class DifferenceSerializer(serializers.Serializer[Any]):
    """difference = by_usage + by_tree + by_rule."""

    group = serializers.CharField()
    user = serializers.CharField()
    ours = serializers.FloatField(help_text="Our factor")
    theirs = serializers.FloatField(help_text="The scheduler's")
    our_usage = serializers.FloatField()
    their_usage = serializers.FloatField()
    difference = serializers.FloatField(help_text="On the scale of the comparison")
    by_usage = serializers.FloatField()
    by_tree = serializers.FloatField()
    by_rule = serializers.FloatField()
    reason = serializers.ChoiceField(REASONS, help_text="The largest part; rounding, or none where they are equal")


class ComparisonSerializer(serializers.Serializer[Any]):
    users = serializers.IntegerField(help_text="That both know")
    equal = serializers.IntegerField(help_text="By the digits that the scheduler prints")
    unknown = serializers.IntegerField(help_text="Users of the scheduler without an entry here")
    scale = serializers.ChoiceField(
        ["factor", "position"], help_text="Factors with Slurm's own algorithms; else places in the order, 0 to 1"
    )
    largest = serializers.FloatField()
    differences = DifferenceSerializer(many=True)


class ShadowSerializer(serializers.Serializer[Any]):
    taken_at = UtcTimeField(allow_null=True, help_text="When the agent listed the scheduler's values")
    comparison = ComparisonSerializer(allow_null=True)


class SwitchOnSerializer(serializers.Serializer[Any]):
    partitions = serializers.ListField(child=serializers.CharField(max_length=64), required=False, default=list)
    subtree = serializers.CharField(max_length=8_400, required=False, default="", help_text="Path of an entry")
    everything = serializers.BooleanField(required=False, default=False)
    reason = serializers.CharField(max_length=1_000, required=False, default="", allow_blank=True)
