"""Campus sign-on: a proxy that has checked who it is says so in a header; from elsewhere it is thrown away."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache

from django.conf import settings
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse

from apps.accounts.models import Identity
from apps.accounts.people import Person, update_or_create_user
from apps.core import clock
from apps.core.errors import DomainError
from apps.dashboard.shell.errors import refusal_of, refuse
from apps.dashboard.sign_in.session import HEADER_NAME, sign_in, signed_in_by

Answer = Callable[[HttpRequest], HttpResponse]
_SEPARATOR = re.compile(r"[;,]")
_HEADERS = ("", "_GROUPS", "_NAME", "_EMAIL")


class StripHeaderMiddleware:
    """First of all: what a client wrote itself never reaches anything that reads these headers."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if settings.FAIRSHARE_TRUSTED_HEADER and not comes_from_proxy(request):
            for key in filter(None, map(_key, _HEADERS)):
                request.META.pop(key, None)
        return self.get_response(request)


class TrustedHeaderMiddleware:
    """Signs in whom the proxy names; ends that session when it names somebody else, or nobody."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if settings.FAIRSHARE_TRUSTED_HEADER:
            said = _said(request, "") if comes_from_proxy(request) else ""
            by_header = signed_in_by(request) == Identity.Source.HEADER
            if by_header and request.session.get(HEADER_NAME) != said:
                logout(request)
            if said and not request.user.is_authenticated:
                try:
                    self._sign_in(request, said)
                except DomainError as refusal:
                    if not request.path.startswith("/api/"):
                        return refuse(request, refusal_of(refusal))
        return self.get_response(request)

    def _sign_in(self, request: HttpRequest, said: str) -> None:
        given, _space, family = _said(request, "_NAME").rpartition(" ")
        person = Person(
            source=Identity.Source.HEADER,
            subject=said,
            username=said,
            first_name=given or family,
            last_name=family if given else "",
            email=_said(request, "_EMAIL"),
            groups=[name.strip() for name in _SEPARATOR.split(_said(request, "_GROUPS")) if name.strip()],
        )
        user = update_or_create_user(
            person, at=clock.now(), via="page", address=request.META.get("REMOTE_ADDR") or None
        )
        sign_in(request, user, by=Identity.Source.HEADER)
        request.session[HEADER_NAME] = said


def comes_from_proxy(request: HttpRequest) -> bool:
    """By the address of the connection itself, never by what a header says."""
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


def _said(request: HttpRequest, which: str) -> str:
    """Headers arrive as latin-1; names are UTF-8."""
    text = str(request.META.get(_key(which) or "-", "")).strip()
    try:
        return text.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return text
