"""The caller's priorities and explanations, level by level."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.explain.account_path import explain, explain_me, get_me
from apps.explain.my_priority import PathJob
from apps.pages.my_priority.facts import facts_about
from apps.web import bounds
from apps.web.rest.authentication import PRIORITIES_READ, SELF_READ, Scopes, actor_of
from apps.web.rest.inputs import moment_of, read_query
from apps.web.rest.priority_fields import AlgorithmField, NumberField, PrioritySerializer
from apps.web.rest.records import serializer_of
from apps.web.rest.shapes import MomentSerializer, ScopeSerializer, SentenceSerializer, UtcTimeField, ValuesField
from apps.web.rest.views import APIView
from apps.web.texts.rank_use import RANK_USE, rank_use_json

_NUMBER: dict[str, Any] = {
    "oneOf": [{"type": "number"}, {"type": "string", "enum": ["Infinity", "-Infinity"]}],
    "nullable": True,
}


@extend_schema_field({"type": "object", "additionalProperties": _NUMBER})
class ColumnsField(serializers.DictField):
    """The algorithm's own numbers, under the names that its scheduler uses."""


@extend_schema_field({"oneOf": [{"type": "number"}, {"type": "string", "enum": ["parent"]}]})
class SharesField(serializers.CharField):
    """A number, or `parent` for inherited shares."""


class MessageSerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    numbers = ValuesField()


class AdjustmentTellingSerializer(serializers.Serializer[Any]):
    uid = serializers.CharField()
    resource = serializers.CharField()
    amount_s = serializers.FloatField()
    at = UtcTimeField()
    note = serializers.CharField()
    counted = serializers.FloatField(help_text="Current amount, after decay, in the policy's metric")
    sentence = serializers.CharField()


class LevelEffectSerializer(serializers.Serializer[Any]):
    """Effect of one level on the factor F = 2^(−R / damping factor); the ratio R of the root is 1."""

    ratio_above = serializers.FloatField(allow_null=True, help_text="R of the level above; null: it has no shares")
    ratio = serializers.FloatField(allow_null=True, help_text="R of this level; null: it has no shares")
    local_ratio = serializers.FloatField(allow_null=True, help_text="r_l, where the algorithm has it")
    k = serializers.FloatField(allow_null=True, help_text="The exponent of r_l, where the formula applies")
    factor_above = serializers.FloatField(help_text="F without this level")
    factor = serializers.FloatField()
    log2_change = NumberField(help_text="Change of log2 F by this level; -Infinity if F becomes 0")


class WalkStepSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.CharField()
    shares = SharesField()
    target = serializers.FloatField(allow_null=True, help_text="Fraction of its parent, 0..1")
    target_global = serializers.FloatField(allow_null=True)
    actual = serializers.FloatField(allow_null=True, help_text="Fraction of the usage of its group, 0..1")
    deviation_points = serializers.FloatField(allow_null=True, help_text="(actual − target) · 100: above 0 is over")
    priority = NumberField(allow_null=True)
    columns = ColumnsField(help_text="The algorithm's own numbers, under the names that its scheduler uses")
    state = serializers.ChoiceField(
        ["over", "under", "on", "idle", "unknown"],
        help_text="idle: it has a target, but neither usage nor demand; unknown: its usage is hidden",
    )
    n_ahead = serializers.IntegerField(allow_null=True, help_text="Number of siblings that are ahead")
    n_siblings = serializers.IntegerField(help_text="Number of its siblings that are compared")
    n_equal = serializers.IntegerField(allow_null=True, help_text="Number of siblings with the same component")
    leaves_ahead = serializers.IntegerField(
        allow_null=True, help_text="Ranked leaves that are ahead and part from the path here; null: a ratio orders"
    )
    leaves_behind = serializers.IntegerField(
        allow_null=True, help_text="Ranked leaves that are behind and part from the path here; null: a ratio orders"
    )
    n_rounded = serializers.IntegerField(
        allow_null=True, help_text="Number of siblings that are equal only after rounding to the policy's resolution"
    )
    effect = LevelEffectSerializer(allow_null=True, help_text="null: the algorithm orders level by level")
    compared_by = ScopeSerializer(help_text="Usage by which it and its siblings are compared")
    message = MessageSerializer(help_text="Key and numbers of the first sentence")
    sentence = serializers.CharField(help_text="All sentences")
    sentences = SentenceSerializer(many=True)
    adjustments = AdjustmentTellingSerializer(many=True, help_text="Adjustments that count in its usage")
    suppressed = serializers.BooleanField(help_text="Its usage is hidden, and its numbers are null")


class TokenOfMineSerializer(serializers.Serializer[Any]):
    scopes = serializers.ListField(child=serializers.CharField())
    policy = serializers.CharField(allow_null=True, help_text="Policy to which it is limited")
    subtree = serializers.CharField(allow_null=True, help_text="uid of the entry to whose subtree it is limited")


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
        help_text="How the algorithm orders: level by level, or by one number for the whole path",
    )
    deciding = serializers.CharField(
        allow_null=True,
        help_text="Path of the entry that explains the rank: for a good rank at the level at which most leaves behind "
        "part from the path, else most leaves ahead; for a ratio the largest change of log2 of the factor, up or down",
    )
    sentence = serializers.CharField()
    sentences = SentenceSerializer(many=True, help_text="Heading, reason, and effect of the caller's own usage")
    when = SentenceSerializer(
        many=True, help_text="Now, or when the rank improves, or why there is no date; and the place in the queue"
    )
    changes = SentenceSerializer(many=True, help_text="Changes that would improve the rank, the most effective first")
    stale = SentenceSerializer(
        allow_null=True, help_text="Why these numbers may be out of date; null: they are current"
    )
    snapshot = serializers.IntegerField(allow_null=True)
    revision = serializers.IntegerField(allow_null=True)
    as_of = UtcTimeField(allow_null=True)
    age_s = serializers.FloatField(allow_null=True)
    moment = MomentSerializer(allow_null=True, help_text="With `at`")


