"""The list of charged jobs: its columns on pages, in the file and in REST, and how a job is written."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from rest_framework import serializers

from apps.policies.settings import APPROACHES, PolicySettings
from apps.priorities.charges import ChargedJob
from apps.priorities.job_charge import HourLine, ResourceLine
from apps.priorities.sentences import unit_of_metric
from apps.web.listing import Column, Listing, answer_serializer
from apps.web.rest.records import record_serializer
from apps.web.shell import presentation
from apps.web.templatetags.marks import when


def hours(seconds: float) -> str:
    """A sum of the metric in hours, small ones with decimals, so that sums can be checked."""
    value = seconds / 3600
    if 0 < value < 0.005:
        return presentation.core_hours(seconds)
    return presentation.number(value, 2 if value < 100 else 0) if value else "0"


def unit_of(settings: PolicySettings) -> str:
    """Unit of a sum of the policy's metric, such as core-hours."""
    return unit_of_metric(settings.metric["weights"])


def number_of(job: ChargedJob) -> str:
    task = job.record.array_task
    return f"{job.record.job}[{task}]" if task else job.record.job


def who_of(job: ChargedJob) -> str:
    return job.account.user_name or job.account.dn or job.account.group_name


def state_text(job: ChargedJob) -> str:
    if job.record.is_charge:
        return _("a charge without a job")
    if job.record.note == "vanished":
        return _("vanished from the listing")
    labels = {"pending": _("waiting"), "running": _("running"), "finished": _("Finished"), "withdrawn": _("cancelled")}
    return labels.get(job.record.state, job.record.state)


def usage_of(job: ChargedJob) -> float:
    """Its part of the usage that its entry is compared by: of a job of another site, the global one."""
    return job.counted_global if job.counted_local is None else job.counted_local


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
    only="at charged age_s weight counted why",
    texts={
        "at": "Start of the hour",
        "charged": "Resources × weights × factors",
        "age_s": "Seconds since the end of the hour",
        "weight": "Weight by age: decay function and window",
        "counted": "charged × weight; 0 if the hour is held",
        "why": "after: begins after the instant. old: outside the window. held: another source reported the job too",
    },
)

_RULES = "Class factors that match the job; they are multiplied"
_APPROACH = "null: a job of another site"

CHARGES = Listing(
    cells="web/_charge_cells.html",
    columns=(
        Column("number", str, number_of, on="card", title=gettext_lazy("Job")),
        Column("job", str, number_of, on="table", title=gettext_lazy("Job")),
        Column("who", str, who_of, on="table", title=gettext_lazy("User")),
        Column(
            "started",
            str,
            lambda job: when(job.record.start_at or job.record.submit_at),
            on="table card",
            title=gettext_lazy("Started"),
        ),
        Column("state", str, state_text, on="table card", title=gettext_lazy("State")),
        Column("source", str, "source.slug", on="answer csv"),
        Column("cluster", str, "record.cluster", on="answer csv"),
        Column("job", str, "record.job", on="answer csv"),
        Column("array_task", str, "record.array_task", on="answer csv"),
        Column("restart", int, "record.restart"),
        Column("user", str, "account.user_name"),
        Column("user", str, lambda job: job.account.user_name or job.account.dn, on="csv"),
        Column("group", str, "account.group_name", on="answer csv"),
        Column("path", str | None, "entry_path", "Path of the entry; null: the account is unmapped"),
        Column("entry", str, "path", on="csv"),
        Column("state", str, "record.state", on="answer csv"),
        Column("note", str, "record.note", "vanished: closed because a queue listing no longer had the job"),
        Column("is_charge", bool, "record.is_charge", "A charge without a job"),
        Column("site", str, "record.site", on="answer csv"),
        Column("start", datetime | None, "record.start_at"),
        Column("start_at", datetime, "record.start_at", on="csv"),
        Column("end", datetime | None, "record.end_at"),
        Column("end_at", datetime, "record.end_at", on="csv"),
        Column("run_s", float, "charge.run_s", on="answer csv"),
        Column("requested_left_s", float, "charge.requested_left_s", "Rest of a running job's time limit, at least 0"),
        Column("resources", ChargedResourceSerializer(source="charge.lines", many=True)),
        Column("class_rules", ChargedRuleSerializer(source="charge.class_rules", many=True, help_text=_RULES)),
        Column("class_factor", float, "charge.class_factor", on="answer csv"),
        Column("site_factor", float, "charge.site_factor", on="answer csv"),
        Column(
            "charged",
            float,
            "charge.charged",
            "Σ weighed × class factor × site factor",
            on="answer csv table card",
            title=gettext_lazy("Charged"),
            write=hours,
        ),
        Column("hours", ChargedHourSerializer(source="charge.hours", many=True)),
        Column("historical", float, "charge.historical", "Usage if only finished jobs count", on="answer csv"),
        Column(
            "active",
            float,
            "charge.active",
            "Usage if running jobs count, too, by what they have used so far",
            on="answer csv",
        ),
        Column(
            "predictive",
            float,
            "charge.predictive",
            "Usage if running jobs count, too, by what they may use in total",
            on="answer csv",
        ),
        Column("approach_local", serializers.ChoiceField(APPROACHES, allow_null=True, help_text=_APPROACH)),
        Column("approach_global", serializers.ChoiceField(APPROACHES)),
        Column(
            "counts_local",
            float | None,
            "counted_local",
            "Local usage; null: a job of another site",
            on="answer csv",
        ),
        Column("counts_global", float, "counted_global", "Global usage", on="answer csv"),
        Column("usage", float, usage_of, on="table card", title=gettext_lazy("Usage"), write=hours),
    ),
)

ChargeSerializer = answer_serializer(CHARGES, "Charge")
