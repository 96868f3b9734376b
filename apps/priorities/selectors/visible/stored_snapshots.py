"""The snapshots that are still kept, without their bytes."""

from __future__ import annotations

from datetime import datetime

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.policies.selectors import get_policy
from apps.priorities.models import Snapshot


def list_snapshots(*, policy_slug: str, actor: Actor, before_id: int | None = None, limit: int = 50) -> list[Snapshot]:
    """Newest first."""
    scope = Token.Scope.PRIORITIES_READ if actor.has_scope(Token.Scope.PRIORITIES_READ) else Token.Scope.POLICIES_READ
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    found = Snapshot.objects.filter(policy=policy).defer("data").order_by("-pk")
    if before_id is not None:
        found = found.filter(pk__lt=before_id)
    return list(found[: min(limit, 500)])


def oldest_kept(policy_slug: str) -> datetime | None:
    """As of when the oldest numbers are that a look back can show; no secret to who signs in."""
    kept = Snapshot.objects.filter(policy__slug=policy_slug).order_by("as_of")
    return kept.values_list("as_of", flat=True).first()
