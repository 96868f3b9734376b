"""Errors of the domain and the HTTP status of each, for pages and REST alike.

400 or 422? 400: the request can't be read. It isn't JSON or gzip; or a parameter or field is missing, unknown, not
allowed beside another, of the wrong type, or outside its own stated bounds. Raised by serializers and as `Malformed`.
422: it was read, but is rejected: values contradict each other or stored data, or a nested language has mistakes
(operations of a change set, records, cases of jobs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One wrong field of the input: its location, and what to do about it."""

    where: str
    message: str


def problem_sentence(message: str) -> str:
    """Return the message of a FieldProblem, which follows the field's name, as a sentence to show beside the field."""
    return f"{message[:1].upper()}{message[1:].rstrip('.')}." if message else ""


class DomainError(Exception):
    """An error with a stable code, a sentence that says what to do next, and the wrong fields."""

    code = "refused"

    def __init__(self, message: str, *, code: str | None = None, fields: Sequence[FieldProblem] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.fields = tuple(fields)


class Invalid(DomainError):
    """The input is wrong; the same input will be rejected again."""

    code = "invalid"


class Malformed(Invalid):
    """The input can't be read: wrong format, or a value of the wrong type or outside its own stated bounds."""


class Unauthenticated(DomainError):
    """No valid sign-in or token."""

    code = "unauthenticated"


class NotAllowed(DomainError):
    """The actor may see this, but may not do that."""

    code = "not_allowed"
    is_on_record = False  # whether it is recorded in the audit log


class NotFound(DomainError):
    """It does not exist, or the actor may not know that it does; both have the same message."""

    code = "not_found"


class Conflict(DomainError):
    """Another writer changed or used it first."""

    code = "conflict"


class Stale(DomainError):
    """The caller's copy is out of date (If-Match)."""

    code = "stale"


class Archived(DomainError):
    """It is archived: nothing is computed, accepted or changed there until an administrator restores it."""

    code = "archived"


class TooLarge(DomainError):
    """A stated limit is exceeded."""

    code = "too_large"


class Unavailable(DomainError):
    """Temporarily unavailable; the same request may succeed later."""

    code = "unavailable"


class TooOften(DomainError):
    """Too many requests in a short time; the same request will succeed in a moment."""

    code = "too_often"


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
    """The status of the nearest base class that has one; 422 otherwise."""
    if error.code == "no_database":  # rejected because the rights could not be read
        return 503
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 422)
