"""Two leaves compared: where their walks part, and who comes first."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.explain.contrasts import compare_leaves, comparison_json
from apps.pages.my_priority.api.views import WalkStepSerializer
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, PRIORITIES_READ, SELF_READ, Scopes, actor_of
from apps.web.rest.inputs import moment_of, read_query
from apps.web.rest.priority_fields import AlgorithmField
from apps.web.rest.shapes import MomentSerializer, SentenceSerializer, UtcTimeField
from apps.web.rest.views import APIView
from apps.web.texts.rank_use import RANK_USE, rank_use_json


class SideSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField()
    name = serializers.CharField()
    rank = serializers.IntegerField()
    factor = serializers.FloatField()


class TurnSerializer(serializers.Serializer[Any]):
    """Changes at the deciding level, each sufficient to reverse the order; null: no change of this kind is."""

    ahead_gains_usage_s = serializers.FloatField(allow_null=True)
    behind_sheds_usage_s = serializers.FloatField(allow_null=True)
    ahead_shares_at_most = serializers.FloatField(allow_null=True)
    behind_shares_at_least = serializers.FloatField(allow_null=True)


class ComparisonSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    snapshot = serializers.IntegerField()
    revision = serializers.IntegerField()
    as_of = UtcTimeField()
    algorithm = AlgorithmField()
    moment = MomentSerializer(allow_null=True, help_text="With `at`")
    of = serializers.IntegerField(help_text="Number of ranked leaves")
    one = SideSerializer()
    other = SideSerializer()
    ahead = serializers.CharField(allow_null=True, help_text="Path of the leaf that is ahead; null: a tie")
    behind = serializers.CharField(allow_null=True)
    decided_by = serializers.ChoiceField(["level", "whole_path", "sibling_order", "own_order", "tie"])
    level = serializers.IntegerField(allow_null=True, help_text="Deciding level; 1 is the first below the root")
    ahead_step = WalkStepSerializer(allow_null=True, help_text="Entry of the leaf ahead at the deciding level")
    behind_step = WalkStepSerializer(allow_null=True, help_text="Entry of the other leaf at the deciding level")
    turn = TurnSerializer(allow_null=True, help_text="null: a tie, or it would reveal usage of a few people")
    sentence = serializers.CharField()
    sentences = SentenceSerializer(many=True)
    rank_use = SentenceSerializer(many=True, help_text=RANK_USE)


class ComparisonFilterSerializer(serializers.Serializer[Any]):
    one = serializers.CharField(
        max_length=bounds.ACCOUNT_OR_ENTRY,
        required=False,
        default="",
        allow_blank=True,
        help_text="Account or path; default: the caller's best",
    )
    other = serializers.CharField(max_length=bounds.ACCOUNT_OR_ENTRY, help_text="Account or path")
    at = serializers.CharField(
        max_length=bounds.INSTANT, required=False, help_text="Past revision, or instant with UTC offset"
    )


class CompareView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({PRIORITIES_READ, POLICIES_READ, SELF_READ})}

    @extend_schema(
        operation_id="compare_priorities", parameters=[ComparisonFilterSerializer], responses=ComparisonSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """Compare two leaves: the first level at which they differ, and changes that would reverse their order."""
        query = read_query(ComparisonFilterSerializer, request)
        comparison = compare_leaves(
            policy_slug=policy,
            leaf=query["one"],
            other=query["other"],
            at=moment_of(query.get("at")),
            actor=actor_of(request),
        )
        uses = [] if "at" in query else rank_use_json(policy)
        return Response({**comparison_json(comparison), "rank_use": uses})
