"""Why them first: two leaves side by side, the level that decides, and what would turn their order."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.api.authentication import POLICIES_READ, PRIORITIES_READ, SELF_READ, Scopes, actor_of
from apps.api.v1.instants import MomentSerializer, moment_of
from apps.api.v1.lists import asked
from apps.api.v1.my_priority.walks import WalkStepSerializer
from apps.api.v1.priorities import AlgorithmField
from apps.api.v1.sentences import SaidSerializer
from apps.explain.contrasts import compare_leaves, comparison_json


class SideSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField()
    name = serializers.CharField()
    rank = serializers.IntegerField()
    factor = serializers.FloatField()


class TurnSerializer(serializers.Serializer[Any]):
    """Single changes at the deciding level, each enough by itself; null: none of its kind is."""

    ahead_gains_usage_s = serializers.FloatField(allow_null=True)
    behind_sheds_usage_s = serializers.FloatField(allow_null=True)
    ahead_shares_at_most = serializers.FloatField(allow_null=True)
    behind_shares_at_least = serializers.FloatField(allow_null=True)


class ComparisonSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    snapshot = serializers.IntegerField()
    revision = serializers.IntegerField()
    as_of = serializers.DateTimeField()
    algorithm = AlgorithmField()
    moment = MomentSerializer(allow_null=True, help_text="With `at`")
    of = serializers.IntegerField(help_text="Ranked leaves")
    one = SideSerializer()
    other = SideSerializer()
    ahead = serializers.CharField(allow_null=True, help_text="Its path; null: they tie")
    behind = serializers.CharField(allow_null=True)
    decided_by = serializers.ChoiceField(["level", "whole_path", "sibling_order", "own_order", "tie"])
    level = serializers.IntegerField(allow_null=True, help_text="1 is the first below the root")
    ahead_step = WalkStepSerializer(allow_null=True, help_text="Its entry on that level")
    behind_step = WalkStepSerializer(allow_null=True)
    turn = TurnSerializer(allow_null=True, help_text="null for a tie, and where it would reveal what few people used")
    sentence = serializers.CharField()
    sentences = SaidSerializer(many=True)


class ComparisonFilterSerializer(serializers.Serializer[Any]):
    one = serializers.CharField(
        max_length=4096, required=False, default="", help_text="An account or a path; left out: one's own best"
    )
    other = serializers.CharField(max_length=4096, help_text="An account or a path")
    at = serializers.CharField(max_length=64, required=False, help_text="A revision, or a time with its zone")


class CompareView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({PRIORITIES_READ, POLICIES_READ, SELF_READ})}

    @extend_schema(
        operation_id="compare_priorities", parameters=[ComparisonFilterSerializer], responses=ComparisonSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """The first level at which two leaves differ, both entries there, and what would turn the order."""
        given = asked(ComparisonFilterSerializer, request)
        found = compare_leaves(
            policy_slug=policy,
            one=given["one"],
            other=given["other"],
            at=moment_of(given.get("at")),
            actor=actor_of(request),
        )
        return Response(comparison_json(found))
