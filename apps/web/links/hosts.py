"""Under which host names this site answers."""

from __future__ import annotations

from django.conf import settings
from django.http.request import validate_host


def is_answered(host: str) -> bool:
    """Whether requests for this host are answered, by FAIRSHARE_ALLOWED_HOSTS."""
    return validate_host(host.lower(), settings.ALLOWED_HOSTS)
