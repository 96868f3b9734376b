"""The caller's priorities, the walk root→leaf, how two accounts differ, and where to submit the next job."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.analytics.my_priority.outlook import DEFAULT_CORE_H, AfterJob, list_ranks_after_job, outlook_of
from apps.api.authentication import POLICIES_READ, PRIORITIES_READ, SELF_READ, Scopes, actor_of
from apps.api.records import serializer_of
from apps.api.shapes import (
    MomentSerializer,
    SaidSerializer,
    ScopeSerializer,
    UtcTimeField,
    ValuesField,
    asked,
    moment_of,
)
from apps.api.v1.priorities import AlgorithmField, NumberField, PrioritySerializer
from apps.api.views import APIView
from apps.core import clock
from apps.explain.account_walk import explain, explain_me, get_me
from apps.explain.contrasts import compare_leaves, comparison_json
from apps.explain.my_priority import PathJob
from apps.priorities.jobs import WaitingJob, list_waiting_jobs

# --- Walk -------------------------------------------------------------------------------------------------------------
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
    at = UtcTimeField()
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
    compared_by = ScopeSerializer(help_text="Whose usage it and its siblings are compared by")
    message = MessageSerializer()
    sentence = serializers.CharField()
    sentences = SaidSerializer(many=True)
    adjustments = AdjustmentTellingSerializer(many=True)
    suppressed = serializers.BooleanField(help_text="true: its usage is hidden; its numbers are null")


# --- Own priorities ---------------------------------------------------------------------------------------------------
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
    when = SaidSerializer(many=True, help_text="When fairshare no longer holds the jobs back, or why there is no date")
    changes = SaidSerializer(many=True, help_text="What would change the rank, the most helpful first")
    stale = SaidSerializer(allow_null=True, help_text="Why these numbers may be behind")
    snapshot = serializers.IntegerField(allow_null=True)
    revision = serializers.IntegerField(allow_null=True)
    as_of = UtcTimeField(allow_null=True)
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
    as_of = UtcTimeField()
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


# --- Two leaves -------------------------------------------------------------------------------------------------------
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
    as_of = UtcTimeField()
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


# --- Where to submit --------------------------------------------------------------------------------------------------
class SubmitFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64)
    core_h = serializers.FloatField(
        required=False,
        default=DEFAULT_CORE_H,
        help_text="Usage of the job, in hours of what the metric counts (core-hours where it counts cores), 0 to 1e9",
    )


class RanksAfterJobSerializer(serializers.Serializer[Any]):
    core_h = serializers.FloatField()
    results = serializer_of(AfterJob)(many=True, help_text="Best first; an account without a rank is left out")


class WaitingFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64)


class WaitingJobsSerializer(serializers.Serializer[Any]):
    n_mine = serializers.IntegerField()
    n_all = serializers.IntegerField(help_text="All that wait in the sources of these jobs")
    seen_at = UtcTimeField(allow_null=True, help_text="When the oldest of these listings was made")
    silent = serializers.ListField(child=serializers.CharField(), help_text="Sources that list no open job")
    jobs = serializer_of(WaitingJob)(many=True, help_text="Best first, at most 1,000")


class MySubmitView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="get_ranks_after_job", parameters=[SubmitFilterSerializer], responses=RanksAfterJobSerializer
    )
    def get(self, request: Request) -> Response:
        """Which of the caller's accounts goes first, and its rank once a job of so many hours counts in full."""
        given = asked(SubmitFilterSerializer, request)
        found = list_ranks_after_job(
            policy_slug=given["policy"], core_h=given["core_h"], actor=actor_of(request), at=clock.now()
        )
        return Response(RanksAfterJobSerializer({"core_h": given["core_h"], "results": found}).data)


class MyWaitingJobsView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="list_my_waiting_jobs", parameters=[WaitingFilterSerializer], responses=WaitingJobsSerializer
    )
    def get(self, request: Request) -> Response:
        """The caller's waiting jobs as sources last listed them, each with its position by fairshare alone."""
        given = asked(WaitingFilterSerializer, request)
        found = list_waiting_jobs(policy_slug=given["policy"], actor=actor_of(request), limit=1000)
        return Response(WaitingJobsSerializer(found).data)
