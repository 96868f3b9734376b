"""Which entries a token reads: the reach of its scopes, limited by what its owner may read now.

Every format of every route uses one function (`priorities.sight.readable_now`). Look-ups don't query the database, so
its result is cached while the verification of the token is valid: a withdrawn right is gone within the seconds in which
a revoked token is. While the database is away the last result stays valid, as the token does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from cachetools import FIFOCache
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from apps.accounts.actor import Actor, TokenBounds
from apps.accounts.db_probe import Clerk
from apps.accounts.models import User
from apps.policies.models import Policy
from apps.policies.tree.columns import Mask
from apps.priorities.serving import store
from apps.priorities.serving.lookup_index import ServedSnapshot
from apps.priorities.visibility.visible_entries import readable_now

_MOST = 1_000
_Key = tuple[str, str, str]  # the token's prefix, the policy, the digest of its tree


class _Known(NamedTuple):
    user: User  # the very object of one verification
    mask: Mask | None


class TokenVisibility:
    """What tokens may read of the policies that are served; None: all of it."""

    def __init__(self) -> None:
        self._known: FIFOCache[_Key, _Known] = FIFOCache(_MOST)  # reading one needs no lock
        self._lock = threading.Lock()
        self._clerk = Clerk()

    def mask(self, user: User, bounds: TokenBounds, snapshot: ServedSnapshot, at: datetime) -> Mask | None:
        """
        Raises:
            OperationalError: the database is away, and this token hasn't been asked with for this tree.
        """
        row = store.state().policies[snapshot.policy_slug]
        if _reads_all(user, row.visibility):
            return None if bounds.subtree_uid is None else snapshot.subtree_mask(bounds.subtree_uid)
        key = _key(bounds, snapshot)
        known = self._known.get(key)
        if known is not None and known.user is user:
            return known.mask
        actor = Actor(user=user, via="api", token=bounds)
        policy = Policy(pk=row.id, slug=row.slug, visibility=row.visibility)  # as it is served, without the database
        try:
            mask = self._ask(lambda: readable_now(policy=policy, snapshot=snapshot, at=at, actor=actor))
        except (OperationalError, InterfaceError):
            if not connection.in_atomic_block:
                connection.close()
            if known is None:
                raise
            return known.mask
        with self._lock:
            self._known[key] = _Known(user, mask)
        return mask

    def is_known(self, user: User, bounds: TokenBounds, snapshot: ServedSnapshot) -> bool:
        """Whether `mask` answers without the database."""
        if _reads_all(user, store.state().policies[snapshot.policy_slug].visibility):
            return True
        known = self._known.get(_key(bounds, snapshot))
        return known is not None and known.user is user

    def _ask(self, question: Callable[[], Mask | None]) -> Mask | None:
        patience_s = settings.FAIRSHARE_TOKEN_PATIENCE_S
        return question() if patience_s <= 0 else self._clerk.ask(question, patience_s=patience_s)


def _key(bounds: TokenBounds, snapshot: ServedSnapshot) -> _Key:
    return bounds.prefix, snapshot.policy_slug, snapshot.tree.digest


def _reads_all(user: User, visibility: str) -> bool:
    """Within the subtree of the token, if it has one."""
    return user.is_superuser or visibility == Policy.Visibility.TREE


visibility = TokenVisibility()
