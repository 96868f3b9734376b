"""Who may read what this site publishes, and who read it last."""

from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from cachetools import LRUCache

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core.errors import NotFound
from apps.federation.models import Publication, Reading, UsageFeed
from apps.federation.publishing import is_within_bounds
from apps.policies.access.scope import Rights, Verb, administers_within_bounds
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.policies.tree.terms import clean_authority

Served = TypeVar("Served", Publication, UsageFeed)
logger = logging.getLogger(__name__)
CLOSED = "closed"  # code of the error that a manager gets
_NOTED_EVERY = timedelta(minutes=1)
_MOST_REMEMBERED_READINGS = 10_000


def get_publication(*, name: str, actor: Actor, at: datetime) -> Publication:
    """A publication: for everyone if it is open, else for administrators and tokens that were made for it.

    Raises:
        NotFound: there is none, or none that this actor may read.
    """
    publication = Publication.objects.select_related("policy").filter(name=_name(name)).first()
    return _readable(publication, "publication", name, actor, at)


def get_feed(*, name: str, actor: Actor, at: datetime) -> UsageFeed:
    """A feed, under the same conditions as `get_publication`.

    Raises:
        NotFound: there is none, or none that this actor may read.
    """
    feed = UsageFeed.objects.select_related("policy").filter(name=_name(name)).first()
    return _readable(feed, "feed", name, actor, at)


def _readable(resource: Served | None, kind: str, name: str, actor: Actor, at: datetime) -> Served:
    if resource is None:
        raise NotFound(f"There is no {kind} {name[:128]!r}.")
    if not (resource.is_open or _may_read(resource.policy, resource.entry_uid, actor)):
        raise _not_found(resource, kind, name, actor, at)
    return resource


def _not_found(resource: Publication | UsageFeed, kind: str, name: str, actor: Actor, at: datetime) -> NotFound:
    """The NotFound error. Signed-in managers get the code `closed` and a log entry.

    The holder of a token doesn't, because tokens are given to others.
    """
    if _noted.is_due((f"closed {kind}", resource.pk, "", 0), at):
        logger.warning(
            "The %s %s is closed, and was asked for without a token for it: make one, or open it.", kind, resource.name
        )
    if actor.token is not None or not _may_publish(resource, actor, at):
        return NotFound(f"There is no {kind} {name[:128]!r}.")
    message = (
        f"The {kind} {resource.name!r} is closed: an administrator opens it, or makes a token of the scope federation."
    )
    return NotFound(message, code=CLOSED)


def _may_publish(resource: Publication | UsageFeed, actor: Actor, at: datetime) -> bool:
    granted = Rights(resource.policy, actor, at).at(Verb.PUBLISH)
    return resource.entry_uid in granted or any(
        _lies_below(resource.policy, resource.entry_uid, top) for top in granted
    )


def record_reading(of: Publication | UsageFeed, *, number: int, actor: Actor, at: datetime) -> None:
    """Record who read which version or number, at most once a minute for each reader and number.

    Administrators who view it themselves aren't recorded.
    """
    if actor.token is None and (actor.is_system or actor.is_admin):
        return
    prefix = actor.token.prefix if actor.token else ""
    if not _noted.is_due((type(of).__name__, of.pk, prefix, number), at):
        return
    reader = _name_of_token(prefix)
    Reading.objects.update_or_create(**_reading_key(of), reader=reader, defaults={"version": number, "at": at})


def list_readings(of: Publication | UsageFeed) -> list[Reading]:
    """Readings, newest first; the caller has checked that the actor may see them."""
    return list(Reading.objects.filter(**_reading_key(of)).order_by("-at", "reader"))


def _reading_key(of: Publication | UsageFeed) -> dict[str, Any]:
    return {"publication": of} if isinstance(of, Publication) else {"feed": of}


def _may_read(policy: Policy, entry_uid: UUID, actor: Actor) -> bool:
    """Whether the actor is an administrator, or has a token with the scope `federation` that includes the entry."""
    token = actor.token
    is_reader = token is not None and Token.Scope.FEDERATION in token.scopes
    return (is_reader or administers_within_bounds(actor, Token.Scope.ADMIN)) and is_within_bounds(
        policy, entry_uid, actor
    )


def _lies_below(policy: Policy, entry_uid: UUID, top: UUID | None) -> bool:
    tree = load_tree(policy)
    entry = tree.index_of_uid(entry_uid)
    return entry is not None and any(tree.uuid(i) == top for i in tree.ancestors(entry))


def _name(text: str) -> str:
    try:
        return clean_authority(text)
    except ValueError:
        return ""  # no publication has this name


def _name_of_token(prefix: str) -> str:
    if not prefix:
        return ""
    name = Token.objects.filter(public_id=prefix.removeprefix("fsh_")).values_list("name", flat=True).first()
    return name or prefix


class _RecentReadings:
    """Readings that this process recorded recently, so that frequent requests cause no writes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at: LRUCache[tuple[str, int, str, int], datetime] = LRUCache(_MOST_REMEMBERED_READINGS)

    def is_due(self, what: tuple[str, int, str, int], at: datetime) -> bool:
        with self._lock:
            last = self._at.get(what)
            if last is not None and last <= at < last + _NOTED_EVERY:
                return False
            self._at[what] = at
            return True


_noted = _RecentReadings()
