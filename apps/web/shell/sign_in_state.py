"""How and when the session's user signed in."""

from __future__ import annotations

from django.http import HttpRequest

from apps.core import clock

BY, AT, HEADER_NAME = "signed_in_by", "signed_in_at", "signed_in_as"
FRESH_S = 600


def signed_in_by(request: HttpRequest) -> str:
    """How the user signed in: oidc, header, or empty for a password of the site or its directory."""
    return str(request.session.get(BY, ""))


def asks_password(request: HttpRequest) -> bool:
    """Whether the user has to confirm actions with a password, as users do who signed in with one."""
    return not signed_in_by(request)


def is_fresh(request: HttpRequest) -> bool:
    """Whether a user without a password signed in within the last ten minutes."""
    if signed_in_by(request) == "header":
        return True  # the proxy authenticates each request
    return bool(clock.now().timestamp() - float(request.session.get(AT, 0)) <= FRESH_S)
