"""The actor of a service or selector call: a person or the system, the channel, and the bounds of a token.

What is within the bounds of a token is decided here and nowhere else: services ask the actor, and read neither the
fields of the token nor whether the person is an administrator (`tests/test_architecture.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from apps.accounts.models import Token, User


@dataclass(frozen=True, slots=True)
class TokenBounds:
    """Upper bounds of the rights of a token: its scopes, and the policy, subtree, source or scheduler."""

    prefix: str
    scopes: frozenset[str]
    policy_slug: str = ""
    subtree_uid: UUID | None = None
    source_slug: str = ""
    scheduler_name: str = ""

    @property
    def bounds(self) -> tuple[str, UUID | None, str, str]:
        return self.policy_slug, self.subtree_uid, self.source_slug, self.scheduler_name

    @property
    def is_bound(self) -> bool:
        """Whether the token is limited to something; then no act on the whole site is within it."""
        return any(self.bounds)

    def reaches_policy(self, slug: str) -> bool:
        """Whether the policy, or a subtree of it, is within the bounds; bound to other things alone, none is."""
        return self.policy_slug == slug if self.policy_slug else not (self.source_slug or self.scheduler_name)

    def reaches_source(self, slug: str) -> bool:
        """Whether the usage source is within the bounds; bound to other things alone, none is."""
        return self.source_slug == slug if self.source_slug else not self.is_bound

    def reaches_scheduler(self, name: str) -> bool:
        """Whether a scheduler of a reached policy is within the bounds."""
        return self.scheduler_name in ("", name)


@dataclass(frozen=True, slots=True)
class Actor:
    """A person, possibly through a token, or the system itself (`user` is None), which may act by a named rule."""

    user: User | None
    via: str  # page, api, command or worker
    token: TokenBounds | None = None
    request_id: str = ""
    address: str | None = None
    rule: str = ""

    @property
    def is_system(self) -> bool:
        return self.user is None

    @property
    def is_admin(self) -> bool:
        """Whether the actor has all rights on the whole site: the system or an administrator, through a token only
        with scope `admin` and without bounds.
        """
        return not self.is_bound and self.administers and self.has_scope(Token.Scope.ADMIN)

    @property
    def administers(self) -> bool:
        """Whether it is the system or an administrator; scopes and bounds of a token are asked besides."""
        return self.user is None or bool(self.user.is_active and self.user.is_superuser)

    @property
    def name(self) -> str:
        if self.user is None:
            return f"rule {self.rule}" if self.rule else "system"  # a blank is in no username
        return self.user.username

    def has_scope(self, scope: str) -> bool:
        """True for a signed-in person; for a token, if it has the scope or `admin`."""
        return self.token is None or scope in self.token.scopes or Token.Scope.ADMIN in self.token.scopes

    @property
    def is_bound(self) -> bool:
        return self.token is not None and self.token.is_bound

    @property
    def top_uid(self) -> UUID | None:
        """The entry to whose subtree the token is bound; None for whole policies."""
        return None if self.token is None else self.token.subtree_uid

    def reaches_policy(self, slug: str) -> bool:
        return self.token is None or self.token.reaches_policy(slug)

    def reaches_source(self, slug: str) -> bool:
        return self.token is None or self.token.reaches_source(slug)

    def reaches_scheduler(self, name: str) -> bool:
        return self.token is None or self.token.reaches_scheduler(name)

    def reaches_entry(self, lineage: Collection[UUID]) -> bool:
        """Whether an entry of a reached policy is within the bounds; lineage: its ancestors and itself."""
        return self.top_uid is None or self.top_uid in lineage


SYSTEM = Actor(user=None, via="worker")
COMMAND = Actor(user=None, via="command")
