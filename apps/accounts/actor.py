"""The actor of a service or selector call: a person or the system, the channel, and the bounds of a token."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from apps.accounts.models import Token, User


@dataclass(frozen=True, slots=True)
class TokenBounds:
    """Upper bounds of the rights of a token: its scopes, and the policy, subtree or source it is limited to."""

    prefix: str
    scopes: frozenset[str]
    policy_slug: str = ""
    subtree_uid: UUID | None = None
    source_slug: str = ""


@dataclass(frozen=True, slots=True)
class Actor:
    """A person, possibly through a token, or the system itself (`user` is None)."""

    user: User | None
    via: str  # page, api, command or worker
    token: TokenBounds | None = None
    request_id: str = ""
    address: str | None = None

    @property
    def is_system(self) -> bool:
        return self.user is None

    @property
    def is_admin(self) -> bool:
        """Whether the actor has all rights: the system or an administrator, through a token only with scope `admin`."""
        if self.user is None:
            return True
        return bool(self.user.is_active and self.user.is_superuser and self.has_scope(Token.Scope.ADMIN))

    @property
    def name(self) -> str:
        return self.user.username if self.user else "system"

    def has_scope(self, scope: str) -> bool:
        """True for a signed-in person; for a token, if it has the scope or `admin`."""
        return self.token is None or scope in self.token.scopes or Token.Scope.ADMIN in self.token.scopes


SYSTEM = Actor(user=None, via="worker")
COMMAND = Actor(user=None, via="command")
