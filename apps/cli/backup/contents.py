"""What a backup holds, checked from its first byte to its last before anything is done with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any

from apps.cli.backup.archive import FORMAT, MANIFEST, ArchiveReader, BadArchive, Member, read_archive
from apps.core.site_keys import KEY_FILES

DATABASE, SECRETS, SOURCE_SECRETS, UPLOADS = "database", "secrets", "source-secrets", "uploads"
_DUMP = b"PGDMP"  # how a dump of pg_dump's own format begins
_MOST_MANIFEST = 1024**2  # bytes
_LONGEST_WORD = 200  # characters of what is shown
_LONGEST_FILE_NAME = 255  # bytes, of a file


@dataclass(frozen=True, slots=True)
class Examined:
    """A whole backup. digest: identity of what it holds. sha256: of the file as it is, as `backup` prints it.

    signer: fingerprint of the key that signed it; "" without a signature. head: of the dump, with the definitions of
    tables. n_database_bytes: of the dump, unpacked. n_file_bytes: of keys, secrets and uploads.
    """

    manifest: dict[str, Any]
    digest: str
    sha256: str
    signer: str
    n_database_bytes: int
    n_file_bytes: int


def examine_backup(file: IO[bytes], identity: str = "") -> Examined:
    """Read a backup to its end.

    Raises:
        BadArchive: it is cut, changed, of another product or a newer format, encrypted for another key, or lacks what a
            restore needs.
    """
    hashed = HashedFile(file)
    members = read_archive(hashed, identity)  # type: ignore[arg-type]  # only `read` is used
    manifest = read_manifest(next(members, Member("", 0, b"")))
    checked = _Contents()
    for member in members:
        checked.add(member)
    checked.end()
    hashed.read()
    return Examined(
        manifest, members.digest, hashed.sha256.hexdigest(), members.signer, checked.n_database_bytes,
        checked.n_file_bytes,
    )  # fmt: skip


def open_again(file: IO[bytes], identity: str, examined: Examined) -> ArchiveReader:
    """The members of a backup that was examined, behind its manifest. At their end it has to be the same still."""
    members = read_archive(file, identity)
    if read_manifest(next(members, Member("", 0, b""))) != examined.manifest:
        raise changed_meanwhile()
    return members


def changed_meanwhile() -> BadArchive:
    return BadArchive("The backup was changed while it was restored: nothing of it was used.")


class HashedFile:
    """A file with the hash of what was read of it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.sha256.update(data)
        return data


def _is_word(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_WORD and value.isprintable()


def _is_instant(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "version": _is_word,
    "site": _is_word,
    "made_at": _is_instant,
    "postgresql": lambda value: type(value) is int and value > 0,
    "migrations": lambda value: isinstance(value, list) and all(_is_word(each) and "." in each for each in value),
    "salt": _is_word,
    "settings": lambda value: (
        isinstance(value, dict) and all(_is_word(each) for pair in value.items() for each in pair)
    ),
}


def read_manifest(first: Member) -> dict[str, Any]:
    """What a backup says about itself.

    Raises:
        BadArchive: it is of another product, or of a newer format, or a field is missing or makes no sense.
    """
    try:
        manifest = json.loads(first.content) if first.name == MANIFEST and len(first.content) < _MOST_MANIFEST else None
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("product") != "fairshare-web":
        raise BadArchive("The file is no backup of this product.")
    if manifest.get("format") != FORMAT:
        raise BadArchive(f"The backup has format {str(manifest.get('format'))[:20]}: restore it with a newer version.")
    for name, is_valid in _FIELDS.items():
        if name not in manifest or not is_valid(manifest[name]):
            raise BadArchive(f"The backup was changed: {MANIFEST} has no valid {name!r}.")
    return manifest


class _Contents:
    """The names of all members and what they hold, as they pass by."""

    def __init__(self) -> None:
        self._head = b""
        self.n_database_bytes = self.n_file_bytes = 0
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._last = Member("", 0, b"")

    def add(self, member: Member) -> None:
        is_next = member.name == self._last.name and member.piece == self._last.piece + 1 and member.piece > 1
        if not is_next:
            if member.piece > 1:
                raise BadArchive(f"The backup was changed: a piece of {member.name!r} is missing.")
            self._add_name(member.name)
        self._last = Member(member.name, member.piece, b"")
        if member.name == DATABASE:
            self._head = self._head or member.content
            self.n_database_bytes += len(member.content)
            return
        self.n_file_bytes += len(member.content)
        folder, _, name = member.name.partition("/")
        if folder == SECRETS and (name not in KEY_FILES.values() or not _is_key(member.content)):
            raise BadArchive(f"The backup was changed: {member.name!r} is no key of a site.")

    def end(self) -> None:
        needed = [*(f"{SECRETS}/{name}" for name in KEY_FILES.values()), DATABASE]
        for name in needed:
            if name not in self._files:
                raise BadArchive(f"The backup was changed: it lacks {name!r}, without which it can't be restored.")
        if not self._head.startswith(_DUMP):
            raise BadArchive(f"The backup was changed: {DATABASE!r} is no dump of PostgreSQL.")

    def _add_name(self, name: str) -> None:
        folder, _, rest = name.partition("/")
        if (folder not in (SECRETS, SOURCE_SECRETS, UPLOADS) or not rest) and name != DATABASE:
            raise BadArchive(f"The backup was changed: it has no place for a file {name[:_LONGEST_FILE_NAME]!r}.")
        parts = name.split("/")
        if any(not _is_name(part) for part in parts):
            raise BadArchive(
                f"The backup has a file with the name {name[:_LONGEST_FILE_NAME]!r}, which leads out of its folder."
            )
        above = {"/".join(parts[:n]) for n in range(1, len(parts))}
        if name in self._files or name in self._folders or above & self._files:
            raise BadArchive(f"The backup was changed: it has two files {name[:_LONGEST_FILE_NAME]!r}.")
        self._files.add(name)
        self._folders |= above


def _is_name(part: str) -> bool:
    is_short = len(part.encode("utf-8", "surrogateescape")) <= _LONGEST_FILE_NAME
    return part not in ("", ".", "..") and "\0" not in part and is_short


def _is_key(content: bytes) -> bool:
    try:
        return bool(content.decode("utf-8").split("\n")[0].strip())
    except UnicodeDecodeError:
        return False
