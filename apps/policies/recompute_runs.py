"""Runs that bring a policy's priorities up to date: asked for here, worked by `priorities`, which knows how."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q

from apps.accounts.actor import Actor
from apps.policies.models import Policy
from apps.runs.models import Run
from apps.runs.services import enqueue_run

KIND = "recompute"
ATTEMPTS = 3


def nudge(policy: Policy, *, at: datetime, owner: Actor | None = None) -> Run:
    """A run that brings the policy up to date; joins one that waits already."""
    user = owner.user if owner else None
    run = enqueue_run(kind=KIND, subject=subject_of(policy), owner=user, at=at, max_attempts=ATTEMPTS)
    if user is not None and run.owner is None:  # the caller may follow a run that the schedule requested before
        run.owner = user
        run.save(update_fields=["owner"])
    return run


def subject_of(policy: Policy) -> str:
    return f"policy:{policy.slug}"


def newest_ended(policy: Policy) -> Run | None:
    """The newest run of the present that came to an end by itself. One that failed while a newer one waited for the
    same was cancelled with its error."""
    ended = Run.objects.filter(kind=KIND, subject=subject_of(policy), arguments={}).order_by("-pk")
    by_itself = Q(state__in=(Run.State.SUCCEEDED, Run.State.FAILED))
    return ended.filter(by_itself | (Q(state=Run.State.CANCELLED) & ~Q(error_code=""))).first()


def failed_recompute(policy: Policy) -> Run | None:
    """The newest recompute, if it failed, so that older priorities stay. Readiness, metrics and notices ask this."""
    run = newest_ended(policy)
    return run if run is not None and run.state != Run.State.SUCCEEDED else None
