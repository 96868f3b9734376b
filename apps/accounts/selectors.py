"""What the actor may see of people, tokens and accounts, and how pages call a person."""

from __future__ import annotations

from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Concat

from apps.accounts.actor import Actor
from apps.accounts.models import Account, Token, User
from apps.accounts.request_cache import once_per_request
from apps.core.errors import NotFound


def list_tokens(*, actor: Actor, everybody: bool = False) -> list[Token]:
    """The actor's own tokens, newest first; `everybody` shows an administrator all."""
    tokens = Token.objects.select_related("user").order_by("-id")
    if everybody and actor.is_admin:
        return list(tokens)
    if actor.user is None:
        return []
    return list(tokens.filter(user=actor.user))


def get_token(*, token_id: int, actor: Actor) -> Token:
    token = Token.objects.select_related("user").filter(pk=token_id).first()
    if token is None or not (actor.is_admin or (actor.user is not None and token.user_id == actor.user.pk)):
        raise NotFound("There is no such token.")
    return token


def get_user(*, username: str, actor: Actor) -> User:
    user = User.objects.filter(username=username).first()
    if user is None or not (actor.is_admin or (actor.user is not None and actor.user.pk == user.pk)):
        raise NotFound(f"There is no user {username}.")
    return user


def list_accounts_of(user: User) -> list[Account]:
    """The accounts of a person: those tied to them, else those that carry their user name."""
    own = Q(person=user) | Q(person=None, user_name=user.username)
    accounts = Account.objects.filter(own).order_by("namespace", "group_name", "user_name", "id")
    return list(once_per_request(("accounts", user.pk), lambda: list(accounts)))


def groups_of(user: User) -> list[str]:
    """The names of a person's groups of sign-in."""
    names = user.groups.values_list("name", flat=True)
    return list(once_per_request(("groups", user.pk), lambda: list(names)))


# --- Display names ----------------------------------------------------------------------------------------------------
# Records and logs keep the name of the sign-in.
def display_name(username: str) -> str:
    """The name that a person's own menu shows; a name that is nobody's (`system`, a pseudonym) stays as it is."""
    return once_per_request(("display_name", username), lambda: _shown_name(username)) if username else ""


def _shown_name(username: str) -> str:
    user = User.objects.only("username", "first_name", "last_name").filter(username=username).first()
    return username if user is None else str(user)


def usernames_like(text: str) -> QuerySet[User]:
    """Names of the sign-in of people whose display name contains this: to filter what records keep."""
    full = Concat("first_name", Value(" "), "last_name")
    return User.objects.annotate(full=full).filter(full__icontains=text).values("username")  # type: ignore[return-value]
