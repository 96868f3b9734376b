"""Files on their way into the database: kept in var/uploads, readable by this service alone."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple
from uuid import uuid4

from django.conf import settings

from apps.core.errors import Invalid, TooLarge
from apps.usage.parsers import packing

KEPT = timedelta(hours=24)  # after a dry run, so that it can be confirmed
_READ = 256 * 1024
_HEAD = 64 * 1024


class Stored(NamedTuple):
    """A file that is whole: its name below var/uploads, its sizes, its digest and how it begins, unpacked."""

    name: str
    n_bytes: int
    n_unpacked: int
    sha256: str
    head: bytes


def store(file: IO[bytes]) -> Stored:
    """Copy a stream, hash it, and read a packed one to its end before it is used.

    Raises:
        Invalid: it is empty, an archive, or broken, with the byte.
        TooLarge: over the site's limit, or it unpacks to absurdly much.
    """
    name = f"{uuid4()}.usage"
    path = path_of(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        n_bytes, n_unpacked, digest = _copy(file, path)
        with open_unpacked(name) as unpacked:
            head = unpacked.read(_HEAD)
        packing.refuse_archives(head, inside=True)
    except BaseException:
        remove(name)
        raise
    return Stored(name, n_bytes, n_unpacked, digest, head)


def _copy(file: IO[bytes], path: Path) -> tuple[int, int, str]:
    digest = hashlib.sha256()
    n_bytes = 0
    check: packing.Check | None = None
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
        while data := file.read(_READ):
            if not n_bytes:
                check = packing.check_of(data)
            n_bytes += len(data)
            if n_bytes > settings.FAIRSHARE_UPLOAD_BYTES:
                megabytes = settings.FAIRSHARE_UPLOAD_BYTES // 1024**2
                raise TooLarge(f"A file has at most {megabytes} MB: split it, or raise FAIRSHARE_UPLOAD_BYTES.")
            digest.update(data)
            if check is not None:
                check.feed(data)
            copy.write(data)
        copy.flush()
        os.fsync(copy.fileno())
    if not n_bytes:
        raise Invalid("The file is empty.", code="empty_file")
    if check is not None:
        check.finish()
    return n_bytes, check.n_out if check is not None else n_bytes, digest.hexdigest()


def open_unpacked(name: str) -> BinaryIO:
    """The stored file, unpacked as it is read."""
    return packing.open_unpacked(path_of(name))


def exists(name: str) -> bool:
    return bool(name) and path_of(name).is_file()


def remove(name: str) -> None:
    if name:
        with suppress(FileNotFoundError):
            path_of(name).unlink()


def remove_stray(known: Iterable[str], *, at: datetime) -> None:
    """Unused files: of requests that died, of dry runs that were never confirmed."""
    kept = set(known)
    directory = path_of("x").parent
    for path in directory.glob("*.usage") if directory.is_dir() else ():
        with suppress(FileNotFoundError):
            if path.name not in kept and path.stat().st_mtime < (at - KEPT).timestamp():
                path.unlink()


def path_of(name: str) -> Path:
    return Path(settings.VAR) / "uploads" / Path(name).name
