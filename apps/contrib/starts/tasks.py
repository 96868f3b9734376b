"""Scheduled tasks of promises of starts; safe to run twice."""

from __future__ import annotations

from celery import shared_task

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts.day_sums import sum_days
from apps.contrib.starts.learned_trees import learn_trees
from apps.contrib.starts.retention import prune_promises as prune
from apps.contrib.starts.source_waits import learn_source_waits as learn
from apps.core import clock


@shared_task(name="apps.contrib.starts.tasks.sum_promises")
def sum_promises() -> int:
    """Sum days of which a promise was settled; returns their number."""
    at = clock.now()
    return sum(sum_days(scheduler, at=at) for scheduler in Scheduler.objects.order_by("pk"))


@shared_task(name="apps.contrib.starts.tasks.prune_promises")
def prune_promises() -> int:
    """Delete expired promises; returns their number."""
    return prune(at=clock.now())


@shared_task(name="apps.contrib.starts.tasks.learn_source_waits")
def learn_source_waits() -> int:
    """Learn the waits that records of each source show; returns the number of sources."""
    return learn(at=clock.now())


@shared_task(name="apps.contrib.starts.tasks.learn_start_trees")
def learn_start_trees() -> int:
    """Train the trees of each scheduler; returns the number of those that have some."""
    return sum(learn_trees(scheduler) for scheduler in Scheduler.objects.order_by("pk"))
