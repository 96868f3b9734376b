"""The caller's priorities, explanations level by level, comparison of two leaves, and where to submit the next job."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.analytics.my_priority.outlook import DEFAULT_CORE_H, AfterJob, list_ranks_after_job
from apps.api.authentication import POLICIES_READ, PRIORITIES_READ, SELF_READ, Scopes, actor_of
from apps.api.inputs import moment_of, read_query
from apps.api.records import record_serializer, serializer_of
from apps.api.shapes import MomentSerializer, ScopeSerializer, SentenceSerializer, UtcTimeField, ValuesField
from apps.api.v1.priorities import AlgorithmField, NumberField, PrioritySerializer
from apps.api.views import APIView
from apps.core import clock
from apps.explain.account_walk import explain, explain_me, get_me
from apps.explain.contrasts import compare_leaves, comparison_json
from apps.explain.my_priority import PathJob
from apps.priorities.waiting_jobs import WaitingJobs
from apps.schedulers.my_jobs import MOST_JOBS, facts_about, list_my_waiting_jobs

# --- Walk -------------------------------------------------------------------------------------------------------------
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
    factor_above = serializers.FloatField()
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
    columns = ColumnsField()
    state = serializers.ChoiceField(["over", "under", "on", "idle", "unknown"])
    n_ahead = serializers.IntegerField(allow_null=True, help_text="Number of siblings that are ahead")
    n_siblings = serializers.IntegerField()
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
    message = MessageSerializer()
    sentence = serializers.CharField()
    sentences = SentenceSerializer(many=True)
    adjustments = AdjustmentTellingSerializer(many=True)
    suppressed = serializers.BooleanField(help_text="Its usage is hidden, and its numbers are null")


# --- Own priorities ---------------------------------------------------------------------------------------------------
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
    decides = serializers.BooleanField()


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


class MeSerializer(serializers.Serializer[Any]):
    username = serializers.CharField()
    name = serializers.CharField(allow_blank=True)
    token = TokenOfMineSerializer(allow_null=True, help_text="null: a signed-in session")
    at = serializers.CharField(allow_null=True, help_text="`at` of the request")
    accounts = MyAccountSerializer(many=True, help_text="Best first")


class MyExplanationsSerializer(MeSerializer):
    accounts = MyExplanationSerializer(many=True)


class MeFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64, required=False)
    at = serializers.CharField(
        max_length=64, required=False, help_text="Past instant with UTC offset; with `policy` also a revision"
    )


class MyExplanationFilterSerializer(MeFilterSerializer):
    account = serializers.CharField(max_length=1024, required=False, default="", allow_blank=True)
    namespace = serializers.CharField(max_length=128, required=False, default="", allow_blank=True)
    entry = serializers.CharField(
        max_length=4096, required=False, default="", allow_blank=True, help_text="Path of an entry"
    )


class MeView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(operation_id="get_me", parameters=[MeFilterSerializer], responses=MeSerializer)
    def get(self, request: Request) -> Response:
        """The caller's accounts with their ranks. `at` selects a past instant; rights are always the current ones."""
        given = read_query(MeFilterSerializer, request)
        actor, at = actor_of(request), moment_of(given.get("at"))
        facts_of = facts_about(actor, clock.now(), is_past=at is not None)
        return Response(get_me(actor=actor, at=at, policy_slug=given.get("policy"), facts_of=facts_of))


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
        given = read_query(MyExplanationFilterSerializer, request)
        actor, at = actor_of(request), moment_of(given.get("at"))
        answer = explain_me(
            actor=actor,
            at=at,
            policy_slug=given.get("policy"),
            account=given["account"],
            namespace=given["namespace"],
            entry=given["entry"],
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
    sentence = serializers.CharField(required=False)
    sentences = SentenceSerializer(many=True, required=False)


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
    at = serializers.CharField(max_length=64, required=False, help_text="Past revision, or instant with UTC offset")


class ExplainView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({PRIORITIES_READ, SELF_READ})}

    @extend_schema(
        operation_id="explain_priority", parameters=[ExplainFilterSerializer], responses=ExplanationSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """Explain an account's priority level by level from the root to its entry, in numbers and sentences."""
        given = read_query(ExplainFilterSerializer, request)
        at = moment_of(given.pop("at", None))
        return Response(explain(policy_slug=policy, **given, at=at, actor=actor_of(request)))


# --- Two leaves -------------------------------------------------------------------------------------------------------
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


class ComparisonFilterSerializer(serializers.Serializer[Any]):
    one = serializers.CharField(
        max_length=4096,
        required=False,
        default="",
        allow_blank=True,
        help_text="Account or path; default: the caller's best",
    )
    other = serializers.CharField(max_length=4096, help_text="Account or path")
    at = serializers.CharField(max_length=64, required=False, help_text="Past revision, or instant with UTC offset")


class CompareView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({PRIORITIES_READ, POLICIES_READ, SELF_READ})}

    @extend_schema(
        operation_id="compare_priorities", parameters=[ComparisonFilterSerializer], responses=ComparisonSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """Compare two leaves: the first level at which they differ, and changes that would reverse their order."""
        given = read_query(ComparisonFilterSerializer, request)
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
        help_text="Usage of the job in hours of the metric (core-hours if it counts cores only), 0 to 1e9",
    )


class RanksAfterJobSerializer(serializers.Serializer[Any]):
    core_h = serializers.FloatField()
    results = serializer_of(AfterJob)(many=True, help_text="Best first, without accounts that have no rank")


class WaitingFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64)


WaitingJobsSerializer = record_serializer(
    WaitingJobs,
    only=("n_mine", "n_all", "seen_at", "listed_by", "silent", "jobs"),
    texts={
        "n_mine": "Number of the caller's waiting jobs",
        "n_all": "Number of all jobs that wait in the same sources",
        "seen_at": "Time of the oldest queue listing used",
        "listed_by": "Schedulers and sources that list waiting jobs",
        "silent": "Sources that list no running or waiting job",
        "jobs": "Best first, at most 100",
    },
)


class MySubmitView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="get_ranks_after_job", parameters=[SubmitFilterSerializer], responses=RanksAfterJobSerializer
    )
    def get(self, request: Request) -> Response:
        """Ranks of the caller's accounts after a job of this size, the best account first."""
        given = read_query(SubmitFilterSerializer, request)
        found = list_ranks_after_job(
            policy_slug=given["policy"], core_h=given["core_h"], actor=actor_of(request), at=clock.now()
        )
        return Response(RanksAfterJobSerializer({"core_h": given["core_h"], "results": found}).data)


class MyWaitingJobsView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ})}

    @extend_schema(
        operation_id="list_my_waiting_jobs", parameters=[WaitingFilterSerializer], responses=WaitingJobsSerializer
    )
    def get(self, request: Request) -> Response:
        """The caller's waiting jobs, in the scheduler's order where an agent lists them, else by fairshare alone."""
        given = read_query(WaitingFilterSerializer, request)
        found = list_my_waiting_jobs(
            policy_slug=given["policy"], actor=actor_of(request), at=clock.now(), limit=MOST_JOBS
        )
        return Response(WaitingJobsSerializer(found).data)
