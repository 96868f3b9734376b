"""`manage.py upgrade_postgresql`: bring the embedded database to the PostgreSQL that is installed now."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.cli.stack.postgres import CannotStart
from apps.cli.stack.upgrading import upgrade_cluster
from apps.cli.stack.var_lock import VarLock, held
from apps.core.operator_commands import REFUSED
from apps.core.private_dirs import InsecureDirectory


class Command(BaseCommand):
    help = (
        "Loads the embedded database into the major version of PostgreSQL that is installed now; keeps the former one."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--old-bin", default="", metavar="FOLDER", help="programs of the former version (default: the system's)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        var = Path(settings.VAR)
        try:
            if not settings.FAIRSHARE_EMBEDDED_DATABASE:
                raise CannotStart("DATABASE_URL names a server of its own: upgrade that one as its manual says.")
            lock = VarLock(var, "postgres.lock")
            if not lock.take():
                raise CannotStart(f"Process {lock.holder()} uses the database in {var}: stop it.")
            with held(lock):
                done = upgrade_cluster(var, old_binaries=options["old_bin"], say=self.stdout.write)
        except (CannotStart, InsecureDirectory) as error:
            raise CommandError(str(error), returncode=REFUSED) from error
        except OSError as error:
            raise CommandError(f"{error.filename or var}: {error.strerror}.", returncode=REFUSED) from error
        self.stdout.write(done)
