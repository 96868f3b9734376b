"""When a job that a user submits now under an account would start."""

from __future__ import annotations

import math
from datetime import datetime

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.schedulers.my_jobs import list_new_jobs
from apps.contrib.starts.answer import HeldRecord, StartAnswer, StartNote
from apps.contrib.starts.answers import DAYS_OF_RECORD, start_answer_for_new
from apps.contrib.starts.prediction.promises import WaitingJob
from apps.contrib.starts.sentences import start_of_new
from apps.contrib.starts.source_waits import start_by_records
from apps.explain.job_starts import NewJobShape, NewJobStart
from apps.explain.my_priority import MyPriority
from apps.priorities.usage_factors import only_resource
from apps.web.shell import presentation

LONGEST_NEW_JOB_S = 7 * 86_400.0  # that is as narrow as the newest own job; larger ones take the usual time
USUAL_NEW_JOB_S = 86_400.0


def new_job_start(account: MyPriority, *, core_h: float, actor: Actor, at: datetime) -> NewJobStart | None:
    """What would be promised in the first scheduler that knows enough, else what the records of a source say, else why
    nothing is promised. None for a token of a subtree, which reads no job.

    core_h: size of the job in hours of the policy's metric.
    """
    if actor.user is None or actor.top_uid is not None:
        return None
    is_in_cores = only_resource(account.metric["weights"]) == "cpu_s"

    def size_of(cpus: float | None) -> tuple[float, float | None]:
        return shape_of(cpus, core_h) if is_in_cores else (cpus or 1.0, None)

    unlearned = None
    for job in list_new_jobs(account, actor=actor, at=at):
        cpus, limit_s = size_of(job.cpus)
        answer = start_answer_for_new(job.scheduler, WaitingJob(job.user, cpus, limit_s, job.partition), at=at)
        if answer is not None:
            words = _words(cpus, limit_s, partition=job.partition, scheduler=job.scheduler.name)
            shape = NewJobShape(job.scheduler.name, job.partition, cpus, limit_s, words)
            start = NewJobStart(shape, start_of_new(answer._replace(made_at=at), at))
            if start.start.is_promised:
                return start
            unlearned = unlearned or start
    cpus, limit_s = size_of(None)
    by_records = start_by_records(account.namespace, WaitingJob(account.account, cpus, limit_s), at)
    if by_records is not None and (by_records.before is not None or unlearned is None):
        words = _words(cpus, limit_s, source=by_records.source)
        return NewJobStart(NewJobShape("", "", cpus, limit_s, words, by_records.source), start_of_new(by_records, at))
    if unlearned is not None:
        return unlearned
    nothing = StartAnswer(None, None, at, True, "", None, HeldRecord(None, 0, DAYS_OF_RECORD, None), StartNote.UNKNOWN)
    return NewJobStart(NewJobShape("", "", cpus, limit_s, _words(cpus, limit_s)), start_of_new(nothing, at))


def shape_of(cpus: float | None, core_h: float) -> tuple[float, float | None]:
    """Cores and time limit of a job of some core-hours: with as many cores as the newest own one (cpus), unless it then
    takes more than a week; else so many that it takes a day. The limit is None for a job of no core-hours.
    """
    core_s = core_h * 3_600
    if cpus is None or core_s / cpus > LONGEST_NEW_JOB_S:
        cpus = float(max(math.ceil(core_s / USUAL_NEW_JOB_S), 1))
    return cpus, core_s / cpus or None


def _words(cpus: float, limit_s: float | None, *, partition: str = "", scheduler: str = "", source: str = "") -> str:
    words = {
        "cores": presentation.cores_text(cpus),
        "limit": "" if limit_s is None else presentation.age(limit_s),
        "partition": partition,
        "scheduler": scheduler or source,
    }
    if not words["scheduler"]:
        return (_("A new job of %(cores)s:") if limit_s is None else _("A new job of %(cores)s for %(limit)s:")) % words
    if not partition and limit_s is None:
        return _("A new job of %(cores)s in %(scheduler)s:") % words
    if not partition:
        return _("A new job of %(cores)s for %(limit)s in %(scheduler)s:") % words
    if limit_s is None:
        return _("A new job of %(cores)s in %(partition)s of %(scheduler)s:") % words
    return _("A new job of %(cores)s for %(limit)s in %(partition)s of %(scheduler)s:") % words
