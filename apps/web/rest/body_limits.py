"""How large a body each route accepts: one table for the core, those of plug-ins, and a limit for all others.

A longer body is refused before it is read (by its Content-Length) or as soon as it has sent too much (chunked). One
with more values is refused before it is parsed. `docs/security.md` and `docs/limits.md` state these sizes, and a test
compares them.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

from django.conf import settings
from django.urls import Resolver404, resolve

from apps.core.plugins import keyed
from apps.mapping.changes import MOST_ASSIGNED, MOST_MAPPING_RULES
from apps.policies.operations.apply import MOST_APPLIED_OPERATIONS
from apps.usage.services import MOST_BODY_BYTES, MOST_BODY_VALUES

KB = 1024
MB = 1024 * KB
MOST_LOOKUP_ACCOUNTS = 10_000  # of one look-up
FORM_ROOM = 1_000_000  # bytes of the fields and boundaries around a file
_LONGEST_KEPT_PATH = 256  # characters of a path whose route is kept
_UPLOAD = -1  # FAIRSHARE_UPLOAD_BYTES, which a test or a site may change


class Limit(NamedTuple):
    """n_values: of a JSON body, as `has_more_values` counts them; forms and files are not JSON."""

    n_bytes: int
    n_values: int = 1_000

    @property
    def size(self) -> str:
        return f"{self.n_bytes // MB} MB" if self.n_bytes >= MB else f"{self.n_bytes // KB} kB"

    @property
    def bytes_refusal(self) -> str:
        return f"The body is over the limit of {self.size} for this address."

    @property
    def values_refusal(self) -> str:
        return f"The body has more than {self.n_values:,} values, the limit for this address: send it in parts."


DEFAULT = Limit(4 * MB)  # forms with many fields
UNKNOWN = Limit(16 * KB)  # an address without a route
_SIGN_IN = Limit(16 * KB)
_CHANGE_SET = Limit(32 * MB, 40 * MOST_APPLIED_OPERATIONS)
_DOCUMENT = Limit(32 * MB)  # read by its format
_RULES = Limit(4 * MB, 12 * MOST_MAPPING_RULES)
UPLOAD = Limit(_UPLOAD)

_LIMITS: dict[str, Limit] = {
    # Reachable without signing in.
    "pages:sign-in": _SIGN_IN,
    "pages:second-step": _SIGN_IN,
    "pages:oidc-start": _SIGN_IN,
    "pages:sign-out": _SIGN_IN,
    "pages:theme": _SIGN_IN,
    "admin:login": _SIGN_IN,
    # Read as a whole, parsed strictly.
    "api:priorities-lookup": Limit(8 * MB, 8 * MOST_LOOKUP_ACCOUNTS),
    "api:changesets": _CHANGE_SET,
    "api:changeset": _CHANGE_SET,
    "api:changeset-rebase": Limit(4 * MB, 4 * MOST_APPLIED_OPERATIONS),
    "api:document": _DOCUMENT,
    "api:document-against": _DOCUMENT,
    "api:mapping-rules": _RULES,
    "api:mapping-trial": _RULES,
    "api:mapping-assignments": Limit(4 * MB, 12 * MOST_ASSIGNED),
    "api:usage-records": Limit(MOST_BODY_BYTES, MOST_BODY_VALUES),
    "pages:draft-operation": Limit(32 * MB),
    "pages:draft-paste": Limit(32 * MB),
    # Files, stored on disk.
    "pages:policy-files": Limit(65 * MB),
    "pages:upload": UPLOAD,
}


@cache
def limits_by_route() -> dict[str, Limit]:
    """Those of the core and of the installed plug-ins."""
    return keyed("body_limits") | _LIMITS


@lru_cache(maxsize=1_024)
def _route_of(path: str) -> str | None:
    """The name of the route; None for none. Cached, because resolving it costs as much as a look-up from memory."""
    try:
        return resolve(path).view_name
    except Resolver404:
        return None


def limit_of(path: str) -> Limit:
    """The largest body that the route of this path accepts."""
    name = _route_of(path) if len(path) <= _LONGEST_KEPT_PATH else _route_of.__wrapped__(path)
    if name is None:
        return UNKNOWN
    limit = limits_by_route().get(name, UNKNOWN if name == "api:unmatched" else DEFAULT)
    return Limit(int(settings.FAIRSHARE_UPLOAD_BYTES) + FORM_ROOM) if limit.n_bytes == _UPLOAD else limit
