"""When waiting jobs of a scheduler start, from the plug-in that promises it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from apps.contrib.schedulers.models import Scheduler
from apps.core.plugins import plugins
from apps.explain.job_starts import JobStart


def load_starts(scheduler: Scheduler, jobs: Sequence[str], *, at: datetime) -> Mapping[str, JobStart]:
    """By number, of the jobs that have an answer; empty without a plug-in that makes promises.

    The waiting tasks of an array are one job. The caller has checked that the reader may see these jobs.
    """
    starts: dict[str, JobStart] = {}
    if jobs:
        for plugin in plugins():
            starts |= plugin.start_answers(scheduler, jobs, at=at)
    return starts
