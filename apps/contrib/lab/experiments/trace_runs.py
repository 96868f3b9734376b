"""The run that reads an uploaded log: it stores the jobs or the refusal, in one transaction with its end.

A run that is killed leaves the log waiting, with the bytes as they were sent, and reads it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from apps.contrib.lab.experiments.traces import lock_traces, read_log, summary_of
from apps.contrib.lab.models import UploadedTrace
from apps.core.errors import Conflict, DomainError
from apps.runs.fault_points import fault_point
from apps.runs.leases import Lease, RunCancelled
from apps.runs.models import Run

_REPORT_S = 0.5  # between reports, each of which also notices a cancellation


def run_reading(run: Run, lease: Lease) -> dict[str, Any]:
    """Read the log of this run."""
    trace = _waiting(run).select_related("policy").first()
    if trace is None:
        raise _gone(run)
    lease.report()
    try:
        jobs, left_out = read_log(bytes(trace.data), digest=trace.text_digest, done=_between_parts(lease))
    except DomainError as refusal:
        changes = _refused(refusal)
    else:
        data, digest = jobs.pack()
        summary = summary_of(jobs, left_out)
        changes = {"state": UploadedTrace.State.READ, "data": data, "digest": digest, "summary": summary}
    with lease.fenced():
        lock_traces(trace.policy)
        if "digest" in changes and (same := _log_with(trace, changes["digest"])) is not None:
            place = {"id": same.pk, "name": same.name}
            message = _("Log %(id)s, %(name)s, has the same jobs: use that one.") % place
            changes = _refused(Conflict(message, code="known_log"))
        if not _waiting(run).update(**changes):
            raise _gone(run)
        result = {"state": changes["state"]}
        fault_point("lab.before_log")
        lease.finish(result, lease.clock())
    fault_point("lab.after_log")
    return result


def _waiting(run: Run) -> QuerySet[UploadedTrace]:
    """The log of this run; none if it was removed, or another run reads it."""
    return UploadedTrace.objects.filter(pk=run.arguments["trace"], run=run, state=UploadedTrace.State.WAITING)


def _gone(run: Run) -> RunCancelled:
    return RunCancelled(f"The log of run {run.pk} is gone.")


def _log_with(other: UploadedTrace, digest: str) -> UploadedTrace | None:
    """The log of the same policy with these jobs."""
    return UploadedTrace.objects.filter(policy=other.policy_id, digest=digest).defer("data").first()


def _refused(refusal: DomainError) -> dict[str, Any]:
    """What a log that is refused keeps: the reason, and none of its bytes."""
    message = refusal.message
    if refusal.fields:
        message = _("The log %(problem)s.") % {"problem": refusal.fields[0].message}
    return {
        "state": UploadedTrace.State.REFUSED,
        "data": b"",
        "problem_code": refusal.code,
        "problem": message,
    }


def _between_parts(lease: Lease) -> Callable[[], None]:
    """Between two parts of a log: note progress, and end where the run was cancelled or the worker stops."""
    reported_s = time.monotonic()

    def done() -> None:
        nonlocal reported_s
        lease.stop_if_requested()
        if time.monotonic() - reported_s >= _REPORT_S:
            lease.report()
            reported_s = time.monotonic()

    return done
