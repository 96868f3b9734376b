"""The caller and their own priorities in numbers and words: for the terminal client, and for scripts."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.analytics.forecast.level_forecast import outlook_of
from apps.api.authentication import PRIORITIES_READ, SELF_READ, Scopes, actor_of
from apps.api.v1.instants import MomentSerializer, moment_of
from apps.api.v1.lists import asked
from apps.api.v1.my_priority.walks import WalkStepSerializer
from apps.api.v1.priorities import AlgorithmField, NumberField, PrioritySerializer
from apps.api.v1.sentences import SaidSerializer
from apps.api.v1.usage.records import serializer_of
from apps.explain.account_walk import explain
from apps.explain.me import explain_me, get_me
from apps.explain.my_priority import PathJob


class TokenOfMineSerializer(serializers.Serializer[Any]):
    scopes = serializers.ListField(child=serializers.CharField())
    policy = serializers.CharField(allow_null=True, help_text="The one it is bound to")
    subtree = serializers.CharField(allow_null=True, help_text="uid of the entry it is bound to")


class MyAccountSerializer(serializers.Serializer[Any]):
    account = serializers.CharField()
    group = serializers.CharField(allow_null=True)
    namespace = serializers.CharField(allow_null=True)
    policy = serializers.CharField()
    policy_name = serializers.CharField()
    error = serializers.ChoiceField(["unmapped", "no_snapshot"], allow_null=True)
    entry = serializers.CharField(allow_null=True)
    entry_uid = serializers.UUIDField(allow_null=True)
    rank = serializers.IntegerField(allow_null=True)
    of = serializers.IntegerField(allow_null=True)
    factor = serializers.FloatField(allow_null=True)
    provisional = serializers.BooleanField()
    explained_by = serializers.ChoiceField(
        ["levels", "ratio", "number"],
        allow_null=True,
        help_text="How the algorithm makes an order: level by level, or by one number of the whole path",
    )
    deciding = serializers.CharField(
        allow_null=True,
        help_text="The entry of the main reason: the level at which most of those ahead part, or, for a ratio, the one "
        "with the largest change of log2 of the factor",
    )
    sentence = serializers.CharField()
    sentences = SaidSerializer(many=True, help_text="Verdict, reason, and what one's own use adds")
    advice = SaidSerializer(many=True, help_text="What to do, the most helpful first")
    stale = SaidSerializer(allow_null=True, help_text="Why these numbers may be behind")
    snapshot = serializers.IntegerField(allow_null=True)
    revision = serializers.IntegerField(allow_null=True)
    as_of = serializers.DateTimeField(allow_null=True)
    age_s = serializers.FloatField(allow_null=True)
    moment = MomentSerializer(allow_null=True, help_text="With `at`")


class MyStepSerializer(WalkStepSerializer):
    decides = serializers.BooleanField()


class MyExplanationSerializer(MyAccountSerializer):
    algorithm = AlgorithmField(allow_null=True)
    priorities = serializers.ListField(child=NumberField())
    vector = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    key = serializers.CharField(allow_null=True)
    usage_s = serializers.FloatField(help_text="In the policy's metric, after aging")
    steps = MyStepSerializer(many=True)
    smallest_job = serializer_of(PathJob)(
        allow_null=True, help_text="That shows in the vector; null where nothing is rounded"
    )
    number = SaidSerializer(allow_null=True, help_text="What the scheduler gets, and how it is made")


class MeSerializer(serializers.Serializer[Any]):
    username = serializers.CharField()
    name = serializers.CharField(allow_blank=True)
    token = TokenOfMineSerializer(allow_null=True, help_text="null: a session asks")
    at = serializers.CharField(allow_null=True, help_text="The instant or revision asked for")
    accounts = MyAccountSerializer(many=True, help_text="Best first")


class MyExplanationsSerializer(MeSerializer):
    accounts = MyExplanationSerializer(many=True)


class MeFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64, required=False)
    at = serializers.CharField(
        max_length=64, required=False, help_text="A time with its zone; with a policy also a revision"
    )


class MyExplanationFilterSerializer(MeFilterSerializer):
    account = serializers.CharField(max_length=1024, required=False, default="")
    namespace = serializers.CharField(max_length=128, required=False, default="")
    entry = serializers.CharField(max_length=4096, required=False, default="", help_text="Its path")


class MeView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(operation_id="get_me", parameters=[MeFilterSerializer], responses=MeSerializer)
    def get(self, request: Request) -> Response:
        """The caller, and each of their accounts with its rank; `at` selects a past instant, with present rights."""
        given = asked(MeFilterSerializer, request)
        told = get_me(actor=actor_of(request), at=moment_of(given.get("at")), policy_slug=given.get("policy"))
        return Response(told)


class MyExplanationView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="explain_me", parameters=[MyExplanationFilterSerializer], responses=MyExplanationsSerializer
    )
    def get(self, request: Request) -> Response:
        """The caller's accounts with every level of the path, the number the scheduler gets, and what to do."""
        given = asked(MyExplanationFilterSerializer, request)
        told = explain_me(
            actor=actor_of(request),
            at=moment_of(given.get("at")),
            policy_slug=given.get("policy"),
            account=given["account"],
            namespace=given["namespace"],
            entry=given["entry"],
            outlook_of=outlook_of,
        )
        return Response(told)


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
