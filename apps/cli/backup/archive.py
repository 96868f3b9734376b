"""The file format of a backup: a tar file, packed by zstd, and encrypted by age if a recipient is given.

The first member is `manifest.json`. The last one is `SHA256SUMS`, with the sum of each other: an archive without it was
cut. What has no known size, as the dump of the database, is split into numbered members, so that only one piece is ever
in memory. A backup can be unpacked without this product: `age --decrypt | zstd --decompress | tar --extract`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import pyrage
import zstandard

from apps.core.errors import Invalid

FORMAT = 1
PIECE = 8 * 1024**2  # bytes of a numbered member
MANIFEST, SUMS = "manifest.json", "SHA256SUMS"
_AGE = b"age-encryption.org/"
_ZSTD = b"\x28\xb5\x2f\xfd"
_LEVEL = 3
_READ = 64 * 1024


class BadArchive(Invalid):
    """The file is no whole backup of this product, or can't be read with this key."""

    code = "bad_backup"


@dataclass(frozen=True, slots=True)
class Member:
    """One member. name: without the number of a piece. piece: 0 where the content is whole."""

    name: str
    piece: int
    content: bytes


class ArchiveWriter:
    def __init__(self, out: IO[bytes], manifest: Mapping[str, Any]) -> None:
        self._packed = zstandard.ZstdCompressor(level=_LEVEL).stream_writer(out, closefd=False)
        self._tar = tarfile.open(fileobj=self._packed, mode="w|")  # noqa: SIM115 - closed by `finish`
        self._sums: list[str] = []
        self.add(MANIFEST, json.dumps({"format": FORMAT, **manifest}, indent=1, sort_keys=True).encode())

    def add(self, name: str, content: bytes) -> None:
        self._sums.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
        self._put(name, content)

    def add_pieces(self, name: str, stream: IO[bytes]) -> int:
        """Add a stream of any length; returns its bytes."""
        n_bytes, number = 0, 1
        while piece := _read_fully(stream, PIECE):
            self.add(f"{name}/{number:06d}", piece)
            n_bytes, number = n_bytes + len(piece), number + 1
        return n_bytes

    def finish(self) -> None:
        self._put(SUMS, "".join(self._sums).encode())
        self._tar.close()
        self._packed.close()  # type: ignore[no-untyped-call]

    def _put(self, name: str, content: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(content), 0o600
        self._tar.addfile(member, io.BytesIO(content))


def read_archive(file: IO[bytes], identity: str = "") -> Iterator[Member]:
    """The members in order, each checked against its sum when the archive has ended.

    Raises:
        BadArchive: also after the last member, so nothing may be trusted before the end.
    """
    sums: list[str] = []
    is_whole = False
    with _opened(file, identity) as stream:
        unpacked = _Unpacked(stream)
        try:
            with tarfile.open(fileobj=cast(IO[bytes], unpacked), mode="r|") as archive:
                for entry in archive:
                    member = archive.extractfile(entry)
                    content = member.read() if member is not None else b""
                    if len(content) != entry.size:
                        raise BadArchive("The backup was cut: it ends within a file.")
                    is_whole = entry.name == SUMS
                    if not is_whole:
                        sums.append(f"{hashlib.sha256(content).hexdigest()}  {entry.name}\n")
                        yield _member(entry.name, content)
                    elif content != "".join(sums).encode():
                        raise BadArchive("The backup was changed: its checksums differ.")
            while unpacked.read(PIECE):  # what ends the file is checked, too
                pass
        except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
            raise BadArchive(f"The backup was cut or damaged: {error}.") from error
    if not is_whole:
        raise BadArchive("The backup was cut: its end is missing.")


def read_manifest(first: Member) -> dict[str, Any]:
    """What a backup says about itself.

    Raises:
        BadArchive: it is of another product, or of a newer format.
    """
    try:
        manifest = json.loads(first.content) if first.name == MANIFEST else None
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("product") != "fairshare-web":
        raise BadArchive("The file is no backup of this product.")
    if manifest.get("format") != FORMAT:
        raise BadArchive(f"The backup has format {manifest.get('format')}: restore it with a newer version.")
    return manifest


@contextlib.contextmanager
def encrypted(out: IO[bytes], recipient: str) -> Iterator[IO[bytes]]:
    """A file whose content is encrypted for the recipient, an age or SSH public key, and written to `out`."""
    if not recipient:
        yield out
        return
    key = _recipient(recipient)
    with _piped(lambda source: pyrage.encrypt_io(source, out, [key]), writes=True) as plain:
        yield plain


@contextlib.contextmanager
def _opened(file: IO[bytes], identity: str) -> Iterator[IO[bytes]]:
    head = file.read(len(_AGE))
    whole = _Joined(head, file)
    if head.startswith(_ZSTD):
        yield whole  # type: ignore[misc]  # only `read` is used
    elif head == _AGE:
        if not identity:
            raise BadArchive("The backup is encrypted: name the file of its secret key with --identity.")
        key = _identity(identity)
        with _piped(lambda sink: pyrage.decrypt_io(whole, sink, [key]), writes=False) as plain:
            yield plain
    else:
        raise BadArchive("The file is no backup of this product.")


def _recipient(text: str) -> Any:
    try:
        kind = pyrage.ssh if text.startswith("ssh-") else pyrage.x25519
        return kind.Recipient.from_str(text)
    except Exception as error:
        raise Invalid(f"{text[:80]!r} is no public key of age or SSH.") from error


def _identity(text: str) -> Any:
    keys = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    try:
        if "PRIVATE KEY" in text:
            return pyrage.ssh.Identity.from_buffer(text.encode())
        return pyrage.x25519.Identity.from_str(keys[0])
    except Exception as error:
        raise BadArchive("The file of the secret key holds no secret key of age or SSH.") from error


@contextlib.contextmanager
def _piped(convert: Callable[[IO[bytes]], object], *, writes: bool) -> Iterator[IO[bytes]]:
    """One end of a pipe; a thread converts at the other. writes: the caller writes what the thread reads.

    An error of the thread is raised in place of the caller's, which follows from it.
    """
    reading, writing = os.pipe()
    theirs, ours = (reading, writing) if writes else (writing, reading)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with os.fdopen(theirs, "rb" if writes else "wb") as end:
                convert(end)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="backup-age", daemon=True)
    thread.start()
    try:
        with os.fdopen(ours, "wb" if writes else "rb") as end:
            yield end
    except BaseException:
        thread.join()
        _raise(failed, writes=writes)
        raise
    thread.join()
    _raise(failed, writes=writes)


