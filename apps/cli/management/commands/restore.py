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
from apps.cli.backup.origin import Origin
from apps.cli.backup.restoring import restore_backup, spooled
from apps.cli.stack.postgres import CannotStart, PostgresServer
from apps.cli.stack.var_lock import VarLock, held
from apps.core.disk_space import disk_full_message
from apps.core.errors import DomainError
from apps.core.operator_commands import REFUSED


class Command(BaseCommand):
    help = "Restores a backup into the empty FAIRSHARE_VAR or DATABASE_URL that is configured here."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="the backup; - is standard input")
        parser.add_argument("--identity", default="", metavar="FILE", help="file of the secret key of age or SSH")
        parser.add_argument("--sha256", default="", metavar="DIGEST", help="the backup's, as `backup` printed it")
        parser.add_argument("--signed-by", default="", metavar="KEY", help="fingerprint of the key that signed it")
        parser.add_argument("--any-origin", action="store_true", help="restore it although nothing shows who made it")
        parser.add_argument(
            "--start-over",
            action="store_true",
            help="first remove what an interrupted restore left, its tables included",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            origin = Origin(options["signed_by"], options["sha256"], options["any_origin"])
            origin.check()
            identity = read_identity(options["identity"])
            with contextlib.ExitStack() as stack:
                if options["file"] == "-":
                    file = spooled(sys.stdin.buffer)
                else:
                    file = stack.enter_context(open(options["file"], "rb"))
                stack.enter_context(_database(Path(settings.VAR)))
                restored = restore_backup(file, identity=identity, origin=origin, is_start_over=options["start_over"])
        except (DomainError, CannotStart) as error:
            raise CommandError(str(error), returncode=REFUSED) from error
        except OSError as error:
            message = disk_full_message(error) or f"{error.filename or 'The file'}: {error.strerror}."
            raise CommandError(message, returncode=REFUSED) from error
        manifest = restored.manifest
        self.stdout.write(f"Restored {manifest['site']} of {manifest['made_at']}, version {manifest['version']}.")
        for note in restored.notes:
            self.stderr.write(note)


@contextlib.contextmanager
def _database(var: Path) -> Any:
    """The embedded database, for this command alone; a database of others runs already."""
    if not settings.FAIRSHARE_EMBEDDED_DATABASE:
        alone = VarLock(var, "restore.lock")
        if not alone.take():
            raise CannotStart(f"Process {alone.holder()} restores a backup into {var}: wait for it.")
        with held(alone):
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
