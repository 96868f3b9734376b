"""Sign-in by a header from a trusted proxy, which authenticates users; headers from other addresses are removed."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache

from django.conf import settings
from django.contrib.auth import logout
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse

from apps.accounts.models import Identity
from apps.accounts.people import Person, update_or_create_user
from apps.core import clock
from apps.core.errors import DomainError
from apps.pages.sign_in.session import sign_in
from apps.web.shell.errors import refusal_of, refuse
from apps.web.shell.sign_in_state import HEADER_NAME, signed_in_by

Answer = Callable[[HttpRequest], HttpResponse]
_SEPARATOR = re.compile(r"[;,]")
_HEADERS = ("", "_GROUPS", "_NAME", "_EMAIL")


class StripHeaderMiddleware:
    """First middleware: remove the trusted headers from requests that don't come from the proxy."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = _used(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not comes_from_proxy(request):
            for key in filter(None, map(_key, _HEADERS)):
                request.META.pop(key, None)
        return self.get_response(request)


class TrustedHeaderMiddleware:
    """Sign in the user whom the proxy names; end that session when it names another user or none."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = _used(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        username = _header(request, "") if comes_from_proxy(request) else ""
        by_header = signed_in_by(request) == Identity.Source.HEADER
        if by_header and request.session.get(HEADER_NAME) != username:
            logout(request)
        if username and not request.user.is_authenticated:
            try:
                self._sign_in(request, username)
            except DomainError as refusal:
                if not request.path.startswith("/api/"):
                    return refuse(request, refusal_of(refusal))
        return self.get_response(request)

    def _sign_in(self, request: HttpRequest, username: str) -> None:
        first_name, _space, family = _header(request, "_NAME").rpartition(" ")
        person = Person(
            source=Identity.Source.HEADER,
            subject=username,
            username=username,
            first_name=first_name or family,
            last_name=family if first_name else "",
            email=_header(request, "_EMAIL"),
            groups=[name.strip() for name in _SEPARATOR.split(_header(request, "_GROUPS")) if name.strip()],
        )
        user = update_or_create_user(person, at=clock.now(), address=request.META.get("REMOTE_ADDR") or None)
        sign_in(request, user, by=Identity.Source.HEADER)
        request.session[HEADER_NAME] = username


def _used(get_response: Answer) -> Answer:
    """get_response; without a trusted header Django leaves the middleware out."""
    if not settings.FAIRSHARE_TRUSTED_HEADER:
        raise MiddlewareNotUsed
    return get_response


def comes_from_proxy(request: HttpRequest) -> bool:
    """Whether the connection itself, not a header, has the address of a trusted proxy."""
    return _is_proxy(request.META.get("REMOTE_ADDR", ""), tuple(settings.FAIRSHARE_TRUSTED_HEADER_ADDRESSES))


@lru_cache(maxsize=1024)
def _is_proxy(address: str, trusted: tuple[str, ...]) -> bool:
    try:
        here = ipaddress.ip_address(address)
        networks = [ipaddress.ip_network(text, strict=False) for text in trusted]
    except ValueError:
        return False
    mapped = getattr(here, "ipv4_mapped", None)
    return any((mapped or here) in network for network in networks)


def _key(which: str) -> str:
    name = str(getattr(settings, f"FAIRSHARE_TRUSTED_HEADER{which}", ""))
    return f"HTTP_{name.upper().replace('-', '_')}" if name else ""


def _header(request: HttpRequest, which: str) -> str:
    """Value of a trusted header, decoded as UTF-8 (WSGI decodes headers as Latin-1)."""
    text = str(request.META.get(_key(which) or "-", "")).strip()
    try:
        return text.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return text
