"""Queries for runs, limited to the actor's own or all for administrators."""

from __future__ import annotations

from apps.accounts.actor import Actor
from apps.core.errors import NotFound
from apps.runs.models import Run
from apps.runs.services import may_see


def get_run(*, run_id: int, actor: Actor) -> Run:
    run = Run.objects.select_related("owner").filter(pk=run_id).first()
    if run is None or not may_see(run, actor):
        raise NotFound(f"There is no run {run_id}.")
    return run
