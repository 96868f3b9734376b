"""Who stands behind a page request."""

from __future__ import annotations

from typing import cast

from django.http import HttpRequest

from apps.accounts.actor import Actor
from apps.accounts.models import User


def actor_of(request: HttpRequest) -> Actor:
    """The signed-in person, through a page. Views need a sign-in, so there always is one."""
    return Actor(
        user=cast(User, request.user),
        via="page",
        request_id=request.headers.get("X-Request-ID", "")[:64],
        address=request.META.get("REMOTE_ADDR") or None,
    )
