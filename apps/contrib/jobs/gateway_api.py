"""SAM's gateway: its ledger and rules, and the steps of a job. Steps are idempotent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.jobs import bounds as of_jobs
from apps.contrib.jobs.gateway import services
from apps.contrib.jobs.gateway.permissions import policy_to_manage, policy_to_use
from apps.contrib.jobs.gateway.selectors import get_ledger
from apps.contrib.jobs.gateway.services import MOST_BENEFIT, MOST_LOST_HOURS, JobReport, Rules, set_rules
from apps.contrib.jobs.models import Job, Ledger
from apps.core import clock
from apps.priorities.serving.lookup import AccountQuery
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, PRIORITIES_READ, SCHEDULERS, Scopes, actor_of
from apps.web.rest.bounded_fields import BoundedDictField
from apps.web.rest.inputs import read_body
from apps.web.rest.shapes import UtcTimeField
from apps.web.rest.views import APIView

_NAMES = ("user", "group", "namespace", "dn", "fqan", "project")
_AMOUNT: dict[str, Any] = {"min_value": 0, "max_value": MOST_BENEFIT}
_AGENTS: Scopes = {"POST": frozenset({SCHEDULERS})}


class AccountSerializer(serializers.Serializer[Any]):
    def get_fields(self) -> dict[str, Any]:
        return {
            name: serializers.CharField(max_length=bounds.ACCOUNT, required=False, trim_whitespace=False)
            for name in _NAMES
        }


class StepSerializer(serializers.Serializer[Any]):
    job = serializers.CharField(
        max_length=of_jobs.GATEWAY_JOB, trim_whitespace=False, help_text="Id of the job in the scheduler, never reused"
    )


class MeasuredSerializer(StepSerializer):
    benefit = serializers.FloatField(
        **_AMOUNT, required=False, help_text="Benefit of the job; without it, `quantities` or the estimate is used"
    )
    quantities = BoundedDictField(
        child=serializers.FloatField(**_AMOUNT),
        required=False,
        help_text="Arguments of the benefit function: cpus, run_s, data_gb, …",
    )


class DecisionSerializer(MeasuredSerializer):
    group = serializers.CharField(max_length=bounds.ENTRY, required=False, help_text="Name or path; or send `account`")
    account = AccountSerializer(required=False, help_text="Account of the job; its entry decides the group")


@extend_schema_field(
    {
        "oneOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"type": "number"}}],
        "nullable": True,
        "description": "Name of a benefit function, or weights of functions; null: jobs state their benefit",
    }
)
class BenefitField(serializers.JSONField):
    """Benefit as in a case of `sam`; the engine validates it."""

    def to_internal_value(self, data: Any) -> Any:
        if data is not None and not isinstance(data, str | dict):
            raise serializers.ValidationError("must be a name, weights or null")
        return data


class RulesSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(
        max_length=bounds.ENTRY, required=False, default="/", help_text="Entry whose children are the groups"
    )
    benefit = BenefitField(required=False, allow_null=True, default=None)
    booked_at = serializers.ChoiceField(Ledger.BookedAt.values, required=False, default=Ledger.BookedAt.START.value)
    p_back = serializers.FloatField(
        required=False, default=0.0, min_value=-of_jobs.LARGEST_PRIORITY, max_value=of_jobs.LARGEST_PRIORITY
    )
    p_front = serializers.FloatField(
        required=False, default=1.0, min_value=-of_jobs.LARGEST_PRIORITY, max_value=of_jobs.LARGEST_PRIORITY
    )
    priority_groups = BoundedDictField(
        child=serializers.FloatField(min_value=-of_jobs.LARGEST_PRIORITY, max_value=of_jobs.LARGEST_PRIORITY),
        required=False,
        help_text="Priority of each priority group, above p_front",
    )
    lost_after_h = serializers.FloatField(
        min_value=0,
        max_value=MOST_LOST_HOURS,
        required=False,
        allow_null=True,
        default=None,
        help_text="Hours after which an open job is considered lost; null: never",
    )


class NewRulesSerializer(RulesSerializer):
    received = BoundedDictField(
        child=serializers.FloatField(**_AMOUNT),
        required=False,
        help_text="New values of the received benefit B[g] by group",
    )


class DecidedSerializer(serializers.Serializer[Any]):
    job = serializers.CharField()
    group = serializers.CharField()
    queue = serializers.ChoiceField(("front", "back", "priority"))
    priority = serializers.FloatField(
        help_text="Priority for the batch queue: p_front, p_back, or that of the priority group"
    )
    fraction_after = serializers.FloatField(allow_null=True, help_text="Fraction after the job: (B[g] + b) / (ΣB + b)")
    share = serializers.FloatField(allow_null=True)
    benefit = serializers.FloatField(allow_null=True)
    booked = serializers.FloatField()
    snapshot = serializers.IntegerField()
    explain = serializers.ListField(child=serializers.CharField())
    notes = serializers.ListField(child=serializers.CharField(), help_text="Conditions that the batch queue must meet")


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
    jobs = serializers.DictField(child=serializers.IntegerField(), help_text="Number of jobs by state")
    open = OpenJobSerializer(many=True, help_text="The oldest 200 open jobs")
    notes = serializers.ListField(child=serializers.CharField())


class LedgerView(APIView):
    scopes: ClassVar[Scopes] = {
        "GET": frozenset({SCHEDULERS, PRIORITIES_READ, POLICIES_READ}),
        "PUT": frozenset({POLICIES_WRITE}),
    }

    def before_body(self, request: Request, *, policy: str) -> None:
        policy_to_manage(actor_of(request), policy)

    @extend_schema(operation_id="get_sam_ledger", responses=LedgerSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Rules of the ledger, share and received benefit of each group, and open jobs."""
        ledger = get_ledger(policy_slug=policy, at=clock.now(), actor=actor_of(request))
        return Response(LedgerSerializer(ledger).data)

    @extend_schema(operation_id="set_sam_rules", request=NewRulesSerializer, responses=LedgerSerializer)
    def put(self, request: Request, policy: str) -> Response:
        """Open the ledger, or replace its rules. For administrators."""
        body, at, actor = read_body(NewRulesSerializer, request), clock.now(), actor_of(request)
        received = body.pop("received", None)
        set_rules(policy_slug=policy, rules=Rules(**body), received=received, at=at, actor=actor)
        return Response(LedgerSerializer(get_ledger(policy_slug=policy, at=at, actor=actor)).data)


