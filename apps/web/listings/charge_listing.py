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
from apps.priorities.sentences import numbers, unit_of_metric
from apps.web.listings.listing import Column, Listing, answer_serializer
from apps.web.rest.records import record_serializer
from apps.web.shell import presentation
from apps.web.templatetags.marks import when

ChargedResourceSerializer = record_serializer(
    ResourceLine,
    component="ChargedResource",
    doc="rate × run_s = amount_s, and amount_s × weight = weighted.",
    texts={
        "rate": "Amount of the resource per second",
        "amount_s": "Seconds of the resource up to now, or to the end of the job",
        "weight": "Weight in the policy's metric",
    },
)

ChargedHourSerializer = record_serializer(
    HourLine,
    component="ChargedHour",
    only="at charged age_s weight usage why",
    texts={
        "at": "Start of the hour",
        "charged": "Resources × weights × factors",
        "age_s": "Seconds since the end of the hour",
        "weight": "Weight by age: decay function and window",
        "usage": "charged × weight; 0 if the hour is held",
        "why": "after: begins after the instant. old: outside the window. held: another source reported the job too",
    },
)
_RULES = "Class factors that match the job; they are multiplied"
_APPROACH = "null: a job of another site"


def hours(seconds: float) -> str:
    """A sum of the metric in hours, small ones with decimals, so that sums can be checked."""
    value = seconds / 3600
    if 0 < value < 0.005:
        return presentation.hours(seconds)
    return numbers.number(value, 2 if value < 100 else 0) if value else "0"


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
    return job.usage_global if job.usage_local is None else job.usage_local


class ChargedRuleSerializer(serializers.Serializer[Any]):
    queue = serializers.CharField()
    partition = serializers.CharField()
    qos = serializers.CharField()
    factor = serializers.FloatField()


CHARGES = Listing(
    cells="web/_charge_cells.html",
    columns=(
        Column("job", str, "record.job", on="answer csv table card", title=gettext_lazy("Job"), show=number_of),
        Column("user", str, "account.user_name", on="answer csv table", title=gettext_lazy("User"), show=who_of),
        Column(
            "start",
            datetime | None,
            "record.start_at",
            on="answer csv table card",
            title=gettext_lazy("Started"),
            show=lambda job: when(job.record.start_at or job.record.submit_at),
        ),
        Column("state", str, "record.state", on="answer csv table card", title=gettext_lazy("State"), show=state_text),
        Column("source", str, "source.slug", on="answer csv"),
        Column("cluster", str, "record.cluster", on="answer csv"),
        Column("array_task", str, "record.array_task", on="answer csv"),
        Column("restart", int, "record.restart"),
        Column("dn", str, "account.dn", on="answer csv"),
        Column("group", str, "account.group_name", on="answer csv"),
        Column("path", str | None, "path", "Path of the entry; null: the account is unmapped", on="answer csv"),
        Column("note", str, "record.note", "vanished: closed because a queue listing no longer had the job"),
        Column("is_charge", bool, "record.is_charge", "A charge without a job"),
        Column("site", str, "record.site", on="answer csv"),
        Column("end", datetime | None, "record.end_at", on="answer csv"),
        Column("run_s", float, "charge.run_s", on="answer csv"),
        Column("requested_left_s", float, "charge.requested_left_s", "Rest of a running job's time limit, at least 0"),
        Column("resources", ChargedResourceSerializer(source="charge.resources", many=True)),
        Column("class_rules", ChargedRuleSerializer(source="charge.class_rules", many=True, help_text=_RULES)),
        Column("class_factor", float, "charge.class_factor", on="answer csv"),
        Column("site_factor", float, "charge.site_factor", on="answer csv"),
        Column(
            "charged",
            float,
            "charge.charged",
            "Σ weighted × class factor × site factor",
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
            "usage_local",
            float | None,
            text="Local usage; null: a job of another site",
            on="answer csv table card",
            title=gettext_lazy("Usage"),
            show=lambda job: hours(usage_of(job)),
        ),
        Column("usage_global", float, text="Global usage", on="answer csv"),
    ),
    orders={
        "answer": "source cluster job array_task restart user dn group path state note is_charge site start end",
        "csv": "source cluster job array_task user dn group path state site start end",
    },
)

ChargeSerializer = answer_serializer(CHARGES, "Charge")
