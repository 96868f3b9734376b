"""Tickets of forms: what is sent once can't be sent again by going back."""

from __future__ import annotations

from secrets import token_hex

from django.core import signing
from django.http import HttpRequest

_SALT = "pages.once"
_SPENT = "spent_tickets"
_MOST_SPENT = 50
MAX_AGE_S = 12 * 3600


def make_ticket(request: HttpRequest) -> str:
    """A signed number for a hidden field; nothing is stored, since GET must not write."""
    return signing.dumps([request.user.pk, token_hex(8)], salt=_SALT)


def spend_ticket(request: HttpRequest, ticket: str) -> bool:
    """Whether the ticket is the user's, valid, and used for the first time."""
    try:
        owner, number = signing.loads(ticket, salt=_SALT, max_age=MAX_AGE_S)
    except (signing.BadSignature, ValueError, TypeError):
        return False
    spent: list[str] = request.session.get(_SPENT, [])
    if owner != request.user.pk or number in spent:
        return False
    request.session[_SPENT] = [*spent, number][-_MOST_SPENT:]
    return True
