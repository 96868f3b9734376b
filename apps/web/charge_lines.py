"""Charged jobs as lines of a list."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from django.utils.translation import gettext as _

from apps.policies.settings import PolicySettings
from apps.priorities.charges import ChargedJob, ChargesPage
from apps.priorities.sentences import unit_of_metric
from apps.web.shell import presentation


@dataclass(frozen=True, slots=True)
class ChargeLine:
    """One job of the list."""

    job: ChargedJob
    url: str
    number: str
    who: str
    when: datetime | None
    state: str
    charged: str
    now: str


def line_of(policy_slug: str, job: ChargedJob) -> ChargeLine:
    record = job.record
    return ChargeLine(
        job=job,
        url=reverse("dashboard:charge", kwargs={"policy": policy_slug, "record": record.pk}),
        number=number_of(job),
        who=who_of(job),
        when=record.start_at or record.submit_at,
        state=state_text(job),
        charged=hours(job.charge.charged),
        now=hours(job.counted_global if job.counted_local is None else job.counted_local),
    )


def lines_of(page: ChargesPage) -> list[ChargeLine]:
    return [line_of(page.policy.slug, job) for job in page.jobs]


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
