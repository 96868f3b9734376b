"""Unpack gzip and zstd: every member to its end and within bounds, or not at all.

A packed file may have several members (gzip) or frames (zstd), as `cat a.gz b.gz`, bgzip, pzstd and rotating writers
make them: all are read. Zero bytes may follow a gzip, as tapes add them. A file that is damaged, ends in the middle,
or has something else behind its end is refused. So is one that grows beyond its bounds, before it takes the memory.

What this product packed itself is unpacked where it is kept: blobs by their digest, documents of peers as rows of its
own tables. Backups check the sizes of their members as well.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator, Iterator
from typing import Any, Literal, NamedTuple, Protocol

import zstandard

MOST_UNPACKING = 200  # logs compress 5 to 30 times, a decompression bomb 1000 times
FREE_BYTES = 16 * 1024**2  # always allowed, whatever the packed size
MOST_WINDOW_BYTES = 32 * 1024**2  # memory limit for unpacking; zstd's levels up to 20 need at most this
_PIECE = 4 * 1024**2
_GZIP_STEP = 64 * 1024  # packed bytes
_ZSTD_STEP = 512  # four bytes may unpack to 128 KB, so a step yields at most 16 MB
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # a frame, or one that pzstd adds to be skipped

Packing = Literal["gzip", "zstd"]


class Bounds(NamedTuple):
    """Bounds of the unpacked bytes. n_bytes: None for any number that the expansion allows."""

    n_bytes: int | None = None
    expansion: int = MOST_UNPACKING
    free_bytes: int = FREE_BYTES


class NotUnpacked(ValueError):
    """A packed file that is refused."""


class Damaged(NotUnpacked):
    """It is damaged or cut, or something else follows. position: byte of the packed file."""

    def __init__(self, position: int, why: str, *, is_cut: bool = False) -> None:
        super().__init__(f"damaged at byte {position} ({why})")
        self.position, self.why, self.is_cut = position, why, is_cut


class Expands(NotUnpacked):
    """It unpacks to more than the bounds allow."""


class _Member(Protocol):
    """A gzip member or zstd frame that is being read."""

    @property
    def eof(self) -> bool: ...

    def step(self, data: bytes) -> tuple[bytes, bytes]:
        """The next unpacked bytes, few enough for memory, and the rest of the data.

        Raises:
            _Broken: the data is damaged.
        """


class _Broken(Exception):
    def __init__(self, n_good: int, why: str) -> None:
        super().__init__(why)
        self.n_good, self.why = n_good, why


def packing_of(head: bytes) -> Packing | None:
    """How a file with these first bytes is packed; None if it isn't, or in another way."""
    if head.startswith(_GZIP_MAGIC):
        return "gzip"
    return "zstd" if _ZSTD_MAGIC.match(head) else None


def unpack_gzip(data: bytes, bounds: Bounds) -> bytes:
    """All that a gzip file holds.

    Raises:
        Damaged: it is damaged or cut, or no gzip.
        Expands: it holds more than the bounds allow.
    """
    unpacker = Unpacker("gzip", bounds)
    return b"".join([*unpacker.feed(data), *unpacker.finish()])


class Unpacker:
    """Unpacks a stream in pieces."""

    def __init__(self, packing: Packing, bounds: Bounds) -> None:
        self._bounds = bounds
        self._is_zstd = packing == "zstd"
        self._n_step = _ZSTD_STEP if self._is_zstd else _GZIP_STEP
        self._member: _Member | None = None
        self._n_members = 0
        self.n_in = self.n_out = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what the next bytes unpack to.

        Raises:
            Damaged, Expands: the rest is refused.
        """
        for start in range(0, len(data), self._n_step):
            rest = data[start : start + self._n_step]
            while rest:
                rest = self._next_member(rest) if self._member is None else (yield from self._step(self._member, rest))

    def _step(self, member: _Member, data: bytes) -> Generator[bytes, None, bytes]:
        """Yield the next unpacked bytes; returns the rest of the data."""
        try:
            unpacked, rest = member.step(data)
        except _Broken as broken:
            raise Damaged(self.n_in + broken.n_good, broken.why) from broken
        self.n_in += len(data) - len(rest)
        yield self._counted(unpacked)
        if member.eof:
            self._member = None
        return rest

    def finish(self) -> Iterator[bytes]:
        """Yield what is left at the end of the file.

        Raises:
            Damaged: the file ends too early.
        """
        while self._member is not None and not self._member.eof:
            unpacked, _ = self._member.step(b"")
            if not unpacked:
                break
            yield self._counted(unpacked)
        if self._member is not None and not self._member.eof:
            raise Damaged(self.n_in, "it ends in the middle", is_cut=True)
        if not self._n_members:
            raise Damaged(self.n_in, "it is empty", is_cut=True)

    def _next_member(self, data: bytes) -> bytes:
        """Begin a member at the start of the data, behind padding."""
        if self._n_members and not self._is_zstd:
            kept = data.lstrip(b"\0")
            self.n_in += len(data) - len(kept)
            if kept and not _GZIP_MAGIC.startswith(kept[:2]):
                raise Damaged(self.n_in, "something else follows its end")
            data = kept
        if data:
            self._member = _Frame() if self._is_zstd else _GzipMember()
            self._n_members += 1
        return data

    def _counted(self, unpacked: bytes) -> bytes:
        self.n_out += len(unpacked)
        most = max(self._bounds.expansion * self.n_in, self._bounds.free_bytes)
        if self.n_out > (most if self._bounds.n_bytes is None else min(most, self._bounds.n_bytes)):
            raise Expands("it unpacks to more than is allowed")
        return unpacked


class _GzipMember:
    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._member.eof

    def step(self, data: bytes) -> tuple[bytes, bytes]:
        before = self._member.copy()
        try:
            unpacked = self._member.decompress(data, _PIECE)
        except zlib.error as error:
            why = str(error).removeprefix("Error -3 while decompressing data: ")
            raise _Broken(_n_good(before, data), why) from error
        return unpacked, self._member.unused_data if self._member.eof else self._member.unconsumed_tail


def _n_good(before: Any, data: bytes) -> int:
    """Number of bytes of `data` that unpack without an error."""
    good, bad = 0, len(data)
    while bad - good > 1:
        middle = (good + bad) // 2
        member = before.copy()
        try:
            rest = data[:middle]
            while rest:
                member.decompress(rest, _PIECE)
                rest = member.unconsumed_tail
        except zlib.error:
            bad = middle
        else:
            good = middle
    return good


class _Frame:
    def __init__(self) -> None:
        self._frame = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW_BYTES).decompressobj()

    @property
    def eof(self) -> bool:
        return self._frame.eof

    def step(self, data: bytes) -> tuple[bytes, bytes]:
        if not data:
            return b"", b""  # it holds nothing back
        try:
            unpacked = self._frame.decompress(data)
        except zstandard.ZstdError as error:
            raise _Broken(0, _why(error)) from error
        return unpacked, self._frame.unused_data if self._frame.eof else b""


def _why(error: zstandard.ZstdError) -> str:
    text = str(error)
    if "too much memory" in text:
        return "it needs over 32 MB to unpack: pack it without --long and --ultra"
    return text.rpartition(": ")[2]