class DecisionView(APIView):
    scopes: ClassVar[Scopes] = _AGENTS

    def before_body(self, request: Request, *, policy: str) -> None:
        policy_to_use(actor_of(request), policy)

    @extend_schema(operation_id="decide_sam_job", request=DecisionSerializer, responses=DecidedSerializer)
    def post(self, request: Request, policy: str) -> Response:
        """Decide where a job is queued: front, back, or a priority group. Repeating a job returns the same answer."""
        body = read_body(DecisionSerializer, request)
        account = body.pop("account", None)
        answer = services.decide(
            policy_slug=policy,
            group=body.pop("group", ""),
            account=None if account is None else AccountQuery(**account),
            report=JobReport(**body),
            at=clock.now(),
            actor=actor_of(request),
        )
        return Response(DecidedSerializer(answer).data)


# By step: the service, its request, and the description in OpenAPI.
_STEPS: dict[str, tuple[Callable[..., Any], type[StepSerializer], str]] = {
    "start": (services.start, StepSerializer, "Report that the batch queue started the job."),
    "finish": (services.finish, MeasuredSerializer, "Report that the job ended, with its measured benefit."),
    "cancel": (services.cancel, StepSerializer, "Report that the job will not run. Its booking is reversed."),
}


def step_view(step: str) -> type[APIView]:
    """The view of start, finish or cancel."""
    service, kind, text = _STEPS[step]

    def post(self: APIView, request: Request, policy: str) -> Response:
        report = JobReport(**read_body(kind, request))
        answer = service(policy_slug=policy, report=report, at=clock.now(), actor=actor_of(request))
        return Response(BookedSerializer(answer).data)

    def before_body(self: APIView, request: Request, *, policy: str) -> None:
        policy_to_use(actor_of(request), policy)

    post.__doc__ = text
    described = extend_schema(operation_id=f"{step}_sam_job", request=kind, responses=BookedSerializer)(post)
    members = {"__module__": __name__, "scopes": _AGENTS, "post": described, "before_body": before_body}
    return type(f"{step.title()}View", (APIView,), members)
