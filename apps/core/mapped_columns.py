"""Columns in a file that all processes of a host map into memory, so that they share one copy of it.

Layout: the CRC-32 of the rest (hex, 64 bytes), then columns and meta as in `blobs`, without compression. A CRC finds
damage in a third of the time of SHA-256, and each process that maps a file checks it. A file is complete once it has
its name, and is never changed: a new one takes its place, and a process that has mapped the old one keeps it.

A mapped file holds a descriptor (before Python 3.13) and its disk blocks until the last view of it is freed: caches of
such columns are bounded by number, too. It ends the process that reads beyond the end of a cut file. A small file
is read instead, which holds and risks nothing.

The goal of `bench web_memory`, ten processes of a million entries in 1,500 MB, needs it: each has 118 MB of its own,
and would have 244 MB if it read the files.
"""

from __future__ import annotations

import logging
import mmap
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy.typing as npt

from apps.core.blobs import Column, CorruptBlob, raw_parts, read_raw

logger = logging.getLogger(__name__)
_CHECKSUM_BYTES = 64  # columns begin at multiples of 16
_ABANDONED_S = 600.0
MAPPED_BYTES = 1024**2  # a file of so many bytes is mapped; a copy of a smaller one costs little in each process

Columns = tuple[Mapping[str, Any], Mapping[str, Any]]  # columns and meta


def find_columns(path: Path, *, key: str) -> Columns | None:
    """As `map_columns`; None without such a file. One that can't be used is logged."""
    try:
        return map_columns(path, key=key)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        logger.warning("%s can't be used and is made again: %s", path, error)
        return None


def share_columns(path: Path, columns: Columns, *, key: str) -> Columns:
    """Write the file and return its columns; those of the caller if it can't be written, which is logged."""
    try:
        return map_columns(path, key=key, written=write_columns(path, *columns, key=key))
    except (OSError, ValueError) as error:
        logger.warning("%s can't be shared, this process keeps it in its own memory: %s", path, error)
        return columns


def map_or_make(path: Path, *, key: str, make: Callable[[], Columns]) -> Columns:
    """Columns from the file, which is written if there is none that can be read."""
    return find_columns(path, key=key) or share_columns(path, make(), key=key)


def delete_abandoned(folder: Path, pattern: str = ".*") -> None:
    """Delete unfinished files of processes that were killed. Raises OSError."""
    for path in folder.glob(pattern):
        if time.time() - path.stat().st_mtime > _ABANDONED_S:
            path.unlink(missing_ok=True)


def write_columns(path: Path, columns: Mapping[str, Column], meta: Mapping[str, Any], *, key: str) -> int:
    """Write a file that only its owner may read; returns its checksum. key: of its content, which a reader asks for.

    It is read-only: a file that is cut while it is mapped ends the processes that read beyond its end.

    Raises:
        OSError: it can't be written; nothing has the name then.
    """
    checksum = 0
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as stream:
            stream.write(b"\0" * _CHECKSUM_BYTES)
            for part in raw_parts(columns, {"key": key, "meta": dict(meta)}, is_packed=False):
                checksum = crc32(part, checksum)
                stream.write(part)
            stream.seek(0)
            stream.write(_named(checksum))
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    return checksum


def map_columns(path: Path, *, key: str, written: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns, as views of the file or of a copy of a small one, and the meta.

    written: checksum of a file that the caller has just written; one that says so isn't read whole.

    Raises:
        OSError: it can't be read, FileNotFoundError if there is none.
        CorruptBlob: it is damaged, or has another key.
    """
    with path.open("rb") as stream:
        n_bytes = os.fstat(stream.fileno()).st_size
        if n_bytes <= _CHECKSUM_BYTES:
            raise CorruptBlob("The file is cut.")
        content = memoryview(_mapped(stream.fileno()) if n_bytes >= MAPPED_BYTES else stream.read())
    raw = content[_CHECKSUM_BYTES:]
    named = bytes(content[:_CHECKSUM_BYTES])
    if (written is None or named != _named(written)) and named != _named(crc32(raw)):
        raise CorruptBlob("The checksum doesn't match.")
    columns, head = read_raw(raw)
    if head.get("key") != key:
        raise CorruptBlob(f"It is of {head.get('key')}.")
    return columns, head["meta"]


def _named(checksum: int) -> bytes:
    """How the file begins."""
    return f"{checksum:08x}".ljust(_CHECKSUM_BYTES).encode()


def is_mapped(column: npt.NDArray[Any]) -> bool:
    """Whether the values are those of a mapped file, which cost the process no memory of its own."""
    base: Any = column
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base is not None


def _mapped(descriptor: int) -> mmap.mmap:
    if sys.version_info >= (3, 13):
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ, trackfd=False)
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
