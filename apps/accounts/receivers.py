"""Store time, address and browser of each sign-in in its session."""

from __future__ import annotations

from typing import Any

from axes.helpers import get_client_ip_address

from apps.accounts.sign_in.sessions import store_sign_in_details
from apps.core import clock


def store_sign_in(sender: object, *, request: Any, **_more: Any) -> None:
    session = getattr(request, "session", None)
    if request is None or session is None:
        return
    store_sign_in_details(
        session,
        at=clock.now(),
        address=get_client_ip_address(request) or "",
        agent=request.headers.get("User-Agent", ""),
    )
