"""Shadow mode as its readers see it: agreement over time, and where the scheduler's numbers differ from ours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from apps.accounts.actor import Actor
from apps.core.errors import NotFound, Unavailable
from apps.priorities.serving import store
from apps.schedulers.agreement import entries_of
from apps.schedulers.models import Agreement, Scheduler, SchedulerValues
from apps.schedulers.own_values import load_values
from apps.schedulers.queue_table import load_queue
from apps.schedulers.selectors import get_scheduler
from apps.schedulers.shadow.differences import Comparison, Ours, compare
from apps.schedulers.shadow.records import AgreementDays, AgreementPoint

MOST_POINTS = 2_000


@dataclass(frozen=True)
class Shadow:
    """comparison: None before the agent listed values, and while nothing is computed."""

    scheduler: Scheduler
    taken_at: datetime | None
    comparison: Comparison | None


def get_shadow(*, name: str, at: datetime, actor: Actor) -> Shadow:
    """The last values of the scheduler beside our newest snapshot, for managers of the policy."""
    scheduler = get_scheduler(name=name, at=at, actor=actor).scheduler
    taken_at = SchedulerValues.objects.filter(scheduler=scheduler).values_list("taken_at", flat=True).first()
    if taken_at is None:
        return Shadow(scheduler, None, None)
    try:
        snapshot = store.newest(scheduler.policy.slug)
    except (NotFound, Unavailable):
        return Shadow(scheduler, taken_at, None)
    rows, values = load_values(scheduler.pk), snapshot.values
    ours = Ours(
        snapshot.tree.engine_tree(),
        {key: value for key, value in snapshot.algorithm.items() if key != "factor_from"},
        np.asarray(values.factor, np.float64),
        np.asarray(values.has_factor, np.bool_),
        np.asarray(values.usage, np.float64),
    )
    return Shadow(scheduler, taken_at, compare(rows, ours, entries_of(rows, snapshot, scheduler.namespace)))


def list_agreement(*, name: str, n_days: int, at: datetime, actor: Actor) -> AgreementDays:
    """Of the last so many days; of more than 2,000 instants every second, third … one, and the last."""
    scheduler = get_scheduler(name=name, at=at, actor=actor).scheduler
    found = Agreement.objects.filter(scheduler=scheduler, at__gt=at - timedelta(days=n_days)).order_by("at")
    rows = list(found.values_list("at", "compared", "kendall", "spearman", "top_overlap"))
    step = -(-len(rows) // MOST_POINTS) or 1
    points = [AgreementPoint(*row) for row in rows[::-1][::step][::-1]]
    return AgreementDays(scheduler.name, scheduler.policy.slug, points)


def list_partitions(scheduler: Scheduler) -> list[str]:
    """Those of the waiting jobs that the agent listed last, and those of the settings; by name."""
    table = load_queue(scheduler.pk)
    listed = {one for names in (table.partition if table else ()) for one in names.split(",") if one}
    return sorted(listed | set(scheduler.partitions or ()))
