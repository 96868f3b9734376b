"""The walk root→leaf of an account, for callers who may see it."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.api.authentication import PRIORITIES_READ, SELF_READ, Scopes, actor_of
from apps.api.v1.instants import MomentSerializer, moment_of
from apps.api.v1.lists import asked
from apps.api.v1.my_priority.views import MyStepSerializer
from apps.api.v1.priorities import AlgorithmField, PrioritySerializer
from apps.api.v1.sentences import SaidSerializer
from apps.explain.explained import explain


class ExplainedSerializer(PrioritySerializer):
    """A look-up's answer with the walk; unmapped accounts have none."""

    steps = MyStepSerializer(many=True, required=False)
    explained_by = serializers.ChoiceField(
        ["levels", "ratio", "number"], required=False, help_text="Level by level, or one number of the whole path"
    )
    deciding = serializers.CharField(required=False, allow_null=True, help_text="The entry of the main reason")
    sentence = serializers.CharField(required=False)
    sentences = SaidSerializer(many=True, required=False)


class ExplanationSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    snapshot = serializers.IntegerField()
    revision = serializers.IntegerField()
    as_of = serializers.DateTimeField()
    algorithm = AlgorithmField()
    moment = MomentSerializer(allow_null=True, help_text="With `at`")
    results = ExplainedSerializer(many=True)


class ExplainFilterSerializer(serializers.Serializer[Any]):
    account = serializers.CharField(max_length=1024)
    namespace = serializers.CharField(max_length=128, required=False, default="", allow_blank=True)
    at = serializers.CharField(max_length=64, required=False, help_text="A revision, or a time with its zone")


class ExplainView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({PRIORITIES_READ, SELF_READ})}

    @extend_schema(
        operation_id="explain_priority", parameters=[ExplainFilterSerializer], responses=ExplanationSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """The walk from the root to the account's entry: one object a level, numbers that add up, and sentences."""
        given = asked(ExplainFilterSerializer, request)
        at = moment_of(given.pop("at", None))
        return Response(explain(policy_slug=policy, **given, at=at, actor=actor_of(request)))
