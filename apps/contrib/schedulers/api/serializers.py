"""Serializers of schedulers and agents' reports. They check types; the services check bounds of settings."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.contrib.schedulers import bounds as of_schedulers
from apps.contrib.schedulers.api.listings import (
    TERMS_SCHEMA,
    OwnValuesField,
    QueueField,
    QueueStateField,
    SharesField,
)
from apps.contrib.schedulers.going_back import LineToRestore, lines_to_restore
from apps.contrib.schedulers.models import KNOBS, AgentPass, Scheduler
from apps.contrib.schedulers.orders import MOST_JOB_PARTITIONS
from apps.contrib.schedulers.passes import COUNTS
from apps.contrib.schedulers.selectors import QueuedJob, SchedulerView
from apps.contrib.schedulers.share_orders import MOST_ORDER_LINES
from apps.contrib.schedulers.waiting import FROZEN, QueuedJobStart, Waiting
from apps.web import bounds
from apps.web.rest.bounded_fields import BoundedDictField, BoundedListField
from apps.web.rest.inputs import InstantField
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import UtcTimeField, utc_text

LIMIT_CODES = (
    *("free", "set", "lifted", "would_set", "later", "last_running", "jobs_running", "admin_limit", "missing"),
    *("changed_meanwhile", "paused", "not_named", "ended_on_host", "lapsed", "denied", "timeout", "refused"),
    *("unreadable", "setting", "lifting"),
)
RESTORE_CAUSES = ("lifted", "lapsed", "ended_on_host", "reset")
ERRORS = ("job_gone", "denied", "timeout", "refused", "unreadable")
SEVERITIES = ("error", "warning", "ok")
VIEW_STATES = ("off", "new", "silent", "frozen", "resetting", "reset", "paused", "failing", "running")
_KNOBS = sorted({knob for knobs in KNOBS.values() for knob in knobs})


class LimitsSerializer(serializers.Serializer[Any]):
    """Limits beyond which the agent freezes: it sends nothing."""

    snapshot_age_s = serializers.IntegerField(help_text="Greatest age of the snapshot")
    unmapped_percent = serializers.IntegerField(help_text="Greatest part of unmapped jobs")
    changed_percent = serializers.IntegerField(
        help_text="Greatest part of values to change without a newer snapshot, and of the order of accounts to lose"
    )
    calls_per_s = serializers.IntegerField(help_text="Rate of calls to the scheduler; does not freeze the agent")
    updates_per_min = serializers.IntegerField(
        help_text="Jobs that get another value in a minute, the front of the queue first; does not freeze the agent"
    )


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
        Scheduler.Carries.choices,
        help_text="priorities, shares if Slurm computes Fair Tree itself, or limits of accounts",
    )
    canary_partition = serializers.CharField(allow_null=True)
    every_s = serializers.IntegerField()
    follows = serializers.BooleanField(
        help_text="Each hour a draft of Slurm's accounts and users, where they differ; published shares stay"
    )
    limits = LimitsSerializer()
    paused = serializers.BooleanField()
    reset_values = serializers.BooleanField(help_text="Reset all values that the agent has set, and send nothing")
    lists_priorities = serializers.BooleanField(
        help_text="Jobs of the queue may have several priorities; agents send them to servers that have this field"
    )
    takes_queue_state = serializers.BooleanField(
        help_text="Reports may have queue_state, and sizes of jobs; agents send them to servers that have this field"
    )
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


class LimitLineSerializer(serializers.Serializer[Any]):
    """A limit that an account gets; it has minutes by TRES, or a QOS, or both."""

    account = serializers.CharField()
    grp_tres_mins = serializers.DictField(child=serializers.IntegerField(), help_text="Minutes by TRES, such as cpu")
    qos = serializers.CharField(allow_null=True, help_text="The only QOS that jobs of the account may use")
    reason = serializers.CharField()
    since = serializers.DateField()


class LimitOrderSerializer(serializers.Serializer[Any]):
    format = serializers.IntegerField()
    as_of = UtcTimeField(help_text="Minute in which the limits were computed")
    lapse_s = serializers.IntegerField(help_text="The agent restores all limits after so long without a newer order")
    percent_a_day = serializers.IntegerField(help_text="Part of the named accounts that may get a limit in 24 hours")
    canary = serializers.CharField(allow_null=True, help_text="The only account that gets a limit in mode canary")
    accounts = serializers.ListField(child=serializers.CharField(), help_text="No other account gets a limit")
    lines = LimitLineSerializer(many=True)


class AgentOrdersSerializer(OrdersSerializer):
    share_order = ShareOrderToSetSerializer(allow_null=True, help_text="Remaining lines of the open order; null: none")
    limit_order = LimitOrderSerializer(
        allow_null=True, help_text="Limits of now; null: the scheduler doesn't carry limits"
    )


class SchedulerCheckSerializer(serializers.Serializer[Any]):
    code = serializers.CharField(max_length=of_schedulers.CODE)
    severity = serializers.ChoiceField(SEVERITIES)
    found = serializers.CharField(max_length=of_schedulers.DETAIL, allow_blank=True)
    remedy = serializers.CharField(
        max_length=of_schedulers.DETAIL, allow_blank=True, help_text="Line of the scheduler's configuration to change"
    )


class JobCountsSerializer(serializers.Serializer[Any]):
    pending = serializers.IntegerField(min_value=0, max_value=bounds.WHOLE4)
    mapped = serializers.IntegerField(min_value=0, max_value=bounds.WHOLE4)
    unmapped = serializers.IntegerField(min_value=0, max_value=bounds.WHOLE4)
    due = serializers.IntegerField(min_value=0, max_value=bounds.WHOLE4)
    sent = serializers.IntegerField(min_value=0, max_value=bounds.WHOLE4)
    failed = serializers.IntegerField(min_value=0, max_value=bounds.WHOLE4)
    calls = serializers.IntegerField(min_value=0, max_value=bounds.WHOLE4)


class FrozenSerializer(serializers.Serializer[Any]):
    code = serializers.ChoiceField(tuple(FROZEN))
    detail = serializers.CharField(max_length=of_schedulers.DETAIL, allow_blank=True)


class PassErrorSerializer(serializers.Serializer[Any]):
    code = serializers.ChoiceField(ERRORS)
    count = serializers.IntegerField(min_value=1, max_value=bounds.WHOLE4)
    detail = serializers.CharField(max_length=of_schedulers.LINE_DETAIL, allow_blank=True)


class UnmappedNameSerializer(serializers.Serializer[Any]):
    user = serializers.CharField(max_length=bounds.USER, allow_blank=True)
    group = serializers.CharField(max_length=bounds.GROUP, allow_blank=True)
    jobs = serializers.IntegerField(min_value=0, max_value=bounds.WHOLE4)


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
    lines_to_restore = record_serializer(LineToRestore)(
        many=True, help_text="Lines of the scheduler's configuration to write again after a reset, the first one first"
    )
    etag = serializers.CharField(help_text="Value for If-Match")


class ChangedSchedulerSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(Scheduler.Kind.choices, required=False)
    reach = serializers.ChoiceField(Scheduler.Reach.choices, required=False)
    namespace = serializers.CharField(required=False, allow_null=True, allow_blank=True, max_length=bounds.NAMESPACE)
    partitions = BoundedListField(
        child=serializers.CharField(max_length=of_schedulers.PARTITION),
        required=False,
        allow_null=True,
        max_length=MOST_JOB_PARTITIONS,
    )
    subtree = serializers.CharField(required=False, max_length=bounds.ENTRY)
    knob = serializers.ChoiceField(_KNOBS, required=False)
    weight = serializers.IntegerField(required=False)
    step = serializers.IntegerField(required=False)
    mode = serializers.ChoiceField(Scheduler.Mode.choices, required=False)
    carries = serializers.ChoiceField(Scheduler.Carries.choices, required=False)
    canary_partition = serializers.CharField(
        required=False, allow_null=True, allow_blank=True, max_length=of_schedulers.PARTITION
    )
    every_s = serializers.IntegerField(required=False)
    follows = serializers.BooleanField(required=False)
    limits = BoundedDictField(child=serializers.IntegerField(), required=False)
    paused = serializers.BooleanField(required=False)
    reset_values = serializers.BooleanField(required=False)


class NewSchedulerSerializer(ChangedSchedulerSerializer):
    name = serializers.SlugField(max_length=of_schedulers.NAME)
    policy = serializers.SlugField(max_length=bounds.POLICY_SLUG)
    paused = None  # type: ignore[assignment]  # not for a new scheduler
    reset_values = None  # type: ignore[assignment]


class LineOutcomeSerializer(serializers.Serializer[Any]):
    line = serializers.IntegerField(min_value=0, max_value=bounds.WHOLE4)
    code = serializers.ChoiceField(("done", "already", "missing", "changed_meanwhile", *ERRORS))
    detail = serializers.CharField(max_length=of_schedulers.LINE_DETAIL, allow_blank=True)


class OrderOutcomesSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField(min_value=0, max_value=bounds.ROW)
    outcomes = BoundedListField(child=LineOutcomeSerializer(), max_length=MOST_ORDER_LINES)


class RestoredShareSerializer(serializers.Serializer[Any]):
    """A share that a reset restored, or left alone because it was changed since."""

    group = serializers.CharField(max_length=bounds.ENTRY)
    user = serializers.CharField(max_length=bounds.USER, allow_blank=True)
    before = serializers.CharField(max_length=of_schedulers.SHARE_TEXT, allow_blank=True)
    after = serializers.CharField(max_length=of_schedulers.SHARE_TEXT)
    code = serializers.ChoiceField(("done", "already", "missing", "changed_meanwhile"))
    detail = serializers.CharField(max_length=of_schedulers.LINE_DETAIL, allow_blank=True)


class ReportedLimitSerializer(serializers.Serializer[Any]):
    """An account in an agent's report. now, before, ours: settings by name, as the scheduler prints them."""

    account = serializers.CharField(max_length=of_schedulers.ACCOUNT)
    code = serializers.ChoiceField(LIMIT_CODES)
    detail = serializers.CharField(max_length=of_schedulers.LINE_DETAIL, allow_blank=True)
    now = BoundedDictField(child=serializers.CharField(max_length=of_schedulers.DETAIL, allow_blank=True))
    before = BoundedDictField(child=serializers.CharField(max_length=of_schedulers.DETAIL, allow_blank=True))
    ours = BoundedDictField(child=serializers.CharField(max_length=of_schedulers.DETAIL, allow_blank=True))
    set_at = InstantField(allow_null=True)


class ReportedLimitsSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField(max_length=of_schedulers.CLUSTER, allow_blank=True)
    accounts = BoundedListField(child=ReportedLimitSerializer(), max_length=of_schedulers.REPORTED_LIMITS)
    lapses_at = InstantField(allow_null=True, help_text="When the agent restores all limits without newer orders")
    ended_at = InstantField(allow_null=True, help_text="When limits were ended on the host; null: they weren't")
    ended_by = serializers.CharField(max_length=of_schedulers.ENDED_BY, allow_blank=True)


class RestoredLimitSerializer(serializers.Serializer[Any]):
    """A limit that the agent removed or left alone, and why."""

    account = serializers.CharField(max_length=of_schedulers.ACCOUNT)
    cause = serializers.ChoiceField(RESTORE_CAUSES)
    code = serializers.ChoiceField(("done", "already", "missing", "changed_meanwhile"))
    detail = serializers.CharField(max_length=of_schedulers.LINE_DETAIL, allow_blank=True)
    at = InstantField()


class ReportSerializer(serializers.Serializer[Any]):
    agent = serializers.CharField(max_length=of_schedulers.AGENT)
    host = serializers.CharField(max_length=of_schedulers.HOST)
    orders_revision = serializers.IntegerField(min_value=0, max_value=bounds.WHOLE4)
    started_at = InstantField()
    ended_at = InstantField()
    mode = serializers.ChoiceField(Scheduler.Mode.choices)
    snapshot = serializers.IntegerField(required=False, allow_null=True, min_value=0, max_value=bounds.ROW)
    snapshot_age_s = serializers.FloatField(required=False, allow_null=True, min_value=0, max_value=of_schedulers.AGE_S)
    scheduler_version = serializers.CharField(
        required=False, allow_null=True, allow_blank=True, max_length=of_schedulers.VERSION
    )
    jobs = JobCountsSerializer()
    frozen = FrozenSerializer(required=False, allow_null=True)
    errors = BoundedListField(  # type: ignore[assignment]
        child=PassErrorSerializer(), required=False, max_length=of_schedulers.REPORTED_KINDS
    )
    unmapped = BoundedListField(child=UnmappedNameSerializer(), required=False, max_length=of_schedulers.REPORTED_KINDS)
    checks = BoundedListField(
        child=SchedulerCheckSerializer(), required=False, allow_null=True, max_length=of_schedulers.CHECKS
    )
    queue = QueueField(required=False, allow_null=True)
    queue_state = QueueStateField(required=False, allow_null=True)
    values = OwnValuesField(required=False, allow_null=True)
    shares = SharesField(required=False, allow_null=True)
    share_order = OrderOutcomesSerializer(required=False, allow_null=True)
    restored_shares = BoundedListField(
        child=RestoredShareSerializer(), required=False, max_length=of_schedulers.RESTORED_SHARES
    )
    account_limits = ReportedLimitsSerializer(required=False, allow_null=True)
    restored_limits = BoundedListField(
        child=RestoredLimitSerializer(), required=False, max_length=of_schedulers.RESTORED_LIMITS
    )

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {"pass": serializers.UUIDField(), **super().get_fields()}


