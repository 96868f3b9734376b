"""How a command ends: a refusal is one line on standard error and a status (1 refused, 2 bad input)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from apps.core.errors import DomainError, Invalid, TooLarge

REFUSED, BAD_INPUT = 1, 2
_MOST_PLACES = 20


class OperatorCommand(BaseCommand):
    """A command that calls services: a refusal is printed, never a traceback."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except DomainError as error:
            status = BAD_INPUT if isinstance(error, Invalid | TooLarge) else REFUSED
            raise CommandError(_described(error), returncode=status) from error
        except OperationalError as error:
            raise CommandError(_no_database(error), returncode=REFUSED) from error


def _described(error: DomainError) -> str:
    """One line where there is one wrong place; else a line for each. No place is named twice."""
    begins_with_place = bool(error.fields) and error.message.startswith(
        (f"{error.fields[0].where}: ", f"{error.fields[0].where} ")
    )
    if len(error.fields) == 1:
        (place,) = error.fields
        if begins_with_place:
            return error.message
        if place.message in error.message:
            return f"{place.where}: {error.message}"
        return f"{error.message} ({place.where}: {place.message})"
    places = [f"\n  {place.where}: {place.message}" for place in error.fields[:_MOST_PLACES]]
    more = len(error.fields) - _MOST_PLACES
    if begins_with_place and error.fields[0].message.rstrip(".") in error.message:
        return f"{len(error.fields)} places are wrong:{''.join(places)}" + (f"\n  and {more} more" if more > 0 else "")
    message = f"The database doesn't answer: {_remedy()}." if error.code == "no_database" else error.message
    return message + "".join(places) + (f"\n  and {more} more" if more > 0 else "")


def _no_database(error: OperationalError) -> str:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
    return f"The database doesn't answer ({reason}): {_remedy()}."


def _remedy() -> str:
    return (
        "start it with `make run`, or put `manage.py with_stack --` before the command"
        if settings.FAIRSHARE_EMBEDDED_DATABASE
        else "look at the server that DATABASE_URL names"
    )


# --- Closed pipes -----------------------------------------------------------------------------------------------------
PIPE_CLOSED = 141  # as a shell reports a program that SIGPIPE ended


@contextmanager
def end_with_the_reader() -> Iterator[None]:
    """`manage.py … | head` ends without a traceback, also where the last lines were still to be written."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):  # what is still buffered has nowhere to go
            os.dup2(nowhere, stream.fileno())
        raise SystemExit(PIPE_CLOSED) from None
