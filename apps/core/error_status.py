"""The HTTP status of each refusal, for pages and REST alike.

400 or 422? 400: the request can't be read. It is no JSON or no gzip; or a parameter or field is missing, unknown, not
known beside another, not of its type, or outside the bounds that are stated for it alone. Serializers and `Malformed`
say so. 422: it was read, and what it says is refused: values that don't go with each other or with what is stored, and
mistakes in a language of its own (operations of a change set, records, cases of jobs).
"""

from __future__ import annotations

from apps.core.errors import (
    Conflict,
    DomainError,
    Invalid,
    Malformed,
    NotAllowed,
    NotFound,
    Stale,
    TooLarge,
    TooOften,
    Unauthenticated,
    Unavailable,
)

_STATUS: dict[type[DomainError], int] = {
    Malformed: 400,
    Invalid: 422,
    Unauthenticated: 401,
    NotAllowed: 403,
    NotFound: 404,
    Conflict: 409,
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