def _raise(failed: Iterable[BaseException], *, writes: bool) -> None:
    for error in failed:
        if isinstance(error, BrokenPipeError):  # the reader had enough, and says why
            continue
        if writes or not isinstance(error, OSError | pyrage.DecryptError):
            raise error
        message = f"The backup can't be decrypted: it was cut or changed, or another key encrypted it ({error})."
        raise BadArchive(message) from error


class _Unpacked:
    """The content of a packed file; at its end the packed data must have ended, too."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._unpacker = zstandard.ZstdDecompressor().decompressobj()
        self._unpacked, self._at = b"", 0  # what was read to where it was handed on

    def read(self, size: int) -> bytes:
        while len(self._unpacked) - self._at < size and not self._unpacker.eof:
            packed = self._file.read(_READ)
            if not packed:
                raise BadArchive("The backup was cut: its end is missing.")
            self._unpacked, self._at = self._unpacked[self._at :] + self._unpacker.decompress(packed), 0
        content = self._unpacked[self._at : self._at + size]
        self._at += len(content)
        if not content and (self._unpacker.unused_data or self._file.read(1)):
            raise BadArchive("The backup was changed: something follows its end.")
        return content


class _Joined:
    """A file whose first bytes were read before."""

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._head, self._file = head, file

    def read(self, size: int = -1) -> bytes:
        if self._head:
            head, self._head = (self._head, b"") if size < 0 else (self._head[:size], self._head[size:])
            return head + self._file.read() if size < 0 else head
        return self._file.read(size)


def _member(name: str, content: bytes) -> Member:
    folder, _, last = name.rpartition("/")
    if len(last) == 6 and last.isdigit():
        return Member(folder, int(last), content)
    return Member(name, 0, content)


def _read_fully(stream: IO[bytes], size: int) -> bytes:
    pieces = []
    while size and (piece := stream.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def safe_target(folder: Path, name: str) -> Path:
    """Where a member belongs below a folder.

    Raises:
        BadArchive: its name leads out of the folder.
    """
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()) or path == folder.resolve():
        raise BadArchive(f"The backup has a file with the name {name!r}, which leads out of its folder.")
    return path
