"""Names of people replaced by pseudonyms: always the same one for a name, and none that reveals it.

Only this site's key leads from a name to its pseudonym. A pseudonymised person who runs jobs again is recognised by it,
so that late records still replace the stored ones.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b32encode

from django.conf import settings

_BYTES = 15  # 24 characters without padding: two names of a million share one once in 10²⁴ sites


def pseudonym_of(name: str, namespace: str) -> str:
    """Keyed hash (HMAC-SHA-256) of a name in its namespace; "" stays ""."""
    if not name:
        return ""
    said = f"{namespace}\0{name}".encode()
    digest = hmac.new(settings.FAIRSHARE_PSEUDONYM_KEY.encode(), said, hashlib.sha256).digest()
    return "p-" + b32encode(digest[:_BYTES]).decode().lower()
