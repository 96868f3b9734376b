"""Publishing nudges: priorities follow at once instead of at the next tick."""

from __future__ import annotations

from typing import Any

from apps.policies.models import Policy, Revision
from apps.priorities.recompute import nudge


def nudge_after_publish(sender: object, *, policy: Policy, revision: Revision, **_more: Any) -> None:
    nudge(policy, at=revision.published_at)
