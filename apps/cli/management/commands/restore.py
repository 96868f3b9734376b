"""`manage.py restore FILE`: restore a backup on a machine without an instance."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.cli.backup.making import read_identity
from apps.cli.backup.restoring import restore_backup, spooled
from apps.cli.stack.postgres import CannotStart, PostgresServer
from apps.cli.stack.var_lock import VarLock, held
from apps.core.errors import DomainError
from apps.core.operator_commands import REFUSED


class Command(BaseCommand):
    help = "Restores a backup into the empty FAIRSHARE_VAR or DATABASE_URL that is configured here."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="the backup; - is standard input")
        parser.add_argument("--identity", default="", metavar="FILE", help="file of the secret key of age or SSH")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            identity = read_identity(options["identity"])
            with contextlib.ExitStack() as stack:
                if options["file"] == "-":
                    file = spooled(sys.stdin.buffer)
                else:
                    file = stack.enter_context(open(options["file"], "rb"))
                stack.enter_context(_database(Path(settings.VAR)))
                restored = restore_backup(file, identity=identity)
        except (DomainError, CannotStart) as error:
            raise CommandError(str(error), returncode=REFUSED) from error
        except OSError as error:
            raise CommandError(f"{error.filename or 'The file'}: {error.strerror}.", returncode=REFUSED) from error
        manifest = restored.manifest
        self.stdout.write(f"Restored {manifest['site']} of {manifest['made_at']}, version {manifest['version']}.")
        for note in restored.notes:
            self.stderr.write(note)


@contextlib.contextmanager
def _database(var: Path) -> Any:
    """The embedded database, for this command alone; a database of others runs already."""
    if not settings.FAIRSHARE_EMBEDDED_DATABASE:
        yield
        return
    lock = VarLock(var, "postgres.lock")
    if not lock.take():
        raise CannotStart(f"Process {lock.holder()} runs an instance in {var}: name another FAIRSHARE_VAR.")
    with held(lock):
        server = PostgresServer(var)
        server.start()
        try:
            yield
        finally:
            server.stop()
