"""What is kept of a sign-in: when, from where, with which browser."""

from __future__ import annotations

from typing import Any

from axes.helpers import get_client_ip_address

from apps.accounts.sign_in.sessions import note_beginning
from apps.core import clock


def note_sign_in(sender: object, *, request: Any, **_more: Any) -> None:
    session = getattr(request, "session", None)
    if request is None or session is None:
        return
    note_beginning(
        session,
        at=clock.now(),
        address=get_client_ip_address(request) or "",
        agent=request.headers.get("User-Agent", ""),
    )
