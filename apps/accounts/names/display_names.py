"""How a person is called on pages: by the display name, where records and logs keep the name of the sign-in."""

from __future__ import annotations

from django.db.models import QuerySet, Value
from django.db.models.functions import Concat

from apps.accounts.models import User
from apps.accounts.request_cache import once_per_request


def display_name(username: str) -> str:
    """The name that a person's own menu shows; a name that is nobody's (`system`, a pseudonym) stays as it is."""
    return once_per_request(("display_name", username), lambda: _read(username)) if username else ""


def _read(username: str) -> str:
    user = User.objects.only("username", "first_name", "last_name").filter(username=username).first()
    return username if user is None else str(user)


def usernames_like(text: str) -> QuerySet[User]:
    """Names of the sign-in of people whose display name contains this: to filter what records keep."""
    full = Concat("first_name", Value(" "), "last_name")
    return User.objects.annotate(full=full).filter(full__icontains=text).values("username")  # type: ignore[return-value]
