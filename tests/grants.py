"""A grant of a role as if it had been assigned, without the rules of assigning."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from apps.accounts.models import User
from apps.policies.access.authority import VERBS_OF_ROLE
from apps.policies.models import Grant, Policy
from tests.instants import AT


def make_grant(
    user: User | None,
    entry_uid: UUID | str,
    role: str = "manager",
    *,
    policy: Policy | None = None,
    verbs: Sequence[str] | None = None,
    at: datetime = AT,
    **more: Any,
) -> Grant:
    """policy: by default the only one; verbs: by default those of the role."""
    return Grant.objects.create(
        policy=policy or Policy.objects.get(),
        entry_uid=entry_uid,
        user=user,
        role=role,
        verbs=list(VERBS_OF_ROLE[role] if verbs is None else verbs),
        created_at=at,
        **more,
    )
