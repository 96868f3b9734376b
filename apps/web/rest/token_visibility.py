"""What a token may see of a snapshot, kept until its bounds or the snapshot change.

For a process that starts while the database is away it is in a file beside the token's, until a right changes.
"""

from __future__ import annotations

import base64
import threading
import zlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import numpy as np
from cachetools import FIFOCache
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from apps.accounts import token_files
from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor, TokenBounds
from apps.accounts.models import User
from apps.accounts.token_cache import DatabaseProbe
from apps.core.cache_sizes import sized
from apps.core.derived_state import in_memory
from apps.policies.access.rights_state import rights_state
from apps.policies.models import Policy
from apps.policies.tree.columns import Mask
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountNames, Readable
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visible_entries import readable_now

DERIVED_STATE = (
    in_memory(
        "visibility",
        holds="what a token may see of a snapshot",
        key="person, bounds of the token, snapshot",
        inputs="rights, the tree",
        range="one snapshot",
        ends="some seconds; another snapshot",
    ),
)

_MOST_CACHED_TOKENS = 1_000
_MOST_VISIBILITY_BYTES = 256 * 1024**2
_WRITE_AGAIN = timedelta(minutes=10)
T = TypeVar("T")
_Key = tuple[str, str, str]  # prefix of the token, slug of the policy, digest of its tree


class _Cached(NamedTuple):
    user: User  # the object of one verification: another verification gives another object
    readable: Readable | None
    written_at: datetime  # of its file


def _n_bytes(cached: _Cached) -> int:
    readable = cached.readable
    if readable is None:
        return 0
    return readable.entries.nbytes + (0 if readable.names is None else readable.names.named.nbytes)


class TokenVisibility:
    """Cache of the entries that tokens may read in served policies."""

    def __init__(self) -> None:
        self._known: FIFOCache[_Key, _Cached] = FIFOCache(
            _MOST_VISIBILITY_BYTES, getsizeof=sized(_MOST_VISIBILITY_BYTES, _MOST_CACHED_TOKENS, _n_bytes)
        )  # reads need no lock
        self._lock = threading.Lock()
        self._state = ""
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
        is_written = known is not None and at - known.written_at < _WRITE_AGAIN

        def read() -> tuple[Readable | None, str]:
            state = "" if is_written else rights_state(at)  # before the rights: it may be older, and never newer
            return readable_now(policy=policy, snapshot=snapshot, at=at, actor=actor), state

        try:
            readable, state = self._with_timeout(read)
        except (OperationalError, InterfaceError):
            if not connection.in_atomic_block:
                connection.close()
            if known is None:
                known = _read(key, user, at)
            if known is None:
                raise
            with self._lock:
                self._known[key] = known
            return known.readable
        if not is_written:
            _write(key, readable, state, at)
        with self._lock:
            self._known[key] = _Cached(user, readable, at if known is None or not is_written else known.written_at)
        return readable

    def forget_changed(self, *, at: datetime) -> None:
        """Forget what was derived from other rights than those of now. Raises OperationalError without a database."""
        files = [(path, file) for path, file in token_files.list_files(at=at) if file.kind == token_files.READABLE]
        if not files and not self._known:
            return
        state = rights_state(at)
        for path, file in files:
            if file.state != state:
                path.unlink(missing_ok=True)
        if state != self._state:
            with self._lock:
                self._state = state
                self._known.clear()

    def is_known(self, user: User, bounds: TokenBounds, snapshot: ServedSnapshot) -> bool:
        """Whether `readable` needs no query."""
        row = store.state().policies[snapshot.policy_slug]
        if _reads_all(Actor(user=user, via="api", token=bounds), row.visibility):
            return True
        known = self._known.get(_key(bounds, snapshot))
        return known is not None and known.user is user

    def clear(self) -> None:
        with self._lock:
            self._known.clear()

    def _with_timeout(self, query: Callable[[], T]) -> T:
        timeout_s = settings.FAIRSHARE_TOKEN_PATIENCE_S
        return query() if timeout_s <= 0 else self._probe.run(query, timeout_s=timeout_s)


def _write(key: _Key, readable: Readable | None, state: str, at: datetime) -> None:
    prefix, slug, tree = key
    content: Any = None
    if readable is not None:
        names = readable.names
        content = {
            "entries": _packed(readable.entries),
            "n": len(readable.entries),
            "named": None if names is None else _packed(names.named),
            "own": [] if names is None else [list(own) for own in names.own],
        }
    file = token_files.TokenFile(prefix, token_files.READABLE, slug, state, at, {"tree": tree, "readable": content})
    token_files.write(file)


def _read(key: _Key, user: User, at: datetime) -> _Cached | None:
    prefix, slug, tree = key
    file = token_files.read(prefix, token_files.READABLE, slug, at=at)
    if file is None or file.content["tree"] != tree:
        return None
    content, readable = file.content["readable"], None
    if content is not None:
        named = content["named"]
        own = tuple(AccountKey(*each) for each in content["own"])
        names = None if named is None else AccountNames(_unpacked(named, content["n"]), own)
        readable = Readable(_unpacked(content["entries"], content["n"]), names)
    return _Cached(user, readable, file.checked_at)


def _packed(mask: Mask) -> str:
    return base64.b64encode(zlib.compress(np.packbits(mask).tobytes())).decode()


def _unpacked(text: str, n: int) -> Mask:
    packed = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
    return np.unpackbits(packed, count=n).astype(np.bool_)


def _key(bounds: TokenBounds, snapshot: ServedSnapshot) -> _Key:
    return bounds.prefix, snapshot.policy_slug, snapshot.tree.digest


def _reads_all(actor: Actor, visibility: str) -> bool:
    """Whether the actor may read all entries within the bounds of the token."""
    return actor.administers or visibility == Policy.Visibility.TREE


visibility = TokenVisibility()
