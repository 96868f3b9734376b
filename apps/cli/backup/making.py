"""Make a backup: everything of an instance that is not code, as of one instant, while it works."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.migrations.recorder import MigrationRecorder

from apps.cli.backup import programs
from apps.cli.backup.archive import ArchiveWriter, encrypted
from apps.cli.backup.contents import DATABASE, SECRETS, SOURCE_SECRETS, UPLOADS, examine_backup
from apps.cli.backup.drafts import BACKUP_FOLDER, abandoned_files, draft_file, draft_folder
from apps.core.errors import Invalid, Unavailable
from apps.core.release import __version__, revision
from apps.core.signing import SigningKey
from apps.core.site_keys import KEY_FILES, site_keys
from apps.runs.fault_points import fault_point

PLAIN, ENCRYPTED = ".backup", ".backup.age"
# Settings of a place, which differ where a backup is restored, and secrets, of which not even a digest is stored.
_OF_THE_PLACE = re.compile(r"FAIRSHARE_(VAR|PORT|CLOCK|TEST.*|SUPERVISED|.*_FILE|.*(PASSWORD|SECRET|PEPPER|KEY|URL).*)")
_NAME_FORM = "fairshare-%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"fairshare-\d{8}T\d{6}Z\.backup(\.age)?")


@dataclass(frozen=True, slots=True)
class MadeBackup:
    """n_bytes: of the file. n_database_bytes: of the dump in it, unpacked.

    signer: fingerprint of the site's key; "" where it can't be read.
    """

    path: Path
    n_bytes: int
    n_database_bytes: int
    sha256: str
    signer: str


@dataclass(frozen=True, slots=True)
class WrittenBackup:
    """As a `MadeBackup`, of a stream."""

    n_database_bytes: int
    sha256: str
    signer: str


def make_backup(path: Path, *, recipient: str = "", at: datetime) -> MadeBackup:
    """Write a backup beside `path`, verify it, and rename it: there is never half a file of this name.

    recipient: the public key of age or SSH for which it is encrypted.

    Raises:
        Invalid: there is a file already, or the recipient is no key.
        ProgramFailed: pg_dump is missing, or failed.
    """
    if path.exists():
        raise Invalid(f"There is a file {path} already: choose another name, or remove it.")
    for abandoned in abandoned_drafts(path.parent, path.name):
        abandoned.unlink(missing_ok=True)
    with draft_file(path) as (draft, file):
        written = write_backup(file, recipient=recipient, at=at)
        file.flush()
        os.fsync(file.fileno())
        _verify(draft, written, is_encrypted=bool(recipient))
        draft.rename(path)
    return MadeBackup(path, path.stat().st_size, written.n_database_bytes, written.sha256, written.signer)


def write_backup(out: IO[bytes], *, recipient: str = "", at: datetime) -> WrittenBackup:
    """Write a backup to a stream."""
    hashed = _HashedOutput(out)
    key = _signing_key(at)
    with encrypted(cast(IO[bytes], hashed), recipient) as plain:
        n_bytes = _write_archive(plain, key, at)
    return WrittenBackup(n_bytes, hashed.sha256.hexdigest(), key.public.fingerprint if key else "")


def _write_archive(out: IO[bytes], key: SigningKey | None, at: datetime) -> int:
    """Returns the bytes of the dump in it."""
    with draft_folder(Path(settings.VAR), BACKUP_FOLDER) as uploads:
        _hold_uploads(uploads)
        # Uploads that the snapshot names are there now, or were held before: imports remove theirs when they end.
        with _snapshot() as (server, snapshot, migrations):
            _hold_uploads(uploads)
            archive = ArchiveWriter(out, _manifest(at, server, migrations))
            for name, values in site_keys().items():
                archive.add(f"{SECRETS}/{KEY_FILES[name]}", "\n".join(values).encode())
            for folder, prefix in ((Path(settings.FAIRSHARE_SECRETS_DIR), SOURCE_SECRETS), (uploads, UPLOADS)):
                for path in _files(folder):
                    with path.open("rb") as file:
                        archive.add_pieces(f"{prefix}/{path.relative_to(folder)}", file)
            with programs.dumping(server, snapshot) as dump:
                n_bytes = archive.add_pieces(DATABASE, dump)
                fault_point("backup_dumped")
        archive.finish(key)
    return n_bytes


def _signing_key(at: datetime) -> SigningKey | None:
    """The site's own; none where its SECRET_KEY was lost, or in a database of an older release: both need a backup."""
    from apps.federation.documents.site_keys import load_keys  # preparation imports this module before the models

    try:
        with transaction.atomic():
            return load_keys(at=at).key
    except (Unavailable, DatabaseError):
        return None


