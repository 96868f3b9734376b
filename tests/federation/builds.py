"""What the schedule builds of this site's publications and feeds, before others read it."""

from __future__ import annotations

from datetime import datetime

from apps.federation.document_builds import KIND, request_due_builds
from apps.runs.models import Run
from apps.runs.services import work_run_now
from tests.instants import AT


def build_due(at: datetime = AT) -> list[str]:
    """Build what is due by the worker's own path; the subjects of the runs."""
    request_due_builds(at=at)
    runs = Run.objects.filter(kind=KIND, state=Run.State.QUEUED).order_by("pk")
    worked = [work_run_now(run.pk) for run in runs]
    assert [run.error for run in worked if run.state != Run.State.SUCCEEDED] == []
    return [run.subject for run in worked]