class ReportedSerializer(serializers.Serializer[Any]):
    orders_revision = serializers.IntegerField(help_text="If it is higher than the agent's, fetch the orders again")


@extend_schema_field(TERMS_SCHEMA | {"nullable": True})
class TermsField(serializers.DictField):
    """Terms of a job's priority by name."""


QueuedJobSerializer = record_serializer(QueuedJob, renamed={"submit": "submit_at"}, terms=TermsField(allow_null=True))
QueuedJobStartSerializer = record_serializer(
    QueuedJobStart, renamed={"submit": "submit_at"}, terms=TermsField(allow_null=True)
)


class QueueFilterSerializer(serializers.Serializer[Any]):
    user = serializers.CharField(required=False, max_length=bounds.USER)
    partition = serializers.CharField(required=False, max_length=of_schedulers.PARTITION_LIST)
    limit = serializers.IntegerField(required=False, min_value=1, max_value=of_schedulers.WAITING_ROWS, default=100)
    cursor = serializers.CharField(required=False, max_length=bounds.CURSOR)


class QueueSerializer(serializers.Serializer[Any]):
    taken_at = UtcTimeField(allow_null=True, help_text="Time of the queue listing; null: none yet")
    jobs = serializers.IntegerField(help_text="Number of jobs that the caller may see")
    results = QueuedJobStartSerializer(many=True)
    next = serializers.CharField(allow_null=True)


class PassFilterSerializer(serializers.Serializer[Any]):
    limit = serializers.IntegerField(required=False, min_value=1, max_value=of_schedulers.PASS_ROWS, default=50)
    cursor = serializers.CharField(required=False, max_length=bounds.CURSOR)


class WhyFilterSerializer(serializers.Serializer[Any]):
    job = serializers.CharField(max_length=bounds.JOB_AND_TASK, help_text="Job number")


class PolicyWhyFilterSerializer(WhyFilterSerializer):
    scheduler = serializers.CharField(
        required=False,
        max_length=of_schedulers.NAME,
        help_text="Name of the scheduler, if several have a job of this number",
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
        "lines_to_restore": record_serializer(LineToRestore)(lines_to_restore(view.scheduler), many=True).data,
        "etag": f'"{tag}"',
    }
