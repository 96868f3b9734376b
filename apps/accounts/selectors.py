"""Queries for tokens, users and external accounts that the actor may see, and display names of people."""

from __future__ import annotations

from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Concat

from apps.accounts.actor import Actor
from apps.accounts.models import Account, Token, User
from apps.accounts.request_cache import once_per_request
from apps.core.errors import NotFound


def list_tokens(*, actor: Actor) -> list[Token]:
    """The actor's own tokens, newest first."""
    if actor.user is None:
        return []
    return list(Token.objects.select_related("user").filter(user=actor.user).order_by("-id"))


def get_user(*, username: str, actor: Actor) -> User:
    user = User.objects.filter(username=username).first()
    if user is None or not (actor.is_admin or (actor.user is not None and actor.user.pk == user.pk)):
        raise NotFound(f"There is no user {username}.")
    return user


def list_accounts_of(user: User) -> list[Account]:
    """Accounts of a user: those linked to the user, and unlinked ones with the same user name."""
    own = Q(person=user) | Q(person=None, user_name=user.username)
    accounts = Account.objects.filter(own).order_by("namespace", "group_name", "user_name", "id")
    return list(once_per_request(("accounts", user.pk), lambda: list(accounts)))


def groups_of(user: User) -> list[str]:
    """Names of a user's sign-in groups."""
    names = user.groups.values_list("name", flat=True)
    return list(once_per_request(("groups", user.pk), lambda: list(names)))


# Records and logs store user names.
def display_name(username: str) -> str:
    """The full name of a user for display; a name without a user (`system`, a pseudonym) is returned unchanged."""
    return once_per_request(("display_name", username), lambda: _shown_name(username)) if username else ""


def _shown_name(username: str) -> str:
    user = User.objects.only("username", "first_name", "last_name").filter(username=username).first()
    return username if user is None else str(user)


def usernames_like(text: str) -> QuerySet[User]:
    """User names of people whose full name contains the text, for filtering records."""
    full = Concat("first_name", Value(" "), "last_name")
    return User.objects.annotate(full=full).filter(full__icontains=text).values("username")  # type: ignore[return-value]
