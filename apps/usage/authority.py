"""Who may send usage, and who may read everybody's."""

from __future__ import annotations

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core.errors import Archived, Conflict, NotAllowed, NotFound
from apps.usage.models import Source


def may_write(actor: Actor, source_slug: str) -> bool:
    """Administrators, and tokens that an administrator made for writing usage (to this source, or to any)."""
    if actor.is_admin:
        return True
    token = actor.token
    return token is not None and Token.Scope.USAGE_WRITE in token.scopes and token.source_slug in ("", source_slug)


def may_read_all(actor: Actor) -> bool:
    return actor.is_admin


def require_write(actor: Actor, source_slug: str) -> None:
    """
    Raises:
        NotFound: a token of another source may not know that this one exists.
        NotAllowed: the source is known to everybody, and writing it is not for everybody.
    """
    if may_write(actor, source_slug):
        return
    if actor.token is not None and actor.token.source_slug not in ("", source_slug):
        raise NotFound(f"There is no usage source {source_slug[:64]!r}.")
    raise NotAllowed("Usage is sent by administrators, or with a token of scope usage:write for this source.")


def require_maker(actor: Actor, source_slug: str) -> None:
    """Who may write to a source of that name may make it."""
    if not may_write(actor, source_slug):
        raise NotAllowed("Usage sources are made by administrators, or by the first record of a token for usage:write.")


def require_open(source: Source) -> None:
    """Whether records may come in and settings may change.

    Raises:
        Archived: nothing is accepted until it is restored.
        Conflict: it is another site's feed.
    """
    if source.archived_at is not None:
        raise Archived(
            f"The usage source {source.slug} was archived on {source.archived_at:%Y-%m-%d} and accepts nothing;"
            " administrators restore it."
        )
    refuse_peer(source)


def refuse_peer(source: Source) -> None:
    """
    Raises:
        Conflict: it is another site's feed, which brings sums by itself, and nothing else can go in.
    """
    if source.kind == Source.Kind.PEER:
        raise Conflict(
            f"{source.name} is a peer's feed: there is nothing to collect or to upload here. What is fetched of it is"
            " set among the subscriptions.",
            code="peer_source",
        )
