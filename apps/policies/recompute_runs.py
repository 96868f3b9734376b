"""Runs that bring a policy's priorities up to date: asked for here, worked by `priorities`, which knows how."""

from __future__ import annotations

from datetime import datetime

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
    """The newest run of the present that came to an end by itself."""
    ended = Run.objects.filter(kind=KIND, subject=subject_of(policy), arguments={}).order_by("-pk")
    return ended.filter(state__in=(Run.State.SUCCEEDED, Run.State.FAILED)).first()
