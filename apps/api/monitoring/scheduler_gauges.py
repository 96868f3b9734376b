"""What Prometheus reads of schedulers' agents."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from apps.api.monitoring.gauges import gauge
from apps.core import clock
from apps.policies.models import Policy
from apps.schedulers.models import Scheduler
from apps.schedulers.selectors import views_of

_JOBS = ("pending", "unmapped", "sent", "failed")


def scheduler_families() -> Iterator[Metric]:
    """Of the last pass of each scheduler; one without a pass has no age and no jobs."""
    age = gauge("fairshare_agent_last_pass_seconds", "Since an agent last reported a pass", "scheduler")
    jobs = gauge("fairshare_agent_jobs", "Jobs of an agent's last pass, by what became of them", "scheduler", "outcome")
    frozen = gauge("fairshare_agent_frozen", "1 while an agent sends nothing because a limit is passed", "scheduler")
    silent = gauge("fairshare_agent_silent", "1 while an agent is overdue by three intervals", "scheduler")
    found = Scheduler.objects.filter(policy__in=Policy.objects.all()).select_related("policy")
    for view in views_of(found, clock.now()):
        label = [view.scheduler.name]
        silent.add_metric(label, float(view.is_silent))
        if view.last is None or view.age_s is None:
            continue
        age.add_metric(label, view.age_s)
        frozen.add_metric(label, float(bool(view.last.frozen_code)))
        for outcome in _JOBS:
            jobs.add_metric([*label, outcome], getattr(view.last, outcome))
    yield from (age, jobs, frozen, silent)
