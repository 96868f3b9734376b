"""A few operations published by one person in one step: a change set like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from apps.accounts.actor import Actor
from apps.policies.changesets.change_sets import require_reason
from apps.policies.models import Revision
from apps.policies.publishing.revisions import lock_policy
from apps.policies.selectors import get_policy
from apps.policies.services import make_change_set, publish_change_set


def publish_operations(
    *, policy_slug: str, operations: Sequence[Mapping[str, Any]], reason: str, at: datetime, actor: Actor
) -> Revision:
    """Make and publish on the head as it is now; a refusal leaves neither change set nor revision."""
    said = require_reason(reason)
    policy = get_policy(slug=policy_slug, actor=actor, scope="policies:write")
    with transaction.atomic():
        head = lock_policy(policy.pk).head_number
        made = make_change_set(
            policy_slug=policy_slug, base_revision=head, operations=list(operations), reason=said, at=at, actor=actor
        )
        return publish_change_set(id=made.pk, version=made.version, at=at, actor=actor)
