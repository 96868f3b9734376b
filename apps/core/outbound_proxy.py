"""The site's proxy for outgoing connections, as FAIRSHARE_OUTBOUND_PROXY names it, with its credentials.

It gets the names of targets and resolves them itself. Targets in FAIRSHARE_OUTBOUND_ALLOW are connected directly.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from django.conf import settings

from apps.core.addresses import Target, is_allowed
from apps.core.errors import Unavailable

EXAMPLE = "http://proxy.example.org:3128 or https://user:password@proxy.example.org:3129"
_PRINTABLE = re.compile(r"[\x21-\x7e]{1,2048}")


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where it is, and what it is sent as Proxy-Authorization, which holds its password."""

    scheme: str
    host: str
    port: int
    authorization: str = field(repr=False)

    @property
    def place(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.place}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Proxy-Authorization": self.authorization} if self.authorization else {}


def proxy_for(target: Target) -> Proxy | None:
    """The proxy that leads to the target; None where it is connected directly.

    Raises:
        Unavailable: the setting is no address of a proxy; nothing is connected directly instead.
    """
    if not settings.FAIRSHARE_OUTBOUND_PROXY or is_allowed(target):
        return None
    try:
        return parse_proxy(settings.FAIRSHARE_OUTBOUND_PROXY)
    except ValueError as error:
        raise Unavailable(f"FAIRSHARE_OUTBOUND_PROXY {error}.", code="bad_proxy_setting") from None


@lru_cache(maxsize=4)
def parse_proxy(text: str) -> Proxy:
    """Raises:
    ValueError: what is wrong with the setting, without quoting it: it may hold a password.
    """
    if not _PRINTABLE.fullmatch(text) or "\\" in text:
        raise ValueError("isn't up to 2048 printable ASCII characters")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("is no address") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError("doesn't begin with http:// or https://")
    if not host or port in (None, 0):
        raise ValueError("doesn't name a host and a port")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("has something behind the port; write / ? # and @ in a password as %2F %3F %23 and %40")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if ":" in user or (password and not user):
        raise ValueError("has a password without a user name, or a user name with a colon")
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
    return Proxy(parts.scheme, host, int(port or 0), f"Basic {encoded}" if user else "")


def proxy_secrets() -> list[str]:
    """What logs and reports must not show: the password, plain and as the header has it."""
    text = settings.FAIRSHARE_OUTBOUND_PROXY
    raw = text.partition("://")[2].rpartition("@")[0].partition(":")[2]
    try:
        encoded = parse_proxy(text).authorization.removeprefix("Basic ") if text else ""
    except ValueError:
        encoded = ""
    return [raw, unquote(raw), encoded]
