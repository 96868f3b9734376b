"""Documents that this installation publishes to itself: a host below `.example`, answered without a connection.

Nothing resolves such a name (RFC 2606), so no site loses an address by it. What is answered is signed, expires and is
checked like every other document: only the transport is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from urllib.parse import urlsplit

from apps.core import clock
from apps.core.errors import NotFound
from apps.core.outbound import Answer

Publisher = Callable[[str, datetime], bytes]  # URL and instant → signed document; it may not need the database
_RESERVED = ".example"
_publishers: dict[str, Publisher] = {}


def register(host: str, publisher: Publisher) -> None:
    """Answer for a host from now on, in this process.

    Raises:
        ValueError: the name could be a real host's.
    """
    if not host.endswith(_RESERVED):
        raise ValueError(f"{host} doesn't end in {_RESERVED}.")
    _publishers[host] = publisher


def answer(url: str, *, at: datetime | None = None) -> Answer | None:
    """The answer; None for a host that isn't registered: it is fetched over the network. at: now, if not given."""
    try:
        publisher = _publishers.get(urlsplit(url).hostname or "")
    except ValueError:
        return None
    if publisher is None:
        return None
    try:
        return Answer(200, {}, url, publisher(url, at or clock.now()))
    except NotFound:
        return Answer(404, {}, url)
