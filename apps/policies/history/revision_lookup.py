"""A moment of a policy as an address names it: a revision's number, or a time with its zone."""

from __future__ import annotations

from datetime import UTC, datetime


def read_moment(text: str | None) -> int | datetime | None:
    """A number of up to nine digits is a revision, nothing is now; everything else must be a time."""
    if text is None or text == "":
        return None
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    return read_instant(text)


def read_instant(text: str) -> datetime:
    """Aware UTC; ValueError says what is wrong. A time without zone is refused, not guessed at."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is no time; write 2026-01-31T12:00:00Z") from None
    if instant.tzinfo is None:
        raise ValueError("has no zone; write 2026-01-31T12:00:00Z")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError("is out of range") from None
