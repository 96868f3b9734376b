"""What publishing and signing in bring about at once."""

from __future__ import annotations

from typing import Any

from apps.accounts.models import User
from apps.core import clock
from apps.mapping.claims import take_own_accounts
from apps.policies.models import Policy, Revision
from apps.policies.recompute_runs import nudge


def nudge_after_publish(sender: object, *, policy: Policy, revision: Revision, **_more: Any) -> None:
    """Priorities follow now instead of at the next tick."""
    nudge(policy, at=revision.published_at)


def own_accounts_after_sign_in(sender: object, *, user: User, **_more: Any) -> None:
    """Whose names are those of people, their accounts are theirs."""
    take_own_accounts(user=user, at=clock.now())
