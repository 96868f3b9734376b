"""Every address that the router knows, with sample values for what varies."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.urls import URLPattern, URLResolver, get_resolver

_SAMPLES = {
    "slug": "grid",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "int": "1",
    "str": "x",
    "path": "x",
}
_REGEX = re.compile(r"[\^$]|\\Z|\(\?P.*|\.\*")


def all_addresses() -> list[str]:
    found = sorted({_REGEX.sub("", address) for address in _addresses(get_resolver())})
    assert len(found) > 250
    return found


def _addresses(resolver: URLResolver, before: str = "/") -> Iterator[str]:
    for pattern in resolver.url_patterns:
        here = before + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield re.sub(r"<(\w+):\w+>", lambda found: _SAMPLES[found[1]], here)
        else:
            yield from _addresses(pattern, here)
