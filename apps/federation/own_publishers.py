"""Documents that this installation publishes to itself: the peers of the sample.

Hosts below `.example` are this installation: they are answered without a connection. Such names never resolve (RFC
2606), so no real site loses an address. The response is signed, expires and is checked like any other document.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from apps.core import clock
from apps.core.addresses import split_address
from apps.core.errors import NotFound
from apps.core.outbound import Answer

# Receives URL and instant, returns the signed document; must not use the database.
Publisher = Callable[[str, datetime], bytes]
_RESERVED = ".example"
_publishers: dict[str, Publisher] = {}
_names: list[Callable[[], str]] = []


def register(host: str, publisher: Publisher) -> None:
    """Publish documents for a host in this process.

    Raises:
        ValueError: the name could be a real host's.
    """
    if not host.endswith(_RESERVED):
        raise ValueError(f"{host} doesn't end in {_RESERVED}.")
    _publishers[host] = publisher


def register_name(name: Callable[[], str]) -> None:
    """Name this installation to others where FAIRSHARE_ISSUER doesn't. name: "" if it has none now."""
    _names.append(name)


def name_without_setting() -> str:
    return next(filter(None, (name() for name in _names)), "")


def local_answer(url: str, *, at: datetime | None = None) -> Answer | None:
    """Return the local response; None for a host that isn't registered and has to be fetched over the network.

    at: now by default.
    """
    publisher = _publishers.get(split_address(url).hostname or "")
    if publisher is None:
        return None
    try:
        return Answer(200, {}, url, publisher(url, at or clock.now()))
    except NotFound:
        return Answer(404, {}, url)
