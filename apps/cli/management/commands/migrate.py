"""`manage.py migrate`: Django's, which waits for locks a moment only and is refused where the disk has no room."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS, connection

from apps.cli.stack.migration import check_room, migrate_patiently
from apps.core.errors import DomainError
from apps.core.operator_commands import REFUSED


class Command(migrate.Command):
    help = "Makes or upgrades the tables of the database, while others work with them."

    def handle(self, *args: Any, **options: Any) -> None:
        def migrate() -> None:
            super(Command, self).handle(*args, **options)

        if options["database"] not in (None, DEFAULT_DB_ALIAS) or connection.in_atomic_block:
            return migrate()
        try:
            check_room()
        except DomainError as error:
            raise CommandError(str(error), returncode=REFUSED) from error
        migrate_patiently(migrate, say=self.stderr.write)
