"""System checks of the sign-in settings, each with a remedy."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register

from apps.accounts.people import SOURCES
from apps.core.addresses import split_address
from apps.core.operator_commands import OWN_CHECKS

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@register(OWN_CHECKS)
def check_sign_in(app_configs: Sequence[AppConfig] | None, **_more: Any) -> list[CheckMessage]:
    return [*_oidc(), *_ldap(), *_header(), *_proxies(), *_links()]


def _oidc() -> Iterator[CheckMessage]:
    issuer = settings.FAIRSHARE_OIDC_ISSUER
    if not issuer:
        return
    missing = [
        name for name in ("FAIRSHARE_OIDC_CLIENT_ID", "FAIRSHARE_OIDC_CLIENT_SECRET") if not getattr(settings, name)
    ]
    if missing:
        yield Error(f"FAIRSHARE_OIDC_ISSUER is set without {' and '.join(missing)}.", id="accounts.E001")
    address = split_address(issuer)
    if address.scheme != "https" and address.hostname not in _LOOPBACK:
        yield Error("FAIRSHARE_OIDC_ISSUER must be an https:// address.", id="accounts.E002")


def _ldap() -> Iterator[CheckMessage]:
    url = settings.FAIRSHARE_LDAP_URL
    if not url:
        return
    address = split_address(url)
    if address.scheme not in ("ldap", "ldaps") or not address.hostname:
        yield Error("FAIRSHARE_LDAP_URL must be ldaps://host or ldap://host.", id="accounts.E003")
    if not settings.FAIRSHARE_LDAP_PEOPLE:
        hint = "Example: ou=people,dc=example,dc=org"
        yield Error("FAIRSHARE_LDAP_URL is set without FAIRSHARE_LDAP_PEOPLE.", hint=hint, id="accounts.E004")
    if "{username}" not in settings.FAIRSHARE_LDAP_FILTER:
        yield Error("FAIRSHARE_LDAP_FILTER must contain {username}.", id="accounts.E005")
    plain = address.scheme == "ldap" and not settings.FAIRSHARE_LDAP_START_TLS
    if plain and address.hostname not in _LOOPBACK:
        kind = Error if settings.PRODUCTION else Warning
        hint = "Use ldaps://, or leave FAIRSHARE_LDAP_START_TLS on."
        yield kind("Passwords would go to the directory in the clear.", hint=hint, id="accounts.E006")


def _header() -> Iterator[CheckMessage]:
    header, addresses = settings.FAIRSHARE_TRUSTED_HEADER, settings.FAIRSHARE_TRUSTED_HEADER_ADDRESSES
    if not header:
        return
    if not addresses:
        hint = "Name the addresses of your proxies: from any other address the header is removed."
        yield Error(
            "FAIRSHARE_TRUSTED_HEADER is set without FAIRSHARE_TRUSTED_HEADER_ADDRESSES.", hint=hint, id="accounts.E007"
        )
    for text in addresses:
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            yield Error(f"FAIRSHARE_TRUSTED_HEADER_ADDRESSES: {text!r} is not an address.", id="accounts.E008")
            continue
        if network.prefixlen == 0:
            yield Error("FAIRSHARE_TRUSTED_HEADER_ADDRESSES trusts all addresses.", id="accounts.E009")


def _proxies() -> Iterator[CheckMessage]:
    """Warn about a missing count of proxies: every client would appear under the proxy's address."""
    is_behind_one = any((settings.SECURE_PROXY_SSL_HEADER, settings.FAIRSHARE_TRUSTED_HEADER))
    if is_behind_one and not settings.AXES_IPWARE_PROXY_COUNT:
        hint = "Set FAIRSHARE_PROXY_COUNT to the number of proxies that add to X-Forwarded-For."
        yield Warning("This site is behind a proxy, and FAIRSHARE_PROXY_COUNT is 0.", hint=hint, id="accounts.W001")


def _links() -> Iterator[CheckMessage]:
    for name in settings.FAIRSHARE_LINK_BY_NAME:
        if name not in SOURCES:
            known = ", ".join(SOURCES)
            yield Error(f"FAIRSHARE_LINK_BY_NAME: {name!r} is not a source; known: {known}.", id="accounts.E010")
