"""How long a body each route accepts: one table beside the routes, and a limit for all others.

A longer body is refused before it is read (by its Content-Length) or as soon as it has sent too much (chunked).
"""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings
from django.urls import Resolver404, resolve

KB = 1024
MB = 1024 * KB
DEFAULT_BYTES = 4 * MB  # forms with many fields, lists of rules
UNKNOWN_BYTES = 16 * KB  # an address without a route
_FORM_ROOM = 1_000_000  # bytes of the fields and boundaries around a file
_MOST_KEPT = 256  # characters of a path whose route is kept
_UPLOAD = -1  # FAIRSHARE_UPLOAD_BYTES, which a test or a site may change

#: bytes by route name
LIMITS: dict[str, int] = {
    # Reachable without signing in.
    "dashboard:sign-in": 16 * KB,
    "dashboard:second-step": 16 * KB,
    "dashboard:oidc-start": 16 * KB,
    "dashboard:sign-out": 16 * KB,
    "dashboard:theme": 16 * KB,
    "admin:login": 16 * KB,
    # Read as a whole, parsed strictly.
    "api:priorities-lookup": 8 * MB,
    "api:jobs-explain": 8 * MB,
    "dashboard:jobs": 8 * MB,
    "dashboard:jobs-result": 8 * MB,
    "api:changesets": 32 * MB,
    "api:changeset": 32 * MB,
    "api:document": 32 * MB,
    "api:policies": 32 * MB,
    "api:policy": 32 * MB,
    "api:usage-records": 32 * MB,
    "dashboard:draft-operation": 32 * MB,
    "dashboard:draft-paste": 32 * MB,
    # Files, stored on disk.
    "dashboard:policy-files": 65 * MB,
    "dashboard:setup-tree": _UPLOAD,
    "dashboard:setup-log": _UPLOAD,
    "dashboard:upload": _UPLOAD,
}


@lru_cache(maxsize=1_024)
def _route_of(path: str) -> str | None:
    """The name of the route; None for none. Cached, because resolving it costs as much as a look-up from memory."""
    try:
        return resolve(path).view_name
    except Resolver404:
        return None


def limit_of(path: str) -> int:
    """The longest body in bytes that the route of this path accepts."""
    name = _route_of(path) if len(path) <= _MOST_KEPT else _route_of.__wrapped__(path)
    if name is None:
        return UNKNOWN_BYTES
    limit = LIMITS.get(name, UNKNOWN_BYTES if name == "api:unmatched" else DEFAULT_BYTES)
    return int(settings.FAIRSHARE_UPLOAD_BYTES) + _FORM_ROOM if limit == _UPLOAD else limit
