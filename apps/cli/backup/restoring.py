"""Restore a backup on a machine without an instance. All checks come first; the database gets everything or nothing."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from apps.cli.backup import programs
from apps.cli.backup.archive import BadArchive, read_archive, read_manifest, safe_target
from apps.cli.backup.making import (
    DATABASE,
    SECRETS,
    SOURCE_SECRETS,
    UPLOADS,
    settings_fingerprint,
    verify_backup,
)
from apps.cli.stack.paths import write_once
from apps.cli.stack.restore_check import UNFINISHED
from apps.core.errors import Invalid
from apps.core.private_dirs import private_dir
from apps.core.site_keys import KEY_FILES, site_keys
from apps.federation.restored import skip_published_numbers
from apps.runs.fault_points import fault_point

_ROOM = 3  # times the size of the file: tables and indexes are larger than their packed dump


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored, and what an operator has to do then, as sentences."""

    manifest: dict[str, Any]
    notes: Sequence[str]


def restore_backup(file: IO[bytes], *, identity: str = "") -> Restored:
    """Restore a backup into the empty database that is configured, which already runs, and into FAIRSHARE_VAR.

    file: is read twice, first to verify it.

    Raises:
        BadArchive: the backup is cut, changed, of another product or a newer version, or for another key.
        Invalid: there is an instance already, a secret is set to another value, or the disk is too small.
        ProgramFailed: pg_restore is missing, or failed.
    """
    unfinished = Path(settings.VAR) / UNFINISHED
    is_begun = unfinished.exists()
    has_tables = _has_tables()
    if has_tables and not is_begun:
        raise Invalid(_occupied())
    manifest = verify_backup(file, identity)
    _check_version(manifest)
    _check_room(file)
    file.seek(0)
    write_once(unfinished, f"{manifest['made_at']}\n")
    with tempfile.TemporaryDirectory(dir=private_dir(Path(settings.VAR)), prefix=".restore-") as folder:
        with programs.restoring(_server()) if not has_tables else contextlib.nullcontext() as dump:
            _unpack(file, identity, Path(folder), dump)
            fault_point("restore_database")
        fault_point("restore_files")
        notes = list(_keep_keys(Path(folder, SECRETS)))
        _keep_files(Path(folder))
    fault_point("restore_tables")
    connection.close()
    call_command("migrate", interactive=False, verbosity=0)
    skip_published_numbers()
    unfinished.unlink()
    return Restored(manifest, [*notes, *_differing_settings(manifest)])


def _has_tables() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()")
        return bool(cursor.fetchone()[0])


def _occupied() -> str:
    place = settings.VAR if settings.FAIRSHARE_EMBEDDED_DATABASE else "the database of DATABASE_URL"
    return (
        f"There is an instance in {place} already, and a backup is only restored where none is: name another "
        f"{'FAIRSHARE_VAR' if settings.FAIRSHARE_EMBEDDED_DATABASE else 'DATABASE_URL'}."
    )


def _server() -> int:
    """Major version of the server."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version_num')::int / 10000")
        version = int(cursor.fetchone()[0])
    connection.close()
    return version


def _check_version(manifest: dict[str, Any]) -> None:
    disk = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    ours = {f"{app}.{name}" for app, name in disk}
    unknown = sorted(set(manifest["migrations"]) - ours)
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise BadArchive(
            f"Version {manifest['version']} made the backup, and this version lacks its migration {unknown[0]}{more}: "
            "restore it with that version."
        )


def _check_room(file: IO[bytes]) -> None:
    n_bytes = file.seek(0, os.SEEK_END)
    free = shutil.disk_usage(settings.VAR).free
    if settings.FAIRSHARE_EMBEDDED_DATABASE and free < _ROOM * n_bytes:
        wanted, there = (_ROOM * n_bytes) // 1024**2 + 1, free // 1024**2
        raise Invalid(f"The disk of {settings.VAR} has {there} MB free, and a restore needs about {wanted} MB.")


def _unpack(file: IO[bytes], identity: str, folder: Path, dump: IO[bytes] | None) -> None:
    """Hand the dump on, unless the database has it already, and put everything else into a folder."""
    members = read_archive(file, identity)
    read_manifest(next(members))
    for member in members:
        if member.name == DATABASE:
            if dump is not None:
                dump.write(member.content)
            continue
        path = safe_target(folder, member.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as part:
            part.write(member.content)


def _keep_files(folder: Path) -> None:
    for source, target in (
        (folder / SOURCE_SECRETS, Path(settings.FAIRSHARE_SECRETS_DIR)),
        (folder / UPLOADS, Path(settings.VAR) / "uploads"),
    ):
        if source.is_dir():
            shutil.copytree(source, private_dir(target), dirs_exist_ok=True)


def _keep_keys(folder: Path) -> Iterator[str]:
    """Write the site's keys into files of the instance; yields what has to be set in the environment in addition."""
    var, here = Path(settings.VAR), site_keys()
    for setting, name in KEY_FILES.items():
        values = (folder / name).read_text(encoding="utf-8").split("\n")
        is_set = bool(os.environ.get(setting) or os.environ.get(f"{setting}_FILE"))
        if not is_set:
            _write(var / name, values[0])
        if is_set and here[setting][0] != values[0]:
            _write(var / f"{name}.restored", "\n".join(values))
            yield (
                f"{setting} is set to another value than in the backup, which is in {name}.restored: "
                "set it to that one, or what it sealed can't be read."
            )
        elif len(values) > 1:
            _write(var / f"{name}.restored", "\n".join(values))
            yield f"The backup has {len(values)} values of {setting}, in {name}.restored: set it to those."


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _differing_settings(manifest: dict[str, Any]) -> Iterator[str]:
    there, here = manifest["settings"], settings_fingerprint(manifest["salt"])
    differing = sorted(name for name in there.keys() | here.keys() if there.get(name) != here.get(name))
    if differing:
        yield f"These settings differ from those of the backup: {', '.join(differing)}."


def spooled(file: IO[bytes]) -> IO[bytes]:
    """A file that can be read twice: a pipe is copied to disk first."""
    if file.seekable():
        return file
    copy = tempfile.TemporaryFile(dir=private_dir(Path(settings.VAR)))  # noqa: SIM115 - the caller closes it
    shutil.copyfileobj(file, copy, io.DEFAULT_BUFFER_SIZE * 128)
    copy.seek(0)
    return copy
