"""Restore a backup on a machine without an instance. All checks come first; the database gets everything or nothing."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from apps.cli.backup import programs
from apps.cli.backup.archive import BadArchive, safe_target
from apps.cli.backup.contents import (
    DATABASE,
    SECRETS,
    SOURCE_SECRETS,
    UPLOADS,
    Examined,
    HashedFile,
    changed_meanwhile,
    examine_backup,
    open_again,
)
from apps.cli.backup.drafts import RESTORE_FOLDER, draft_folder
from apps.cli.backup.emptying import RESTORED, empty_database, remove_files
from apps.cli.backup.making import settings_fingerprint
from apps.cli.backup.origin import Origin, require_known_origin
from apps.cli.stack.postgres import OLDEST_VERSION
from apps.cli.stack.restore_check import UnfinishedRestore, marker_path, text_of, unfinished_restore
from apps.core.errors import Conflict, Invalid
from apps.core.private_dirs import private_dir
from apps.core.site_keys import KEY_FILES, site_keys
from apps.federation.restored import skip_published_numbers
from apps.runs.backup_state import forget_backups
from apps.runs.fault_points import fault_point

_ROOM = 3  # times the size of the file: tables and indexes are larger than their packed dump
_IDENTITY = """
SELECT (SELECT system_identifier FROM pg_control_system()) || '/' ||
    (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class OtherRestoreUnfinished(Conflict):
    """A restore of another backup was interrupted here."""

    code = "other_restore_unfinished"


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored, and what an operator has to do then, as sentences."""

    manifest: dict[str, Any]
    notes: Sequence[str]


def restore_backup(file: IO[bytes], *, identity: str = "", origin: Origin, is_start_over: bool = False) -> Restored:
    """Restore a backup into the empty database that is configured, which already runs, and into FAIRSHARE_VAR.

    An interrupted restore is continued with the same backup, under whatever name.

    file: is read twice, first to verify it. is_start_over: first remove what an interrupted restore left.

    Raises:
        BadArchive: the backup is cut, changed, of another product or a newer version, or for another key.
        UnknownOrigin: nothing shows who made it.
        OtherRestoreUnfinished: a restore of another one was interrupted here.
        Invalid: there is an instance already, a secret is set to another value, or the disk is too small.
        ProgramFailed: pg_restore is missing, or failed.
    """
    origin.check()
    unfinished, has_tables = unfinished_restore(), _has_tables()
    if has_tables and unfinished is None:
        raise Invalid(_occupied())
    found = examine_backup(file, identity)
    here = UnfinishedRestore(found.digest, found.manifest["site"], found.manifest["made_at"], _database_identity())
    if unfinished is not None:
        _require_own_tables(unfinished, here, has_tables=has_tables)
        if not is_start_over:
            _require_same(unfinished, here, has_tables=has_tables)
    require_known_origin(origin, found)
    server = _server()
    _check_version(found, server)
    _check_room(file, found)
    if unfinished is not None and (is_start_over or unfinished.digest != here.digest):
        empty_database()
        fault_point("restore_emptied")
        remove_files(unfinished, had_tables=has_tables)
        has_tables, unfinished = False, None
    _note(replace(here, files=unfinished.files if unfinished else ()))
    with draft_folder(private_dir(Path(settings.VAR)), RESTORE_FOLDER) as folder:
        with programs.restoring(server) if not has_tables else contextlib.nullcontext() as dump:
            _unpack(file, identity, found, folder, dump)
            fault_point("restore_database")
        fault_point("restore_files")
        _note(replace(here, files=[str(path) for path in _targets(folder)]))
        notes = list(_keep_keys(folder / SECRETS))
        fault_point("restore_keys")
        _keep_files(folder)
    fault_point("restore_tables")
    connection.close()
    call_command("migrate", interactive=False, verbosity=0)
    skip_published_numbers()
    forget_backups()
    fault_point("restore_skipped")
    marker_path().unlink()
    return Restored(found.manifest, [*notes, *_differing_settings(found.manifest)])


def _require_own_tables(unfinished: UnfinishedRestore, here: UnfinishedRestore, *, has_tables: bool) -> None:
    """Tables in another database than the one in which the restore began are none of its."""
    if has_tables and unfinished.database and unfinished.database != here.database:
        raise Invalid(f"A restore was interrupted here, but of another database. {_occupied()}")


def _require_same(unfinished: UnfinishedRestore, here: UnfinishedRestore, *, has_tables: bool) -> None:
    way = "`restore --start-over FILE` removes what it left, and begins with FILE."
    if not unfinished.digest and has_tables:
        raise OtherRestoreUnfinished(
            f"A former release began to restore {unfinished.name} here, and noted no digest of it: its tables may be "
            f"of another backup. {way}"
        )
    if unfinished.digest and unfinished.digest != here.digest:
        raise OtherRestoreUnfinished(
            f"A restore of {unfinished.name} was interrupted here, and FILE is another backup ({here.name}). "
            f"Nothing was changed. Run it again with that backup; or {way}"
        )


def _database_identity() -> str:
    with connection.cursor() as cursor:
        cursor.execute(_IDENTITY)
        return str(cursor.fetchone()[0])


def _note(unfinished: UnfinishedRestore) -> None:
    _write(marker_path(), text_of(unfinished))


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


def _check_version(found: Examined, server: int) -> None:
    manifest = found.manifest
    for have, needed in ((server, OLDEST_VERSION), (server, manifest["postgresql"])):
        if have < needed:
            raise Invalid(
                f"The server here is PostgreSQL {have}, and the backup needs {needed} or newer: restore it there."
            )
    disk = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    ours = {f"{app}.{name}" for app, name in disk}
    unknown = sorted(set(manifest["migrations"]) - ours)
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise BadArchive(
            f"Another build, of version {manifest['version']}, made the backup: it has the migration "
            f"{unknown[0]}{more}, which this build lacks. Restore it with that build."
        )


def _check_room(file: IO[bytes], found: Examined) -> None:
    needed, free = found.n_file_bytes, shutil.disk_usage(settings.VAR).free
    if settings.FAIRSHARE_EMBEDDED_DATABASE:
        needed += max(_ROOM * file.seek(0, os.SEEK_END), found.n_database_bytes)
    file.seek(0)
    if free < needed:
        wanted, there = needed // 1024**2 + 1, free // 1024**2
        raise Invalid(f"The disk of {settings.VAR} has {there:,} MB free, and a restore needs about {wanted:,} MB.")


def _unpack(file: IO[bytes], identity: str, found: Examined, folder: Path, dump: IO[bytes] | None) -> None:
    """Hand the dump on, unless the database has it already, and put everything else into a folder.

    Raises:
        BadArchive: the file isn't the one that was examined any more.
    """
    file.seek(0)
    hashed = HashedFile(file)
    for member in open_again(hashed, identity, found):  # type: ignore[arg-type]  # only `read` is used
        if member.name == DATABASE:
            if dump is not None:
                dump.write(member.content)
            continue
        path = safe_target(folder, member.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as part:
            part.write(member.content)
    hashed.read()
    if hashed.sha256.hexdigest() != found.sha256:
        raise changed_meanwhile()


def _targets(folder: Path) -> Iterator[Path]:
    """The files of the instance that the unpacked ones become."""
    for source, target in _folders(folder):
        yield from (target / path.relative_to(source) for path in sorted(source.rglob("*")) if path.is_file())
    var = Path(settings.VAR)
    for setting, name in KEY_FILES.items():
        yield var / f"{name}{RESTORED}"
        if not _is_set(setting):
            yield var / name


def _folders(folder: Path) -> Sequence[tuple[Path, Path]]:
    return (
        (folder / SOURCE_SECRETS, Path(settings.FAIRSHARE_SECRETS_DIR)),
        (folder / UPLOADS, Path(settings.VAR) / "uploads"),
    )


def _keep_files(folder: Path) -> None:
    for source, target in _folders(folder):
        if source.is_dir():
            shutil.copytree(source, private_dir(target), dirs_exist_ok=True)


def _keep_keys(folder: Path) -> Iterator[str]:
    """Write the site's keys into files of the instance; yields what has to be set in the environment in addition."""
    var, here = Path(settings.VAR), site_keys()
    for setting, name in KEY_FILES.items():
        values = (folder / name).read_text(encoding="utf-8").split("\n")
        (var / f"{name}{RESTORED}").unlink(missing_ok=True)  # of an earlier restore
        is_set = _is_set(setting)
        if not is_set:
            _write(var / name, values[0])
        if is_set and here[setting][0] != values[0]:
            _write(var / f"{name}{RESTORED}", "\n".join(values))
            yield (
                f"{setting} is set to another value than in the backup, which is in {name}{RESTORED}: "
                "set it to that one, or what it sealed can't be read."
            )
        elif len(values) > 1:
            _write(var / f"{name}{RESTORED}", "\n".join(values))
            yield f"The backup has {len(values)} values of {setting}, in {name}{RESTORED}: set it to those."


def _is_set(setting: str) -> bool:
    return bool(os.environ.get(setting) or os.environ.get(f"{setting}_FILE"))


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{text.rstrip()}\n")
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
