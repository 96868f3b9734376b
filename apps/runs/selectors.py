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


def list_runs(
    *, kind: str | None = None, subject: str | None = None, actor: Actor, before_id: int | None = None, limit: int = 50
) -> list[Run]:
    """Visible runs, newest first."""
    runs = Run.objects.select_related("owner").order_by("-id")
    if not actor.is_admin:
        runs = runs.filter(owner=actor.user)
    if kind is not None:
        runs = runs.filter(kind=kind)
    if subject is not None:
        runs = runs.filter(subject=subject)
    if before_id is not None:
        runs = runs.filter(id__lt=before_id)
    return list(runs[: min(limit, 200)])
