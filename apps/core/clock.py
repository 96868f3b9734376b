"""The only clock. Views, tasks and commands read it; all other code gets the instant as an argument."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured

VARIABLE = "FAIRSHARE_CLOCK"
SKEW = timedelta(minutes=5)  # how far the clock of another site or service may be ahead of ours
_REFUSAL = f"{VARIABLE} sets the clock of a test: unset it, or set FAIRSHARE_TESTING=1 where nothing real is counted."


def now() -> datetime:
    """The present instant, aware UTC.

    FAIRSHARE_CLOCK may set an instant, or a file with one, which is read at every call.
    """
    value = os.environ.get(VARIABLE)
    if not value:
        return datetime.now(UTC)
    if not (os.environ.get("FAIRSHARE_TESTING") == "1" or bool(settings.DEBUG)):
        raise ImproperlyConfigured(_REFUSAL)
    return _instant(value)


def is_set() -> bool:
    """Whether FAIRSHARE_CLOCK sets the clock."""
    return bool(os.environ.get(VARIABLE))


def _instant(value: str) -> datetime:
    text, place = value, VARIABLE
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        place = f"{VARIABLE}={value}"
        try:
            text = Path(value).read_text(encoding="utf-8").strip()
            instant = datetime.fromisoformat(text)
        except OSError as error:
            raise ImproperlyConfigured(f"{place} is neither an instant nor a readable file.") from error
        except ValueError as error:
            raise ImproperlyConfigured(f"{place} holds {text[:40]!r}, which is no instant.") from error
    if instant.tzinfo is None:
        raise ImproperlyConfigured(f"{place} gives {text!r} without a zone; write 2026-01-31T12:00:00Z.")
    return instant.astimezone(UTC)


def check_clock(**_: Any) -> list[CheckMessage]:
    """Refuse to start with a set clock outside tests, because all dates would be wrong."""
    if not os.environ.get(VARIABLE):
        return []
    try:
        now()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="fairshare.E001")]
    return []
