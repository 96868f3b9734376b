"""Serializers of schedulers and agents' reports. They check types; the services check bounds of settings."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.contrib.schedulers.models import KNOBS, AgentPass, Scheduler
from apps.contrib.schedulers.passes import COUNTS
from apps.contrib.schedulers.queue_table import STATES, TERMS
from apps.contrib.schedulers.selectors import QueuedJob, SchedulerView
from apps.contrib.schedulers.waiting import FROZEN, Waiting
from apps.web.rest.bounded_fields import BoundedDictField, BoundedListField
from apps.web.rest.inputs import InstantField
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import UtcTimeField, utc_text

ERRORS = ("job_gone", "denied", "timeout", "refused", "unreadable")
SEVERITIES = ("error", "warning", "ok")
VIEW_STATES = ("off", "new", "silent", "frozen", "resetting", "reset", "paused", "failing", "running")
_KNOBS = sorted({knob for knobs in KNOBS.values() for knob in knobs})
_MOST = 2**31 - 1


class LimitsSerializer(serializers.Serializer[Any]):
    """Limits beyond which the agent freezes: it sends nothing."""

    snapshot_age_s = serializers.IntegerField(help_text="Greatest age of the snapshot")
    unmapped_percent = serializers.IntegerField(help_text="Greatest part of unmapped jobs")
    changed_percent = serializers.IntegerField(
        help_text="Greatest part of values to change without a newer snapshot, and of the order of accounts to lose"
    )
    calls_per_s = serializers.IntegerField(help_text="Rate of calls to the scheduler; does not freeze the agent")


class OrdersSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    policy = serializers.CharField()
    kind = serializers.ChoiceField(Scheduler.Kind.choices)
    reach = serializers.ChoiceField(Scheduler.Reach.choices)
    namespace = serializers.CharField(allow_null=True, help_text="Namespace of the scheduler's user names; null: any")
    partitions = serializers.ListField(child=serializers.CharField(), allow_null=True, help_text="null: all")
    subtree = serializers.CharField(help_text="Path of an entry; jobs of entries outside it are left unchanged")
    knob = serializers.ChoiceField(_KNOBS)
    weight = serializers.IntegerField(help_text="Value that is sent for a factor of 1")
    step = serializers.IntegerField(help_text="Smallest change that is sent")
    mode = serializers.ChoiceField(Scheduler.Mode.choices)
    carries = serializers.ChoiceField(
        Scheduler.Carries.choices, help_text="priorities, or shares if Slurm computes Fair Tree itself"
    )
    canary_partition = serializers.CharField(allow_null=True)
    every_s = serializers.IntegerField()
    limits = LimitsSerializer()
    paused = serializers.BooleanField()
    reset_values = serializers.BooleanField(help_text="Reset all values that the agent has set, and send nothing")
    resumes = serializers.IntegerField(
        help_text="How often it was resumed; after each, the agent accepts any change of values once"
    )
    revision = serializers.IntegerField(help_text="Increases with each change of the orders")


class ShareLineSerializer(serializers.Serializer[Any]):
    line = serializers.IntegerField(help_text="Number of the line in the order")
    group = serializers.CharField()
    user = serializers.CharField()
    before = serializers.CharField(help_text="Shares that the scheduler must still have; otherwise the line is skipped")
    after = serializers.CharField()
    agreed = serializers.CharField(help_text="Shares that both sides last had in common")


class ShareOrderToSetSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    cluster = serializers.CharField()
    lines = ShareLineSerializer(many=True)


class AgentOrdersSerializer(OrdersSerializer):
    share_order = ShareOrderToSetSerializer(allow_null=True, help_text="Remaining lines of the open order; null: none")


class SchedulerCheckSerializer(serializers.Serializer[Any]):
    code = serializers.CharField(max_length=64)
    severity = serializers.ChoiceField(SEVERITIES)
    found = serializers.CharField(max_length=1_000, allow_blank=True)
    remedy = serializers.CharField(
        max_length=1_000, allow_blank=True, help_text="Line of the scheduler's configuration to change"
    )


class JobCountsSerializer(serializers.Serializer[Any]):
    pending = serializers.IntegerField(min_value=0, max_value=_MOST)
    mapped = serializers.IntegerField(min_value=0, max_value=_MOST)
    unmapped = serializers.IntegerField(min_value=0, max_value=_MOST)
    due = serializers.IntegerField(min_value=0, max_value=_MOST)
    sent = serializers.IntegerField(min_value=0, max_value=_MOST)
    failed = serializers.IntegerField(min_value=0, max_value=_MOST)
    calls = serializers.IntegerField(min_value=0, max_value=_MOST)


class FrozenSerializer(serializers.Serializer[Any]):
    code = serializers.ChoiceField(tuple(FROZEN))
    detail = serializers.CharField(max_length=1_000, allow_blank=True)


class PassErrorSerializer(serializers.Serializer[Any]):
    code = serializers.ChoiceField(ERRORS)
    count = serializers.IntegerField(min_value=1, max_value=_MOST)
    detail = serializers.CharField(max_length=300, allow_blank=True)


class UnmappedNameSerializer(serializers.Serializer[Any]):
    user = serializers.CharField(max_length=256, allow_blank=True)
    group = serializers.CharField(max_length=256, allow_blank=True)
    jobs = serializers.IntegerField(min_value=0, max_value=_MOST)


class PassSerializer(serializers.Serializer[Any]):
    """One pass of an agent."""

    agent = serializers.CharField()
    host = serializers.CharField()
    orders_revision = serializers.IntegerField()
    received_at = UtcTimeField()
    started_at = UtcTimeField()
    ended_at = UtcTimeField()
    mode = serializers.ChoiceField(Scheduler.Mode.choices)
    snapshot = serializers.IntegerField(allow_null=True)
    snapshot_age_s = serializers.FloatField(allow_null=True)
    scheduler_version = serializers.CharField()
    jobs = serializers.SerializerMethodField()
    frozen = serializers.SerializerMethodField()
    errors = PassErrorSerializer(many=True)  # type: ignore[assignment]  # a field of the answer
    unmapped = UnmappedNameSerializer(many=True, source="unmapped_names")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {"pass": serializers.UUIDField(source="uid"), **super().get_fields()}  # a keyword of Python

    @extend_schema_field(JobCountsSerializer)
    def get_jobs(self, agent_pass: AgentPass) -> dict[str, int]:
        return {name: getattr(agent_pass, name) for name in COUNTS}

    @extend_schema_field(FrozenSerializer(allow_null=True))
    def get_frozen(self, agent_pass: AgentPass) -> dict[str, str] | None:
        return {"code": agent_pass.frozen_code, "detail": agent_pass.frozen_detail} if agent_pass.frozen_code else None


class SchedulerSerializer(OrdersSerializer):
    state = serializers.ChoiceField(VIEW_STATES)
    last_pass = PassSerializer(allow_null=True)
    age_s = serializers.FloatField(allow_null=True, help_text="Since the last pass was reported")
    checks = SchedulerCheckSerializer(
        many=True, allow_null=True, help_text="null: the agent has not checked the scheduler yet"
    )
    checked_at = UtcTimeField(allow_null=True)
    etag = serializers.CharField(help_text="Value for If-Match")


class ChangedSchedulerSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(Scheduler.Kind.choices, required=False)
    reach = serializers.ChoiceField(Scheduler.Reach.choices, required=False)
    namespace = serializers.CharField(required=False, allow_null=True, allow_blank=True, max_length=128)
    partitions = BoundedListField(
        child=serializers.CharField(max_length=64), required=False, allow_null=True, max_length=200
    )
    subtree = serializers.CharField(required=False, max_length=8_400)
    knob = serializers.ChoiceField(_KNOBS, required=False)
    weight = serializers.IntegerField(required=False)
    step = serializers.IntegerField(required=False)
    mode = serializers.ChoiceField(Scheduler.Mode.choices, required=False)
    carries = serializers.ChoiceField(Scheduler.Carries.choices, required=False)
    canary_partition = serializers.CharField(required=False, allow_null=True, allow_blank=True, max_length=64)
    every_s = serializers.IntegerField(required=False)
    limits = BoundedDictField(child=serializers.IntegerField(), required=False)
    paused = serializers.BooleanField(required=False)
    reset_values = serializers.BooleanField(required=False)


class NewSchedulerSerializer(ChangedSchedulerSerializer):
    name = serializers.SlugField(max_length=64)
    policy = serializers.SlugField(max_length=64)
    paused = None  # type: ignore[assignment]  # not for a new scheduler
    reset_values = None  # type: ignore[assignment]


def _terms_schema() -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "number"} for name in TERMS}, "additionalProperties": False}


_NUMBER: dict[str, Any] = {"type": "number", "nullable": True}
_TIME = {"type": "string", "format": "date-time"}
_JOB = {
    "type": "object",
    "required": ["job", "user", "state"],
    "additionalProperties": False,
    "properties": {
        "job": {"type": "string", "minLength": 1, "maxLength": 40},
        "array_task": {"type": "string", "nullable": True, "maxLength": 2_000},
        "user": {"type": "string", "minLength": 1, "maxLength": 256},
        **{name: {"type": "string", "maxLength": 128} for name in ("qos", "reason")},
        "group": {"type": "string", "maxLength": 256},
        "partition": {"type": "string", "maxLength": 1_024},
        **{name: _NUMBER for name in ("cpus", "priority", "value")},
        **{name: {**_TIME, "nullable": True} for name in ("submit_at", "eligible_at")},
        "state": {"type": "string", "enum": list(STATES)},
        "terms": {**_terms_schema(), "nullable": True},
    },
}
_OWN_VALUE = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        **{name: {"type": "string", "maxLength": 256, "nullable": True} for name in ("cluster", "group", "user")},
        "raw_shares": {"oneOf": [{"type": "number"}, {"type": "string", "enum": ["parent"]}], "nullable": True},
        **{
            name: {
                "oneOf": [{"type": "number"}, {"type": "string", "enum": ["Infinity", "-Infinity"]}],
                "nullable": True,
            }
            for name in ("norm_shares", "raw_usage", "effective_usage", "fairshare", "level_fs")
        },
    },
}


class _Unchecked(serializers.JSONField):
    """Validated by `apps.contrib.schedulers` in one pass, because a serializer takes a minute for 50,000 jobs."""

    def to_internal_value(self, data: Any) -> Any:
        return data


@extend_schema_field({"type": "array", "items": _JOB, "nullable": True, "maxItems": 200_000})
class QueueField(_Unchecked):
    """All waiting jobs."""


@extend_schema_field({"type": "array", "items": _OWN_VALUE, "nullable": True, "maxItems": 500_000})
class OwnValuesField(_Unchecked):
    """Shares and usage that the scheduler computes itself."""


class LineOutcomeSerializer(serializers.Serializer[Any]):
    line = serializers.IntegerField(min_value=0, max_value=_MOST)
    code = serializers.ChoiceField(("done", "already", "missing", "changed_meanwhile", *ERRORS))
    detail = serializers.CharField(max_length=300, allow_blank=True)


class OrderOutcomesSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField(min_value=0, max_value=2**63 - 1)
    outcomes = BoundedListField(child=LineOutcomeSerializer(), max_length=5_000)


class RestoredShareSerializer(serializers.Serializer[Any]):
    """A share that a reset restored, or left alone because it was changed since."""

    group = serializers.CharField(max_length=8_400)
    user = serializers.CharField(max_length=256, allow_blank=True)
    before = serializers.CharField(max_length=10, allow_blank=True)
    after = serializers.CharField(max_length=10)
    code = serializers.ChoiceField(("done", "already", "missing", "changed_meanwhile"))
    detail = serializers.CharField(max_length=300, allow_blank=True)


_SHARE_FIELDS = {name: {"type": "string"} for name in ("group", "user", "partition", "parent", "shares")}
_SHARE = {"type": "object", "additionalProperties": False, "required": [*_SHARE_FIELDS], "properties": _SHARE_FIELDS}


@extend_schema_field(
    {
        "type": "object",
        "properties": {"cluster": {"type": "string"}, "rows": {"type": "array", "items": _SHARE, "maxItems": 200_000}},
        "nullable": True,
    }
)
class SharesField(_Unchecked):
    """All associations of the cluster, or all nodes of the share tree."""


class ReportSerializer(serializers.Serializer[Any]):
    agent = serializers.CharField(max_length=64)
    host = serializers.CharField(max_length=255)
    orders_revision = serializers.IntegerField(min_value=0, max_value=_MOST)
    started_at = InstantField()
    ended_at = InstantField()
    mode = serializers.ChoiceField(Scheduler.Mode.choices)
    snapshot = serializers.IntegerField(required=False, allow_null=True, min_value=0, max_value=2**63 - 1)
    snapshot_age_s = serializers.FloatField(required=False, allow_null=True, min_value=0, max_value=1e12)
    scheduler_version = serializers.CharField(required=False, allow_null=True, allow_blank=True, max_length=64)
    jobs = JobCountsSerializer()
    frozen = FrozenSerializer(required=False, allow_null=True)
    errors = BoundedListField(  # type: ignore[assignment]
        child=PassErrorSerializer(), required=False, max_length=100
    )
    unmapped = BoundedListField(child=UnmappedNameSerializer(), required=False, max_length=100)
    checks = BoundedListField(child=SchedulerCheckSerializer(), required=False, allow_null=True, max_length=200)
    queue = QueueField(required=False, allow_null=True)
    values = OwnValuesField(required=False, allow_null=True)
    shares = SharesField(required=False, allow_null=True)
    share_order = OrderOutcomesSerializer(required=False, allow_null=True)
    restored_shares = BoundedListField(child=RestoredShareSerializer(), required=False, max_length=20_000)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {"pass": serializers.UUIDField(), **super().get_fields()}


class ReportedSerializer(serializers.Serializer[Any]):
    orders_revision = serializers.IntegerField(help_text="If it is higher than the agent's, fetch the orders again")


@extend_schema_field({**_terms_schema(), "nullable": True})
class TermsField(serializers.DictField):
    """Terms of a job's priority by name."""


