"""Texts without secrets: values of settings, tokens of any kind, and passwords in addresses are masked.

Messages of drivers and libraries repeat their arguments: an address with its password, a header, a path of a link. So
the finished line of a log is searched, with its traceback, and the finished report of `manage.py doctor`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from django.conf import settings

from apps.core.outbound_proxy import proxy_secrets
from apps.core.site_keys import site_keys

MASK = "***"
SHORTEST_MASKED = 6  # characters: a shorter value is part of ordinary words
PASSWORDS = ("EMAIL_HOST_PASSWORD", "FAIRSHARE_OIDC_CLIENT_SECRET", "FAIRSHARE_LDAP_BIND_PASSWORD")

#: What is secret by its form, whoever issued it; the group that is kept is `kept`.
_FORMS = re.compile(
    r"(?P<kept>"
    r"fsh_[0-9a-z]{12}_"  # an API token: its public part names it in the audit log, too
    r"|whsec_"
    r"|\bBearer\s+|\bBasic\s+"
    r"|\b[a-z][a-z0-9+.-]*://[^\s/:@]*:(?=[^\s/@]+@)"  # the password of an address
    r"|(?:pass(?:word|wd|phrase)?|secret|api_?key|private_?key|client_secret|access_token|refresh_token|id_token"
    r"|sessionid|csrftoken|csrfmiddlewaretoken)[\"']?\s*[=:]\s*[\"']?"
    r")"
    r"(?P<secret>[^\s\"',;&@<>)}\]]+)",
    re.IGNORECASE,
)


def mask(text: str) -> str:
    """The text without secrets, known ones and those that only their form shows."""
    return _FORMS.sub(rf"\g<kept>{MASK}", mask_values(text))


def mask_values(text: str, *, shortest: int = SHORTEST_MASKED) -> str:
    """The text without the secrets of this site's settings. shortest: characters of the values that are masked."""
    known = _pattern_of(_known_values(), shortest)
    return text if known is None else known.sub(MASK, text)


def _known_values() -> tuple[str, ...]:
    values = [value for group in site_keys().values() for value in group]
    values += [getattr(settings, name) for name in PASSWORDS]
    values += _passwords(settings.DATABASES.values(), settings.CELERY_BROKER_URL)
    values += proxy_secrets()
    return tuple(values)


def _passwords(databases: Iterable[Mapping[str, Any]], broker: str) -> list[str]:
    password = broker.rpartition("@")[0].partition("://")[2].partition(":")[2] if "@" in broker else ""
    return [*(str(each.get("PASSWORD") or "") for each in databases), password, unquote(password)]


@lru_cache(maxsize=4)
def _pattern_of(values: tuple[str, ...], shortest: int) -> re.Pattern[str] | None:
    """Also as an address or a JSON text has them."""
    written = {form for value in values for form in (value, quote(value, safe=""), quote(value), repr(value)[1:-1])}
    longest_first = sorted((each for each in written if len(each) >= shortest), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
