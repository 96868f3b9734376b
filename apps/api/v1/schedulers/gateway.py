"""SAM's gateway: its ledger and rules, and each step of a job. Every step may be sent again."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, PRIORITIES_READ, SCHEDULERS, Scopes, actor_of
from apps.api.shapes import UtcTimeField, sent
from apps.api.views import APIView
from apps.core import clock
from apps.gateway import services
from apps.gateway.models import Job, Ledger
from apps.gateway.selectors import get_ledger
from apps.gateway.services import MOST_BENEFIT, MOST_HOURS, JobReport, Rules, set_rules
from apps.priorities.serving.lookup import AccountQuery

_NAMES = ("user", "group", "namespace", "dn", "fqan", "project")
_AMOUNT: dict[str, Any] = {"min_value": 0, "max_value": MOST_BENEFIT}
_STEPS: Scopes = {"POST": frozenset({SCHEDULERS})}


# --- Requests ---------------------------------------------------------------------------------------------------------
class AccountSerializer(serializers.Serializer[Any]):
    def get_fields(self) -> dict[str, Any]:
        return {name: serializers.CharField(max_length=1024, required=False, trim_whitespace=False) for name in _NAMES}


class StepSerializer(serializers.Serializer[Any]):
    job = serializers.CharField(max_length=256, trim_whitespace=False, help_text="The scheduler's id, unique for ever")


class MeasuredSerializer(StepSerializer):
    benefit = serializers.FloatField(**_AMOUNT, required=False, help_text="Else quantities, or the estimate stands")
    quantities = serializers.DictField(
        child=serializers.FloatField(**_AMOUNT),
        required=False,
        help_text="What the benefit function needs: cpus, run_s, data_gb, …",
    )


class DecisionSerializer(MeasuredSerializer):
    group = serializers.CharField(max_length=8_400, required=False, help_text="Its name or path; or account")
    account = AccountSerializer(required=False, help_text="The group is the one in which it counts")


@extend_schema_field(
    {
        "oneOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"type": "number"}}],
        "nullable": True,
        "description": "A function's name, or weights of functions; null: jobs give their benefit",
    }
)
class BenefitField(serializers.JSONField):
    """As a case of `sam` has it; the engine says what is wrong with it."""

    def to_internal_value(self, data: Any) -> Any:
        if data is not None and not isinstance(data, str | dict):
            raise serializers.ValidationError("must be a name, weights or null")
        return data


class RulesSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(
        max_length=8_400, required=False, default="/", help_text="Its children are the groups"
    )
    benefit = BenefitField(required=False, allow_null=True, default=None)
    booked_at = serializers.ChoiceField(Ledger.BookedAt.values, required=False, default=Ledger.BookedAt.START.value)
    p_back = serializers.FloatField(required=False, default=0.0, min_value=-1e15, max_value=1e15)
    p_front = serializers.FloatField(required=False, default=1.0, min_value=-1e15, max_value=1e15)
    priority_groups = serializers.DictField(
        child=serializers.FloatField(min_value=-1e15, max_value=1e15), required=False, help_text="Each above p_front"
    )
    lost_after_h = serializers.FloatField(
        min_value=0,
        max_value=MOST_HOURS,
        required=False,
        allow_null=True,
        default=None,
        help_text="A job that is open for longer counts as lost; null: never",
    )


class NewRulesSerializer(RulesSerializer):
    received = serializers.DictField(
        child=serializers.FloatField(**_AMOUNT), required=False, help_text="B[g] of these groups from now on"
    )


# --- Answers ----------------------------------------------------------------------------------------------------------
class DecidedSerializer(serializers.Serializer[Any]):
    job = serializers.CharField()
    group = serializers.CharField()
    queue = serializers.ChoiceField(("front", "back", "priority"))
    priority = serializers.FloatField(help_text="For the queue below: p_front, p_back, or that of the priority group")
    fraction_after = serializers.FloatField(allow_null=True, help_text="(B[g] + b) / (ΣB + b)")
    share = serializers.FloatField(allow_null=True)
    benefit = serializers.FloatField(allow_null=True)
    booked = serializers.FloatField()
    snapshot = serializers.IntegerField()
    explain = serializers.ListField(child=serializers.CharField())
    notes = serializers.ListField(child=serializers.CharField(), help_text="What the queue must not do")


class BookedSerializer(serializers.Serializer[Any]):
    job = serializers.CharField()
    group = serializers.CharField()
    state = serializers.ChoiceField(Job.State.values)
    benefit = serializers.FloatField()
    booked = serializers.FloatField()


class LedgerRulesSerializer(RulesSerializer):
    revision = serializers.IntegerField()
    changed_at = UtcTimeField()


class OpenJobSerializer(serializers.Serializer[Any]):
    job = serializers.CharField()
    group = serializers.CharField()
    queue = serializers.CharField()
    state = serializers.ChoiceField(Job.State.values)
    benefit = serializers.FloatField()
    booked = serializers.FloatField()
    decided_at = UtcTimeField()
    started_at = UtcTimeField(allow_null=True)


class GroupBookSerializer(serializers.Serializer[Any]):
    share = serializers.FloatField()
    before = serializers.FloatField()
    booked = serializers.FloatField()
    after = serializers.FloatField(help_text="B[g]")
    fraction = serializers.FloatField(allow_null=True)
    owed = serializers.FloatField()


class BooksSerializer(serializers.Serializer[Any]):
    unit = serializers.CharField(allow_blank=True)
    total = serializers.FloatField()
    groups = serializers.DictField(child=GroupBookSerializer())
    next = serializers.DictField(child=serializers.DictField(child=serializers.FloatField()))


class LedgerSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    snapshot = serializers.IntegerField()
    rules = LedgerRulesSerializer()
    ledger = BooksSerializer()
    jobs = serializers.DictField(child=serializers.IntegerField(), help_text="Number by state")
    open = OpenJobSerializer(many=True, help_text="The oldest 200")
    notes = serializers.ListField(child=serializers.CharField())


# --- Views ------------------------------------------------------------------------------------------------------------
class LedgerView(APIView):
    scopes: ClassVar[Scopes] = {
        "GET": frozenset({SCHEDULERS, PRIORITIES_READ, POLICIES_READ}),
        "PUT": frozenset({POLICIES_WRITE}),
    }

    @extend_schema(operation_id="get_sam_ledger", responses=LedgerSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Rules, what each group has received beside its share, and the jobs that are open."""
        found = get_ledger(policy_slug=policy, at=clock.now(), actor=actor_of(request))
        return Response(LedgerSerializer(found).data)

    @extend_schema(operation_id="set_sam_rules", request=NewRulesSerializer, responses=LedgerSerializer)
    def put(self, request: Request, policy: str) -> Response:
        """Open the ledger, or replace its rules. By administrators."""
        given, at, actor = sent(NewRulesSerializer, request), clock.now(), actor_of(request)
        received = given.pop("received", None)
        set_rules(policy_slug=policy, rules=Rules(**given), received=received, at=at, actor=actor)
        return Response(LedgerSerializer(get_ledger(policy_slug=policy, at=at, actor=actor)).data)