def read_identity(path: str) -> str:
    """The text of a file with a secret key; "" without a file."""
    return Path(path).read_text(encoding="utf-8", errors="replace") if path else ""


def remove_old(folder: Path, keep: int, *, at: datetime) -> Sequence[Path]:
    """Remove all but the newest backups of a folder that `name_of` named."""
    made = backups_in(folder, at=at)
    old = made[: max(len(made) - keep, 0)]
    for path in old:
        path.unlink()
    return old


def backups_in(folder: Path, *, at: datetime) -> list[Path]:
    """Backups that `name_of` named, the oldest first; without those of a clock that was ahead."""
    named = (path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    return sorted(path for path in named if instant_of(path) <= at)


def abandoned_drafts(folder: Path, name: str = "") -> Sequence[Path]:
    """What killed backups left in a folder under names of `name_of`, and under `name`."""
    wanted = re.compile(f"{_NAME.pattern}|{re.escape(name)}" if name else _NAME.pattern)
    return abandoned_files(folder, wanted) if folder.is_dir() else []


def instant_of(backup: Path) -> datetime:
    """As its name has it, in whole seconds."""
    return datetime.strptime(backup.name.partition(".")[0], _NAME_FORM).replace(tzinfo=UTC)


def name_of(at: datetime, *, is_encrypted: bool) -> str:
    return at.strftime(_NAME_FORM) + (ENCRYPTED if is_encrypted else PLAIN)


def settings_fingerprint(salt: str) -> dict[str, str]:
    """A digest of each setting that is set, so that a restore can name those that differ, and a backup shows none."""
    return {
        name: hashlib.sha256(f"{salt}\0{name}\0{value}".encode()).hexdigest()[:16]
        for name, value in sorted(os.environ.items())
        if name.startswith("FAIRSHARE_") and not _OF_THE_PLACE.fullmatch(name)
    }


@contextlib.contextmanager
def _snapshot() -> Iterator[tuple[int, str, list[str]]]:
    """(major version of the server, name of an exported snapshot, migrations), as long as the block lasts."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        cursor.execute("SELECT current_setting('server_version_num')::int / 10000, pg_export_snapshot()")
        server, snapshot = cursor.fetchone()
        applied = MigrationRecorder(connection).applied_migrations()
        yield int(server), str(snapshot), sorted(f"{app}.{name}" for app, name in applied)


def _manifest(at: datetime, server: int, migrations: Sequence[str]) -> dict[str, Any]:
    salt = secrets.token_hex(16)
    return {
        "product": "fairshare-web",
        "version": __version__,
        "revision": revision(),
        "made_at": at.isoformat(),
        "site": settings.FAIRSHARE_SITE,
        "postgresql": server,
        "migrations": list(migrations),
        "salt": salt,
        "settings": settings_fingerprint(salt),
    }


def _hold_uploads(folder: Path) -> None:
    """Link all stored uploads into a folder, where nothing removes them."""
    uploads = Path(settings.VAR) / "uploads"
    for path in _files(uploads):
        held = folder / path.relative_to(uploads)
        held.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            try:
                os.link(path, held)
            except OSError as error:
                if isinstance(error, FileExistsError | FileNotFoundError):
                    raise
                shutil.copyfile(path, held)  # var has parts on other file systems


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []


def _verify(path: Path, written: WrittenBackup, *, is_encrypted: bool) -> None:
    """Read the file again: its bytes, and, if it can be read without a secret key, each checksum in it."""
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != written.sha256:
            raise Invalid("The backup is not on disk as it was written: check the disk.")
        if not is_encrypted:
            file.seek(0)
            examine_backup(file)


class _HashedOutput:
    """A file with the hash of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()