class MyStepSerializer(WalkStepSerializer):
    decides = serializers.BooleanField(help_text="Whether this level is the main reason of the rank")


class MyExplanationSerializer(MyAccountSerializer):
    algorithm = AlgorithmField(allow_null=True)
    priorities = serializers.ListField(child=NumberField())
    vector = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    key = serializers.CharField(allow_null=True)
    usage_s = serializers.FloatField(help_text="Usage in the policy's metric, after decay")
    steps = MyStepSerializer(many=True)
    smallest_job = serializer_of(PathJob)(
        allow_null=True, help_text="Smallest job that changes the vector; null if nothing is rounded"
    )
    number = SentenceSerializer(
        allow_null=True, help_text="The number that the scheduler receives, and how it is computed"
    )
    since_yesterday = SentenceSerializer(
        allow_null=True, help_text="Why the rank is another than a day ago; null: it is the same, or not known"
    )


class MeSerializer(serializers.Serializer[Any]):
    username = serializers.CharField()
    name = serializers.CharField(allow_blank=True)
    token = TokenOfMineSerializer(allow_null=True, help_text="null: a signed-in session")
    at = serializers.CharField(allow_null=True, help_text="`at` of the request")
    accounts = MyAccountSerializer(many=True, help_text="Best first")


class MyExplanationsSerializer(MeSerializer):
    accounts = MyExplanationSerializer(many=True)


class MeFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=bounds.POLICY_SLUG, required=False)
    at = serializers.CharField(
        max_length=bounds.INSTANT,
        required=False,
        help_text="Past instant with UTC offset; with `policy` also a revision",
    )


class MyExplanationFilterSerializer(MeFilterSerializer):
    account = serializers.CharField(max_length=bounds.ACCOUNT, required=False, default="", allow_blank=True)
    namespace = serializers.CharField(max_length=bounds.NAMESPACE, required=False, default="", allow_blank=True)
    entry = serializers.CharField(
        max_length=bounds.ENTRY, required=False, default="", allow_blank=True, help_text="Path of an entry"
    )


class MeView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(operation_id="get_me", parameters=[MeFilterSerializer], responses=MeSerializer)
    def get(self, request: Request) -> Response:
        """The caller's accounts with their ranks. `at` selects a past instant; rights are always the current ones."""
        query = read_query(MeFilterSerializer, request)
        actor, at = actor_of(request), moment_of(query.get("at"))
        facts_of = facts_about(actor, clock.now(), is_past=at is not None)
        return Response(get_me(actor=actor, at=at, policy_slug=query.get("policy"), facts_of=facts_of))


class MyExplanationView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="explain_me", parameters=[MyExplanationFilterSerializer], responses=MyExplanationsSerializer
    )
    def get(self, request: Request) -> Response:
        """The caller's accounts, explained: every level of the path, the number that the scheduler receives, and
        changes that would improve the rank.
        """
        query = read_query(MyExplanationFilterSerializer, request)
        actor, at = actor_of(request), moment_of(query.get("at"))
        answer = explain_me(
            actor=actor,
            at=at,
            policy_slug=query.get("policy"),
            account=query["account"],
            namespace=query["namespace"],
            entry=query["entry"],
            facts_of=facts_about(actor, clock.now(), is_past=at is not None),
        )
        return Response(answer)


class ExplainedSerializer(PrioritySerializer):
    """Result of a look-up with its explanation level by level, which unmapped accounts lack."""

    steps = MyStepSerializer(many=True, required=False)
    explained_by = serializers.ChoiceField(
        ["levels", "ratio", "number"],
        required=False,
        help_text="How the algorithm orders: level by level, or by one number for the whole path",
    )
    deciding = serializers.CharField(required=False, allow_null=True, help_text="Path of the entry that decides most")
    sentence = serializers.CharField(required=False, help_text="All sentences")
    sentences = SentenceSerializer(many=True, required=False)


class ExplanationSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    snapshot = serializers.IntegerField()
    revision = serializers.IntegerField()
    as_of = UtcTimeField()
    algorithm = AlgorithmField()
    moment = MomentSerializer(allow_null=True, help_text="With `at`")
    rank_use = SentenceSerializer(many=True, help_text=RANK_USE)
    results = ExplainedSerializer(many=True)


class ExplainFilterSerializer(serializers.Serializer[Any]):
    account = serializers.CharField(max_length=bounds.ACCOUNT)
    namespace = serializers.CharField(max_length=bounds.NAMESPACE, required=False, default="", allow_blank=True)
    at = serializers.CharField(
        max_length=bounds.INSTANT, required=False, help_text="Past revision, or instant with UTC offset"
    )


class ExplainView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({PRIORITIES_READ, SELF_READ})}

    @extend_schema(
        operation_id="explain_priority", parameters=[ExplainFilterSerializer], responses=ExplanationSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """Explain an account's priority level by level from the root to its entry, in numbers and sentences."""
        query = read_query(ExplainFilterSerializer, request)
        at = moment_of(query.pop("at", None))
        explained = explain(policy_slug=policy, **query, at=at, actor=actor_of(request))
        return Response({**explained, "rank_use": rank_use_json(policy) if at is None else []})
