"""Files that are packed: gzip and zstd are unpacked within bounds, other archives are rejected by name."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from apps.core.errors import Invalid, TooLarge
from apps.core.packing import (
    MOST_UNPACKING,
    MOST_WINDOW_BYTES,
    Bounds,
    Damaged,
    Expands,
    Packing,
    Unpacker,
    packing_of,
)

HEAD = 64 * 1024
_MAGIC_BYTES = 4
_PACKED = "Unpack it and send its files one by one: plain, or packed with gzip or zstd."
_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", "a zip archive, or a document of an office program"),
    (0, b"PK\x05\x06", "an empty zip archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"\xfd7zXZ\x00", "packed with xz"),
    (0, b"BZh", "packed with bzip2"),
    (0, b"Rar!\x1a\x07", "a rar archive"),
    (0, b"\x1f\x9d", "packed with compress"),
    (0, b"\x04\x22\x4d\x18", "packed with lz4"),
    (0, b"LZIP", "packed with lzip"),
    (257, b"ustar", "a tar archive"),
)
_OTHER: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xfe", "text in UTF-16: save it as UTF-8"),
    (b"\xfe\xff", "text in UTF-16: save it as UTF-8"),
    (b"SQLite format 3\0", "an SQLite database: export its jobs as text"),
    (b"PAR1", "a Parquet file: export its jobs as text"),
    (b"%PDF", "a PDF document: send the accounting file itself"),
    (b"\x7fELF", "a program"),
)


class PackingCheck:
    """Unpacks a file in a stream without storing it, and names the byte at which it is damaged."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self._unpacker = Unpacker(packing, Bounds())

    @property
    def n_out(self) -> int:
        return self._unpacker.n_out

    def feed(self, data: bytes) -> None:
        """Check the next bytes.

        Raises:
            Invalid: the bytes are damaged; names the position.
            TooLarge: they unpack to far more than any log would.
        """
        self._run(self._unpacker.feed(data))

    def finish(self) -> None:
        """Check the end of the file.

        Raises:
            Invalid: the file ends too early.
        """
        self._run(self._unpacker.finish())

    def _run(self, pieces: Iterator[bytes]) -> None:
        try:
            for _ in pieces:
                pass
        except Damaged as damaged:
            place = "near byte" if self._packing == "zstd" else "at byte"
            problem = f"The {self._packing} file is damaged {place} {damaged.position} ({damaged.why})."
            message = f"{problem} Nothing was imported; copy the file again."
            raise Invalid(message, code=f"corrupt_{self._packing}") from damaged
        except Expands as expands:
            raise TooLarge(
                f"The file unpacks to over {MOST_UNPACKING} times its size, more than any log. Nothing was imported.",
                code="expands_too_much",
            ) from expands


def packing_check(head: bytes) -> PackingCheck | None:
    """The check for a file with these first bytes; None for an unpacked file.

    Raises:
        Invalid: an unsupported archive; the message names it and the remedy.
    """
    packing = packing_of(head)
    if packing is not None:
        return PackingCheck(packing)
    refuse_archives(head)
    return None


def refuse_archives(head: bytes, *, inside: bool = False) -> None:
    """Reject archives and binary files by their first bytes.

    Raises:
        Invalid: the file, or with `inside` its unpacked content, is an archive or not text.
    """
    what = "The packed content of the file is" if inside else "The file is"
    for offset, magic, name in _MAGIC:
        if head.startswith(magic, offset) and not (magic == b"BZh" and head[4:10] != b"1AY&SY"):
            raise Invalid(f"{what} {name}. {_PACKED} Nothing was imported.", code="archive")
    if inside and packing_of(head) is not None:
        raise Invalid(
            f"{what} packed once more. Unpack it once and send it again. Nothing was imported.", code="archive"
        )
    for magic, name in _OTHER:
        if head.startswith(magic):
            raise Invalid(f"{what} {name}. Nothing was imported.", code="not_text")


def open_packed(path: Path) -> BinaryIO:
    """Open a file, unpacked while reading. `store` has checked it to its end."""
    with _open_packed(path) as unpacked:
        head = unpacked.read(HEAD)
    is_of_returns = b"\r" in head and b"\n" not in head
    return cast(BinaryIO, _ReturnsAsLineEnds(_open_packed(path))) if is_of_returns else _open_packed(path)


def _open_packed(path: Path) -> BinaryIO:
    with path.open("rb") as packed:
        head = packed.read(_MAGIC_BYTES)
    packing = packing_of(head)
    if packing == "gzip":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if packing == "zstd":
        unpacker = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW_BYTES)
        return cast(BinaryIO, unpacker.stream_reader(path.open("rb"), read_across_frames=True, closefd=True))
    return path.open("rb")


class _ReturnsAsLineEnds(io.RawIOBase):
    """A file whose lines end by a carriage return alone, read with line feeds in their place: positions stay."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def read(self, size: int | None = -1) -> bytes:
        return self._file.read(-1 if size is None else size).replace(b"\r", b"\n")

    def close(self) -> None:
        self._file.close()
        super().close()