QueuedJobSerializer = record_serializer(QueuedJob, terms=TermsField(allow_null=True))


class QueueFilterSerializer(serializers.Serializer[Any]):
    user = serializers.CharField(required=False, max_length=256)
    partition = serializers.CharField(required=False, max_length=1_024)
    limit = serializers.IntegerField(required=False, min_value=1, max_value=1_000, default=100)
    cursor = serializers.CharField(required=False, max_length=200)


class QueueSerializer(serializers.Serializer[Any]):
    taken_at = UtcTimeField(allow_null=True, help_text="Time of the queue listing; null: none yet")
    jobs = serializers.IntegerField(help_text="Number of jobs that the caller may see")
    results = QueuedJobSerializer(many=True)
    next = serializers.CharField(allow_null=True)


class PassFilterSerializer(serializers.Serializer[Any]):
    limit = serializers.IntegerField(required=False, min_value=1, max_value=500, default=50)
    cursor = serializers.CharField(required=False, max_length=200)


class WhyFilterSerializer(serializers.Serializer[Any]):
    job = serializers.CharField(max_length=100, help_text="Job number")


class PolicyWhyFilterSerializer(WhyFilterSerializer):
    scheduler = serializers.CharField(
        required=False, max_length=64, help_text="Name of the scheduler, if several have a job of this number"
    )


WaitingSerializer = record_serializer(
    Waiting,
    kind=serializers.ChoiceField(Scheduler.Kind.choices),
    knob=serializers.ChoiceField(_KNOBS),
    mode=serializers.ChoiceField(Scheduler.Mode.choices),
    job=QueuedJobSerializer(),
)


def scheduler_json(view: SchedulerView, orders: dict[str, Any], tag: str) -> dict[str, Any]:
    return {
        **orders,
        "state": view.state,
        "last_pass": None if view.last is None else PassSerializer(view.last).data,
        "age_s": view.age_s,
        "checks": view.scheduler.checks,
        "checked_at": utc_text(view.scheduler.checked_at),
        "etag": f'"{tag}"',
    }
