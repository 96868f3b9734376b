"""Files that are packed: gzip and zstd are unpacked within bounds, other archives are rejected by name."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import zstandard

from apps.core.errors import Invalid, TooLarge
from apps.usage.parsers.lines import FREE_EXPANSION_BYTES, MOST_EXPANSION, GzipCheck, is_gzip

HEAD = 64 * 1024
MOST_WINDOW_BYTES = 32 * 1024**2  # memory limit for unpacking; zstd's levels up to 20 need at most this
_ZSTD_MAGIC = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # a frame, or one that pzstd adds to be skipped
_MAGIC_BYTES = 4
_ZSTD_STEP = 512  # bytes per step: four bytes may unpack to 128 KB, so a step yields at most 16 MB
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


class Check(Protocol):
    """Unpacks a file in a stream without storing it, and names the byte at which it is damaged."""

    n_out: int

    def feed(self, data: bytes) -> None: ...

    def finish(self) -> None: ...


def packing_check(head: bytes) -> Check | None:
    """The check for a file with these first bytes; None for an unpacked file.

    Raises:
        Invalid: an unsupported archive; the message names it and the remedy.
    """
    if is_gzip(head):
        return GzipCheck()
    if is_zstd(head):
        return ZstdCheck()
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
    if inside and (is_gzip(head) or is_zstd(head)):
        raise Invalid(
            f"{what} packed once more. Unpack it once and send it again. Nothing was imported.", code="archive"
        )
    for magic, name in _OTHER:
        if head.startswith(magic):
            raise Invalid(f"{what} {name}. Nothing was imported.", code="not_text")


def is_zstd(head: bytes) -> bool:
    return _ZSTD_MAGIC.match(head) is not None


def open_packed(path: Path) -> BinaryIO:
    """Open a file, unpacked while reading. `store` has checked it to its end."""
    with _open_packed(path) as unpacked:
        head = unpacked.read(HEAD)
    is_of_returns = b"\r" in head and b"\n" not in head
    return cast(BinaryIO, _ReturnsAsLineEnds(_open_packed(path))) if is_of_returns else _open_packed(path)


def _open_packed(path: Path) -> BinaryIO:
    with path.open("rb") as packed:
        head = packed.read(_MAGIC_BYTES)
    if is_gzip(head):
        return cast(BinaryIO, gzip.open(path, "rb"))
    if is_zstd(head):
        return cast(BinaryIO, _unpacker().stream_reader(path.open("rb"), read_across_frames=True, closefd=True))
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


class ZstdCheck:
    """Checks that a file is one or more whole zstd frames that don't expand too much."""

    def __init__(self) -> None:
        self._frame = _unpacker().decompressobj()
        self._n_in = 0
        self.n_out = 0
        self._in_frame = False

    def feed(self, data: bytes) -> None:
        """Check the next bytes.

        Raises:
            Invalid: the bytes are damaged; names the position.
            TooLarge: they unpack to far more than any log would.
        """
        for start in range(0, len(data), _ZSTD_STEP):
            rest = data[start : start + _ZSTD_STEP]
            while rest:
                rest = self._step(rest)

    def finish(self) -> None:
        """Check the end of the file.

        Raises:
            Invalid: the file ends too early.
        """
        if self._in_frame:
            raise self._broken("it ends in the middle")

    def _step(self, data: bytes) -> bytes:
        try:
            self.n_out += len(self._frame.decompress(data))
        except zstandard.ZstdError as error:
            raise self._broken(_why(error)) from error
        rest: bytes = self._frame.unused_data if self._frame.eof else b""
        self._n_in += len(data) - len(rest)
        self._in_frame = not self._frame.eof
        if self.n_out > max(MOST_EXPANSION * self._n_in, FREE_EXPANSION_BYTES):
            raise TooLarge(
                f"The file unpacks to over {MOST_EXPANSION} times its size, more than any log. Nothing was imported.",
                code="expands_too_much",
            )
        if self._frame.eof:
            self._frame = _unpacker().decompressobj()
        return rest

    def _broken(self, why: str) -> Invalid:
        return Invalid(
            f"The zstd file is damaged near byte {self._n_in} ({why}). Nothing was imported; copy the file again.",
            code="corrupt_zstd",
        )


def _unpacker() -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW_BYTES)


def _why(error: zstandard.ZstdError) -> str:
    text = str(error)
    if "too much memory" in text:
        return "it needs over 32 MB to unpack: pack it without --long and --ultra"
    return text.rpartition(": ")[2]
