"""Forms that may take effect once: a reload of the answer, or a second click, changes nothing more."""

from __future__ import annotations

from secrets import token_hex

from django.core import signing
from django.http import HttpRequest

_SALT = "dashboard.once"
_SPENT = "spent_tickets"
_KEPT = 50
MAX_AGE_S = 12 * 3600


def make_ticket(request: HttpRequest) -> str:
    """A signed number for a hidden field. Nothing is stored: GET never writes."""
    return signing.dumps([request.user.pk, token_hex(8)], salt=_SALT)


def spend_ticket(request: HttpRequest, ticket: str) -> bool:
    """True the first time this person hands it in."""
    try:
        owner, number = signing.loads(ticket, salt=_SALT, max_age=MAX_AGE_S)
    except (signing.BadSignature, ValueError, TypeError):
        return False
    spent: list[str] = request.session.get(_SPENT, [])
    if owner != request.user.pk or number in spent:
        return False
    request.session[_SPENT] = [*spent, number][-_KEPT:]
    return True
