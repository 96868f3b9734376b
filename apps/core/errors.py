"""What a room may refuse, and the HTTP status of each refusal, for pages and REST alike.

400 or 422? 400: the request can't be read. It is no JSON or no gzip; or a parameter or field is missing, unknown, not
known beside another, not of its type, or outside the bounds that are stated for it alone. Serializers and `Malformed`
say so. 422: it was read, and what it says is refused: values that don't go with each other or with what is stored, and
mistakes in a language of its own (operations of a change set, records, cases of jobs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


# --- What a room may refuse -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One wrong field of the input: its location, and what to do about it."""

    where: str
    message: str


class DomainError(Exception):
    """A refusal with a stable code, a sentence that says what to do next, and the wrong places."""

    code = "refused"

    def __init__(self, message: str, *, code: str | None = None, fields: Sequence[FieldProblem] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.fields = tuple(fields)


class Invalid(DomainError):
    """The input is wrong; the same input will be refused again."""

    code = "invalid"


class Malformed(Invalid):
    """The input can't be read at all: not in its format, or one value not of its type or outside its stated bounds."""


class Unauthenticated(DomainError):
    """No valid sign-in or token."""

    code = "unauthenticated"


class NotAllowed(DomainError):
    """The actor may see this, and may not do that."""

    code = "not_allowed"
    is_on_record = False  # whether the audit log has it


class NotFound(DomainError):
    """It does not exist, or the actor may not know that it does: both read the same."""

    code = "not_found"


class Conflict(DomainError):
    """Changed or used by another writer first."""

    code = "conflict"


class Stale(DomainError):
    """The caller's copy is out of date (If-Match)."""

    code = "stale"


class Archived(DomainError):
    """It is archived: nothing is computed, accepted or changed there until an administrator restores it."""

    code = "archived"


class TooLarge(DomainError):
    """Over a stated limit."""

    code = "too_large"


class Unavailable(DomainError):
    """Not now; the same request may succeed later."""

    code = "unavailable"


class TooOften(DomainError):
    """Asked more often than a page or a person needs; the same request will do in a moment."""

    code = "too_often"


# --- HTTP status ------------------------------------------------------------------------------------------------------
_STATUS: dict[type[DomainError], int] = {
    Malformed: 400,
    Invalid: 422,
    Unauthenticated: 401,
    NotAllowed: 403,
    NotFound: 404,
    Conflict: 409,
    Archived: 410,
    Stale: 412,
    TooLarge: 413,
    TooOften: 429,
    Unavailable: 503,
}


def status_of(error: DomainError) -> int:
    """Of the nearest class that has one; 422 where none has."""
    if error.code == "no_database":  # refused because the rights could not be read
        return 503
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 422)
