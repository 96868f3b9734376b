"""Base class of commands: domain errors become text on standard error and an exit status (1 refused, 2 bad input)."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.checks import Tags
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, OperationalError, ProgrammingError

from apps.core.code_paths import IS_INSTALLED, command_name
from apps.core.counts import counted
from apps.core.errors import DomainError, Invalid, TooLarge
from apps.core.pending_migrations import label_of, pending_migrations
from apps.core.plugins import keyed
from apps.core.postgresql import is_busy

REFUSED, BAD_INPUT = 1, 2
BUSY_COMMAND = "Others held the same rows for too long. Nothing was saved; run the command again."
_MOST_LOCATIONS = 20
_NO_TABLE = ("42P01", "42703")  # of PostgreSQL: a table or a column that isn't there
OWN_CHECKS = "fairshare"  # tag of this product's checks
Write = Callable[[str], Any]


@dataclass(frozen=True)
class CommandAction:
    """An action of a command that has several, such as `manage.py scheduler setup`.

    run: with the options, and with functions that write a line to standard output and to standard error.
    """

    help: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Mapping[str, Any], Write, Write], None]


def added_actions(command: str) -> dict[str, CommandAction]:
    """Actions that installed plug-ins add to a command, by name."""
    head = f"{command}."
    actions = keyed("command_actions").items()
    return {key.removeprefix(head): action for key, action in actions if key.startswith(head)}


class OperatorCommand(BaseCommand):
    """A command that calls services. Domain errors are printed without a traceback."""

    # Without those of addresses and templates, which load all pages: a third of the time of a short command. `check`,
    # `doctor` and each start run all of them.
    requires_system_checks: tuple[str, ...] = (OWN_CHECKS, Tags.models, Tags.caches, Tags.compatibility)

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except DomainError as error:
            status = BAD_INPUT if isinstance(error, Invalid | TooLarge) else REFUSED
            raise CommandError(_described(error), returncode=status) from error
        except OperationalError as error:
            message = BUSY_COMMAND if is_busy(error) else no_database(error)
            raise CommandError(message, returncode=REFUSED) from error
        except ProgrammingError as error:
            if not (reason := being_prepared(error)):
                raise
            raise CommandError(reason, returncode=REFUSED) from error


def being_prepared(error: DatabaseError) -> str:
    """A sentence where tables of this release aren't there yet; "" for every other error."""
    if getattr(error.__cause__, "sqlstate", None) not in _NO_TABLE or not (pending := pending_migrations()):
        return ""
    n, first = counted(len(pending), "migration"), label_of(pending[0])
    return (
        f"The site is being prepared, or was never prepared: its database lacks {n}, the first is {first}. Wait until "
        f"`{command_name('up')}` or `{command_name('serve prepare')}` is done with it, or run one of them."
    )


def _described(error: DomainError) -> str:
    """The error with its locations: one line for one location, else one line for each."""
    starts_with_location = bool(error.fields) and error.message.startswith(
        (f"{error.fields[0].where}: ", f"{error.fields[0].where} ")
    )
    if len(error.fields) == 1:
        (location,) = error.fields
        if starts_with_location:
            return error.message
        if location.message in error.message:
            return f"{location.where}: {error.message}"
        return f"{error.message} ({location.where}: {location.message})"
    locations = [f"\n  {location.where}: {location.message}" for location in error.fields[:_MOST_LOCATIONS]]
    more = len(error.fields) - _MOST_LOCATIONS
    if starts_with_location and error.fields[0].message.rstrip(".") in error.message:
        return f"{len(error.fields)} locations are wrong:{''.join(locations)}" + (
            f"\n  and {more} more" if more > 0 else ""
        )
    message = f"The database is not available: {database_remedy()}." if error.code == "no_database" else error.message
    return message + "".join(locations) + (f"\n  and {more} more" if more > 0 else "")


def no_database(error: Exception) -> str:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
    return f"The database is not available ({reason}): {database_remedy()}."


def database_remedy() -> str:
    """What to do where the database doesn't answer, as the end of a sentence."""
    return (
        f"start it with `{'fairshare up' if IS_INSTALLED else 'make run'}`, "
        f"or put `{command_name('with_stack')} --` before the command"
        if settings.FAIRSHARE_EMBEDDED_DATABASE
        else "check the server in DATABASE_URL"
    )
