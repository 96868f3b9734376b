"""What a token may see of a snapshot, kept until its bounds or the snapshot change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from cachetools import FIFOCache
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from apps.accounts.actor import Actor, TokenBounds
from apps.accounts.models import User
from apps.accounts.token_cache import DatabaseProbe
from apps.core.cache_sizes import sized
from apps.policies.models import Policy
from apps.priorities.serving import store
from apps.priorities.serving.lookup import Readable
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visible_entries import readable_now

_MOST_CACHED = 1_000
_MOST_BYTES = 256 * 1024**2
_Key = tuple[str, str, str]  # prefix of the token, slug of the policy, digest of its tree


class _Cached(NamedTuple):
    user: User  # the object of one verification: another verification gives another object
    readable: Readable | None


def _n_bytes(cached: _Cached) -> int:
    readable = cached.readable
    if readable is None:
        return 0
    return readable.entries.nbytes + (0 if readable.names is None else readable.names.named.nbytes)


class TokenVisibility:
    """Cache of the entries that tokens may read in served policies."""

    def __init__(self) -> None:
        self._known: FIFOCache[_Key, _Cached] = FIFOCache(
            _MOST_BYTES, getsizeof=sized(_MOST_BYTES, _MOST_CACHED, _n_bytes)
        )  # reads need no lock
        self._lock = threading.Lock()
        self._probe = DatabaseProbe()

    def readable(self, user: User, bounds: TokenBounds, snapshot: ServedSnapshot, at: datetime) -> Readable | None:
        """What of the snapshot the token may read; None for all.

        Raises:
            OperationalError: the database is down, and nothing is cached for this token and tree.
        """
        row = store.state().policies[snapshot.policy_slug]
        actor = Actor(user=user, via="api", token=bounds)
        if _reads_all(actor, row.visibility):
            return None if actor.top_uid is None else Readable(snapshot.subtree_mask(actor.top_uid), None)
        key = _key(bounds, snapshot)
        known = self._known.get(key)
        if known is not None and known.user is user:
            return known.readable
        policy = Policy(pk=row.id, slug=row.slug, visibility=row.visibility)  # an unsaved object: no query
        try:
            readable = self._with_timeout(lambda: readable_now(policy=policy, snapshot=snapshot, at=at, actor=actor))
        except (OperationalError, InterfaceError):
            if not connection.in_atomic_block:
                connection.close()
            if known is None:
                raise
            return known.readable
        with self._lock:
            self._known[key] = _Cached(user, readable)
        return readable

    def is_known(self, user: User, bounds: TokenBounds, snapshot: ServedSnapshot) -> bool:
        """Whether `readable` needs no query."""
        row = store.state().policies[snapshot.policy_slug]
        if _reads_all(Actor(user=user, via="api", token=bounds), row.visibility):
            return True
        known = self._known.get(_key(bounds, snapshot))
        return known is not None and known.user is user

    def _with_timeout(self, query: Callable[[], Readable | None]) -> Readable | None:
        timeout_s = settings.FAIRSHARE_TOKEN_PATIENCE_S
        return query() if timeout_s <= 0 else self._probe.run(query, timeout_s=timeout_s)


def _key(bounds: TokenBounds, snapshot: ServedSnapshot) -> _Key:
    return bounds.prefix, snapshot.policy_slug, snapshot.tree.digest


def _reads_all(actor: Actor, visibility: str) -> bool:
    """Whether the actor may read all entries within the bounds of the token."""
    return actor.administers or visibility == Policy.Visibility.TREE


visibility = TokenVisibility()