class DecisionView(APIView):
    scopes: ClassVar[Scopes] = _STEPS

    @extend_schema(operation_id="decide_sam_job", request=DecisionSerializer, responses=DecidedSerializer)
    def post(self, request: Request, policy: str) -> Response:
        """Front, back, or the class of a priority group. The same job again gets the same answer."""
        given = sent(DecisionSerializer, request)
        account = given.pop("account", None)
        answer = services.decide(
            policy_slug=policy,
            group=given.pop("group", ""),
            account=None if account is None else AccountQuery(**account),
            report=JobReport(**given),
            at=clock.now(),
            actor=actor_of(request),
        )
        return Response(DecidedSerializer(answer).data)


class StartView(APIView):
    scopes: ClassVar[Scopes] = _STEPS

    @extend_schema(operation_id="start_sam_job", request=StepSerializer, responses=BookedSerializer)
    def post(self, request: Request, policy: str) -> Response:
        """The queue started the job."""
        report = JobReport(**sent(StepSerializer, request))
        answer = services.start(policy_slug=policy, report=report, at=clock.now(), actor=actor_of(request))
        return Response(BookedSerializer(answer).data)


class EndView(APIView):
    scopes: ClassVar[Scopes] = _STEPS

    @extend_schema(operation_id="finish_sam_job", request=MeasuredSerializer, responses=BookedSerializer)
    def post(self, request: Request, policy: str) -> Response:
        """The job ended, with the benefit that was measured."""
        report = JobReport(**sent(MeasuredSerializer, request))
        answer = services.finish(policy_slug=policy, report=report, at=clock.now(), actor=actor_of(request))
        return Response(BookedSerializer(answer).data)


class CancellationView(APIView):
    scopes: ClassVar[Scopes] = _STEPS

    @extend_schema(operation_id="cancel_sam_job", request=StepSerializer, responses=BookedSerializer)
    def post(self, request: Request, policy: str) -> Response:
        """The job will not run; what was booked for it is taken back."""
        report = JobReport(**sent(StepSerializer, request))
        answer = services.cancel(policy_slug=policy, report=report, at=clock.now(), actor=actor_of(request))
        return Response(BookedSerializer(answer).data)
