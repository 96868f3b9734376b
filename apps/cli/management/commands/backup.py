"""`manage.py backup FILE | --dir FOLDER`: back up the whole instance into one file, and verify it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from apps.cli.backup.contents import examine_backup
from apps.cli.backup.making import (
    make_backup,
    name_of,
    read_identity,
    remove_old,
    write_backup,
)
from apps.core import clock
from apps.core.disk_space import disk_full_message
from apps.core.errors import DomainError
from apps.core.operator_commands import REFUSED, no_database


class Command(BaseCommand):
    help = "Backs up database, secrets and uploads into one file, while the site works, and verifies it."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("file", nargs="?", metavar="FILE", help="file to write; - is standard output")
        what.add_argument("--dir", metavar="FOLDER", help="folder in which the file is named by its time")
        what.add_argument("--verify", metavar="FILE", help="read a backup to its end, and print what it holds")
        parser.add_argument("--keep", type=int, metavar="N", help="with --dir: remove all but the newest N backups")
        parser.add_argument(
            "--recipient", default="", metavar="KEY", help="encrypt it for this public key of age (age1…) or SSH"
        )
        parser.add_argument("--identity", default="", metavar="FILE", help="with --verify: file of the secret key")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._handle(options)
        except DomainError as error:
            raise CommandError(str(error), returncode=REFUSED) from error
        except (OSError, OperationalError) as error:
            full = disk_full_message(error)
            raise CommandError(full or _reason(error), returncode=REFUSED) from error

    def _handle(self, options: dict[str, Any]) -> None:
        recipient, at = options["recipient"], clock.now()
        if options["keep"] is not None and (options["dir"] is None or options["keep"] < 1):
            raise CommandError("--keep needs --dir, and at least 1.", returncode=2)
        if options["verify"]:
            identity = read_identity(options["identity"])
            with open(options["verify"], "rb") as file:
                found = examine_backup(file, identity)
            manifest = found.manifest
            self.stdout.write(f"whole: {manifest['site']} at {manifest['made_at']}, version {manifest['version']}")
            self.stdout.write(_origin(found.sha256, found.signer))
            return
        if options["file"] == "-":
            written = write_backup(sys.stdout.buffer, recipient=recipient, at=at)
            sys.stdout.buffer.flush()
            self.stderr.write(_origin(written.sha256, written.signer))
            return
        folder = Path(options["dir"]) if options["dir"] else None
        path = folder / name_of(at, is_encrypted=bool(recipient)) if folder else Path(options["file"])
        made = make_backup(path, recipient=recipient, at=at)
        self.stdout.write(
            f"{made.path}: {made.n_bytes:,} bytes, {made.n_database_bytes:,} of the database unpacked; verified\n"
            f"{_origin(made.sha256, made.signer)}"
        )
        if not recipient:
            self.stderr.write("It holds the site's secrets: keep it where nobody else reads, or give --recipient.")
        if folder is not None and options["keep"]:
            for old in remove_old(folder, options["keep"], at=at):
                self.stdout.write(f"{old}: removed")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'The file'}: {error.strerror}."
    return no_database(error)


def _origin(sha256: str, signer: str) -> str:
    """What `restore` asks for, to know who made the backup."""
    signed = f"signed by {signer}" if signer else "not signed: the site's key can't be read"
    return f"sha256 {sha256}\n{signed}"
