"""Receivers of `policy_published`."""

from __future__ import annotations

from typing import Any

from apps.policies.models import Policy, Revision
from apps.policies.recompute_runs import queue_recompute


def recompute_after_publish(sender: object, *, policy: Policy, revision: Revision, **_more: Any) -> None:
    """Start a recompute now instead of at the next tick."""
    queue_recompute(policy, at=revision.published_at)
