"""Charges of single jobs in a policy with their arithmetic."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.policies.settings import APPROACHES
from apps.priorities.charges import ChargedJob, list_charges
from apps.priorities.job_charge import HourLine, ResourceLine
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, SELF_READ, Scopes, actor_of
from apps.web.rest.cursors import read_cursor
from apps.web.rest.inputs import read_query
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema
from apps.web.rest.views import APIView

_PAGE = 50


ChargedResourceSerializer = record_serializer(
    ResourceLine,
    component="ChargedResource",
    doc="rate × run_s = amount_s, and amount_s × weight = weighed.",
    texts={
        "rate": "Amount of the resource per second",
        "amount_s": "Seconds of the resource up to now, or to the end of the job",
        "weight": "Weight in the policy's metric",
    },
)


class ChargedRuleSerializer(serializers.Serializer[Any]):
    queue = serializers.CharField()
    partition = serializers.CharField()
    qos = serializers.CharField()
    factor = serializers.FloatField()


ChargedHourSerializer = record_serializer(
    HourLine,
    component="ChargedHour",
    only=("at", "charged", "age_s", "weight", "counted", "why"),
    texts={
        "at": "Start of the hour",
        "charged": "Resources × weights × factors",
        "age_s": "Seconds since the end of the hour",
        "weight": "Weight by age: decay function and window",
        "counted": "charged × weight; 0 if the hour is held",
        "why": "after: begins after the instant. old: outside the window. held: another source reported the job too",
    },
)


class ChargeSerializer(serializers.Serializer[Any]):
    source = serializers.CharField(source="source.slug")  # type: ignore[assignment]  # a name of ours
    cluster = serializers.CharField(source="record.cluster")
    job = serializers.CharField(source="record.job")
    array_task = serializers.CharField(source="record.array_task")
    restart = serializers.IntegerField(source="record.restart")
    user = serializers.CharField(source="account.user_name")
    group = serializers.CharField(source="account.group_name")
    path = serializers.SerializerMethodField(help_text="Path of the entry; null: the account is unmapped")
    state = serializers.CharField(source="record.state")
    note = serializers.CharField(
        source="record.note", help_text="vanished: closed because a queue listing no longer had the job"
    )
    is_charge = serializers.BooleanField(source="record.is_charge", help_text="A charge without a job")
    site = serializers.CharField(source="record.site")
    start = UtcTimeField(source="record.start_at", allow_null=True)
    end = UtcTimeField(source="record.end_at", allow_null=True)
    run_s = serializers.FloatField(source="charge.run_s")
    requested_left_s = serializers.FloatField(
        source="charge.requested_left_s", help_text="Rest of a running job's time limit, at least 0"
    )
    resources = ChargedResourceSerializer(source="charge.lines", many=True)
    class_rules = ChargedRuleSerializer(
        source="charge.class_rules", many=True, help_text="Class factors that match the job; they are multiplied"
    )
    class_factor = serializers.FloatField(source="charge.class_factor")
    site_factor = serializers.FloatField(source="charge.site_factor")
    charged = serializers.FloatField(source="charge.charged", help_text="Σ weighed × class factor × site factor")
    hours = ChargedHourSerializer(source="charge.hours", many=True)
    historical = serializers.FloatField(source="charge.historical", help_text="Usage if only finished jobs count")
    active = serializers.FloatField(
        source="charge.active", help_text="Usage if running jobs count, too, by what they have used so far"
    )
    predictive = serializers.FloatField(
        source="charge.predictive", help_text="Usage if running jobs count, too, by what they may use in total"
    )
    approach_local = serializers.ChoiceField(APPROACHES, allow_null=True, help_text="null: a job of another site")
    approach_global = serializers.ChoiceField(APPROACHES)
    counts_local = serializers.FloatField(
        source="counted_local", allow_null=True, help_text="Local usage; null: a job of another site"
    )
    counts_global = serializers.FloatField(source="counted_global", help_text="Global usage")

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_path(self, job: ChargedJob) -> str | None:
        return job.path or None


class ChargeFilterSerializer(serializers.Serializer[Any]):
    job = serializers.CharField(
        max_length=200, required=False, help_text="Job number; 12_3 or 12[3] for a task of an array"
    )
    source = serializers.CharField(max_length=64, required=False)  # type: ignore[assignment]  # a name of ours
    account = serializers.CharField(max_length=1024, required=False, help_text="A user name or DN")
    cursor = serializers.CharField(max_length=200, required=False)


class ChargeListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, POLICIES_WRITE, SELF_READ})}

    @extend_schema(
        operation_id="list_charges", parameters=[ChargeFilterSerializer], responses=list_schema(ChargeSerializer)
    )
    def get(self, request: Request, policy: str) -> Response:
        """Jobs with their charges, newest first: the caller's own jobs; with `job`, `account` or `source` also jobs of
        people whose names the caller may read.

        Amounts are in the policy's metric at the instant of the newest snapshot, and add up to its usage.
        """
        given = read_query(ChargeFilterSerializer, request)
        page = list_charges(
            policy_slug=policy,
            job=given.get("job", ""),
            source=given.get("source", ""),
            account=given.get("account", ""),
            before=read_cursor(given),
            limit=_PAGE,
            actor=actor_of(request),
        )
        return list_response(ChargeSerializer(page.jobs, many=True).data, page.next_before)
