"""Signal receivers of the mapping."""

from __future__ import annotations

from typing import Any

from apps.accounts.models import User
from apps.core import clock
from apps.mapping.claims import assign_own_accounts


def own_accounts_after_sign_in(sender: object, *, user: User, **_more: Any) -> None:
    """Assign accounts with the user's name, from sources whose account names are login names."""
    assign_own_accounts(user=user, at=clock.now())
