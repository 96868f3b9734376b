"""The record of the sample's promises, which its agent's reports make and settle."""

from __future__ import annotations

from apps.cli.sample.site import SampleSite
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts.day_sums import sum_days


def sum_record(site: SampleSite) -> None:
    """Sum the days of all promises, as the scheduled task does each hour."""
    for scheduler in Scheduler.objects.order_by("pk"):
        sum_days(scheduler, at=site.at)
