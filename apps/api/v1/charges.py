"""What single jobs count in a policy, with the arithmetic, and corrections of usage with what they come to now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, SELF_READ, Scopes, actor_of
from apps.api.shapes import UtcTimeField, asked, decode_cursor, entry_uid, list_of, listed
from apps.api.views import APIView
from apps.policies.settings import APPROACHES, RESOURCES
from apps.priorities.adjustments import AdjustmentLine, list_adjustments
from apps.priorities.charges import ChargedJob, list_charges
from apps.priorities.job_charge import HourLine

# --- Charges ----------------------------------------------------------------------------------------------------------
_PAGE = 50


class ChargedResourceSerializer(serializers.Serializer[Any]):
    """rate × run_s = amount_s, and amount_s × weight = weighed."""

    resource = serializers.CharField()
    rate = serializers.FloatField(help_text="A second")
    amount_s = serializers.FloatField(help_text="Up to now, or to its end")
    weight = serializers.FloatField(help_text="Of the policy's metric")
    weighed = serializers.FloatField()


class ChargedRuleSerializer(serializers.Serializer[Any]):
    queue = serializers.CharField()
    partition = serializers.CharField()
    qos = serializers.CharField()
    factor = serializers.FloatField()


class ChargedHourSerializer(serializers.Serializer[Any]):
    at = serializers.SerializerMethodField(help_text="The hour's begin")
    charged = serializers.FloatField(help_text="Resources × weights × factors")
    age_s = serializers.FloatField(help_text="Since its end")
    weight = serializers.FloatField(help_text="What aging and window leave of it")
    counted = serializers.FloatField(help_text="charged × weight, and 0 where it is held")
    why = serializers.ChoiceField(
        ["counts", "after", "old", "held"],
        help_text="after: begins after the instant. old: out of the window. held: came from another source too",
    )

    @extend_schema_field(UtcTimeField())
    def get_at(self, hour: HourLine) -> str:
        return datetime.fromtimestamp(hour.hour_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ChargeSerializer(serializers.Serializer[Any]):
    source = serializers.CharField(source="source.slug")  # type: ignore[assignment]  # a name of ours
    cluster = serializers.CharField(source="record.cluster")
    job = serializers.CharField(source="record.job")
    array_task = serializers.CharField(source="record.array_task")
    restart = serializers.IntegerField(source="record.restart")
    user = serializers.CharField(source="account.user_name")
    group = serializers.CharField(source="account.group_name")
    path = serializers.SerializerMethodField(help_text="null: no rule leads to an entry")
    state = serializers.CharField(source="record.state")
    note = serializers.CharField(source="record.note", help_text="vanished: a listing missed it, and it was closed")
    is_charge = serializers.BooleanField(source="record.is_charge", help_text="Charged, and no job")
    site = serializers.CharField(source="record.site")
    start = UtcTimeField(source="record.start_at", allow_null=True)
    end = UtcTimeField(source="record.end_at", allow_null=True)
    run_s = serializers.FloatField(source="charge.run_s")
    requested_left_s = serializers.FloatField(source="charge.requested_left_s", help_text="Of a running job, never < 0")
    resources = ChargedResourceSerializer(source="charge.lines", many=True)
    class_rules = ChargedRuleSerializer(source="charge.class_rules", many=True, help_text="All that fit, multiplied")
    class_factor = serializers.FloatField(source="charge.class_factor")
    site_factor = serializers.FloatField(source="charge.site_factor")
    charged = serializers.FloatField(source="charge.charged", help_text="Σ weighed × class factor × site factor")
    hours = ChargedHourSerializer(source="charge.hours", many=True)
    historical = serializers.FloatField(source="charge.historical", help_text="What it counts if only finished jobs do")
    active = serializers.FloatField(source="charge.active", help_text="And what running ones used so far")
    predictive = serializers.FloatField(source="charge.predictive", help_text="And what they may still use")
    approach_local = serializers.ChoiceField(APPROACHES, allow_null=True, help_text="null: another site's job")
    approach_global = serializers.ChoiceField(APPROACHES)
    counts_local = serializers.FloatField(source="counted_local", allow_null=True, help_text="null: another site's job")
    counts_global = serializers.FloatField(source="counted_global")

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_path(self, job: ChargedJob) -> str | None:
        return job.path or None


class ChargeFilterSerializer(serializers.Serializer[Any]):
    job = serializers.CharField(max_length=200, required=False, help_text="Its number; 12_3 or 12[3] for a task")
    source = serializers.CharField(max_length=64, required=False)  # type: ignore[assignment]  # a name of ours
    account = serializers.CharField(max_length=1024, required=False, help_text="A user name or DN")
    cursor = serializers.CharField(max_length=200, required=False)


class ChargeListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, POLICIES_WRITE, SELF_READ})}

    @extend_schema(
        operation_id="list_charges", parameters=[ChargeFilterSerializer], responses=list_of(ChargeSerializer)
    )
    def get(self, request: Request, policy: str) -> Response:
        """The caller's own jobs, newest first; with a job, account or source, those of others whose names they read.

        Amounts are in the policy's metric, at the instant of the newest snapshot: they add up to the usage it shows.
        """
        given = asked(ChargeFilterSerializer, request)
        page = list_charges(
            policy_slug=policy,
            job=given.get("job", ""),
            source=given.get("source", ""),
            account=given.get("account", ""),
            before=decode_cursor(given["cursor"], int) if "cursor" in given else None,
            limit=_PAGE,
            actor=actor_of(request),
        )
        return listed(ChargeSerializer(page.jobs, many=True).data, page.next_before)


# --- Adjustments ------------------------------------------------------------------------------------------------------
_ADJUSTMENT_PAGE = 100


class AdjustmentSerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField(source="adjustment.uid")
    entry = serializers.UUIDField(source="adjustment.entry_uid")
    path = serializers.SerializerMethodField(help_text="null: its entry is archived, and it counts nowhere")
    resource = serializers.ChoiceField(RESOURCES, source="adjustment.resource")
    amount_s = serializers.FloatField(
        source="adjustment.amount_s", help_text="Seconds of the resource; below 0: given back"
    )
    at = UtcTimeField(source="adjustment.at", help_text="As if used then; it ages from that hour on")
    counted_s = serializers.FloatField(
        source="counted", help_text="What it comes to in the policy's metric as of the newest snapshot"
    )
    note = serializers.CharField(source="adjustment.note")
    reason = serializers.CharField(source="adjustment.reason")
    author = serializers.CharField(source="adjustment.author_name")
    created_at = UtcTimeField(source="adjustment.created_at")
    since = serializers.IntegerField(source="adjustment.since", help_text="The revision that published it")
    until = serializers.IntegerField(
        source="adjustment.until", allow_null=True, help_text="The revision that revoked it; null: valid"
    )

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_path(self, line: AdjustmentLine) -> str | None:
        return line.path or None


class AdjustmentFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=9000, required=False, help_text="Its uid, or its path: there and below")
    in_force = serializers.BooleanField(required=False, default=False, help_text="Leave out those that are revoked")
    cursor = serializers.CharField(max_length=200, required=False)


class AdjustmentListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, POLICIES_WRITE})}

    @extend_schema(
        operation_id="list_adjustments",
        parameters=[AdjustmentFilterSerializer],
        responses=list_of(AdjustmentSerializer),
    )
    def get(self, request: Request, policy: str) -> Response:
        """Of entries that the caller sees, newest first. Make one with the operation `adjust_usage`."""
        given = asked(AdjustmentFilterSerializer, request)
        lines, following = list_adjustments(
            policy_slug=policy,
            entry_uid=entry_uid(request, policy, given["entry"]) if "entry" in given else None,
            with_revoked=not given["in_force"],
            before=decode_cursor(given["cursor"], int) if "cursor" in given else None,
            limit=_ADJUSTMENT_PAGE,
            actor=actor_of(request),
        )
        return listed(AdjustmentSerializer(lines, many=True).data, following)
