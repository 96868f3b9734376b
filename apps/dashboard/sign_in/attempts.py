"""How often one address may try to sign in: each try hashes a password, which costs CPU and memory on purpose."""

from __future__ import annotations

import ipaddress
import threading
import time

from axes.helpers import get_client_ip_address
from cachetools import LRUCache
from django.http import HttpRequest
from django.utils.translation import gettext as _

from apps.core.errors import TooOften

MOST_A_MINUTE = 30
_MOST_ADDRESSES = 10_000
_V6_SITE = 64  # bits that one customer of a network has

_minutes: LRUCache[str, tuple[int, int]] = LRUCache(_MOST_ADDRESSES)  # by address: the minute, and the attempts
_lock = threading.Lock()


def count_attempt(request: HttpRequest) -> None:
    """
    Raises:
        TooOften: over the limit in this minute and process. Nothing has been hashed yet.
    """
    address, minute = _network(get_client_ip_address(request) or ""), minute_now()
    with _lock:
        counted_in, n_attempts = _minutes.pop(address, (minute, 0))
        n_attempts = n_attempts + 1 if counted_in == minute else 1
        _minutes[address] = (minute, n_attempts)
    if n_attempts > MOST_A_MINUTE:
        raise TooOften(_("Too many attempts to sign in came from your address. Wait a minute and try again."))


def minute_now() -> int:
    return int(time.monotonic() // 60)


def forget_attempts() -> None:
    with _lock:
        _minutes.clear()


def _network(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, _V6_SITE), strict=False))
    return address
