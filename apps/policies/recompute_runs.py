"""Queue runs that recompute a policy's priorities. `priorities` executes them; it is above this room."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q

from apps.accounts.actor import Actor
from apps.policies.models import Policy
from apps.runs.models import Run
from apps.runs.services import enqueue_run

KIND = "recompute"
ATTEMPTS = 3


def queue_recompute(policy: Policy, *, at: datetime, owner: Actor | None = None) -> Run:
    """Queue a recompute of the policy, or return the one that is already waiting."""
    user = owner.user if owner else None
    run = enqueue_run(kind=KIND, subject=subject_of(policy), owner=user, at=at, max_attempts=ATTEMPTS)
    # A waiting run may have been queued by the schedule; the caller becomes its owner, so that they can follow it.
    if user is not None and run.owner is None:
        run.owner = user
        run.save(update_fields=["owner"])
    return run


def subject_of(policy: Policy) -> str:
    return f"policy:{policy.slug}"


def newest_ended(policy: Policy) -> Run | None:
    """Return the newest recompute of the present that succeeded or failed.

    A run that failed while a newer one was waiting is marked as cancelled with an error code; it counts as failed.
    """
    ended = Run.objects.filter(kind=KIND, subject=subject_of(policy), arguments={}).order_by("-pk")
    by_itself = Q(state__in=(Run.State.SUCCEEDED, Run.State.FAILED))
    return ended.filter(by_itself | (Q(state=Run.State.CANCELLED) & ~Q(error_code=""))).first()


def failed_recompute(policy: Policy) -> Run | None:
    """Return the newest recompute if it failed, which means that older priorities are still served."""
    run = newest_ended(policy)
    return run if run is not None and run.state != Run.State.SUCCEEDED else None
