"""Permission checks for sending and reading usage."""

from __future__ import annotations

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core.errors import Archived, Conflict, NotAllowed, NotFound
from apps.usage.models import Source


def may_write(actor: Actor, source_slug: str) -> bool:
    """Whether the actor may send usage to this source: administrators, and tokens of scope usage:write, each within
    the bounds of the token.
    """
    token = actor.token
    is_sender = token is not None and Token.Scope.USAGE_WRITE in token.scopes
    administers = actor.administers and actor.has_scope(Token.Scope.ADMIN)
    return actor.reaches_source(source_slug) and (is_sender or administers)


def may_read_all(actor: Actor) -> bool:
    return actor.is_admin


def require_write(actor: Actor, source_slug: str) -> None:
    """Check that the actor may send usage to this source.

    Raises:
        NotFound: the source is outside the bounds of the actor's token, which may not learn that it exists.
        NotAllowed: the actor lacks the permission.
    """
    if may_write(actor, source_slug):
        return
    if not actor.reaches_source(source_slug):
        raise NotFound(f"There is no usage source {source_slug[:64]!r}.")
    raise NotAllowed("Only administrators and tokens of scope usage:write for this source may send usage.")


def require_create(actor: Actor, source_slug: str) -> None:
    """Check that the actor may create this source: the same actors as may write to it."""
    if not may_write(actor, source_slug):
        raise NotAllowed("Only administrators and tokens of scope usage:write may create usage sources.")


def require_open(source: Source) -> None:
    """Check that a source accepts records and changes of its settings.

    Raises:
        Archived: the source is archived; it accepts nothing until it is restored.
        Conflict: the source is a peer's feed.
    """
    if source.archived_at is not None:
        raise Archived(
            f"The usage source {source.slug} was archived on {source.archived_at:%Y-%m-%d} and accepts nothing;"
            " administrators restore it."
        )
    refuse_peer(source)


def refuse_peer(source: Source) -> None:
    """Reject collection and uploads for a peer's feed.

    Raises:
        Conflict: the source is a peer's feed, whose sums are fetched from the peer.
    """
    if source.kind == Source.Kind.PEER:
        raise Conflict(
            f"{source.name} is a peer's feed: there is nothing to collect or to upload here. What is fetched of it is"
            " set among the subscriptions.",
            code="peer_source",
        )
