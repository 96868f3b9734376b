"""The file format of a backup: a tar file, packed by zstd, and encrypted by age if a recipient is given.

The first member is `manifest.json`. The last one is `SHA256SUMS`, with the sum of each other: an archive without it was
cut. Before it, `SIGNATURE` holds a signature of the sums so far by the site's key. What has no known size, as the dump
of the database, is split into numbered members: only one piece is ever in memory, and a reader refuses a larger one
before it takes memory for it. A backup can be unpacked without this product:
`age --decrypt | zstd --decompress | tar --extract`.
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
from apps.core.signing import PublicKey, SigningKey

FORMAT = 1
PIECE = 8 * 1024**2  # bytes of a member
MANIFEST, SIGNATURE, SUMS = "manifest.json", "SIGNATURE", "SHA256SUMS"
_AGE = b"age-encryption.org/"
_ZSTD = b"\x28\xb5\x2f\xfd"
_LEVEL = 3
_READ = 1024  # packed bytes at a time, of which zstd makes 32 MB at most
# Limits of what is unpacked. Dumps of real sites are at most a hundred times as large as their packed form.
_MOST_EXPANDED, _ALWAYS_ALLOWED = 1000, 256 * 1024**2
_MOST_HEADER = 64 * 1024  # bytes of an extended header of tar, which has a long name
_SIGNED = b"backup 1\n"  # precedes the signed sums: the site's key signs other things, too


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
        self._sums = bytearray()
        self.add(MANIFEST, json.dumps({"format": FORMAT, **manifest}, indent=1, sort_keys=True).encode())

    def add(self, name: str, content: bytes) -> None:
        self._sums += _sum_line(name, content)
        self._put(name, content)

    def add_pieces(self, name: str, stream: IO[bytes]) -> int:
        """Add a stream of any length; returns its bytes."""
        n_bytes, number = 0, 1
        while piece := _read_fully(stream, PIECE):
            self.add(f"{name}/{number:06d}", piece)
            n_bytes, number = n_bytes + len(piece), number + 1
        return n_bytes

    def finish(self, key: SigningKey | None = None) -> None:
        """key: signs what the archive holds; without it nobody can say who made it."""
        if key is not None:
            signature = key.sign(_SIGNED + self._sums)
            self.add(SIGNATURE, f"{key.public.raw.hex()} {signature.hex()}\n".encode())
        self._put(SUMS, bytes(self._sums))
        self._tar.close()
        self._packed.close()  # type: ignore[no-untyped-call]

    def _put(self, name: str, content: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(content), 0o600
        self._tar.addfile(member, io.BytesIO(content))


class ArchiveReader:
    """The members in order, each checked against its sum when the archive has ended.

    Raises:
        BadArchive: also after the last member, so nothing may be trusted before the end.
    """

    def __init__(self, file: IO[bytes], identity: str = "") -> None:
        #: After the end: SHA-256 of the checksums, the identity of the content; fingerprint of the signing key, or "".
        self.digest, self.signer = "", ""
        self._members = self._read(file, identity)

    def __iter__(self) -> Iterator[Member]:
        return self

    def __next__(self) -> Member:
        return next(self._members)

    def _read(self, file: IO[bytes], identity: str) -> Iterator[Member]:
        sums = bytearray()
        with _opened(file, identity) as stream:
            unpacked = _Unpacked(stream)
            try:
                with tarfile.open(fileobj=cast(IO[bytes], unpacked), mode="r|", tarinfo=_Header) as archive:
                    for entry in archive:
                        archive.members = []  # type: ignore[attr-defined]  # it would keep each header
                        if self.digest:
                            raise BadArchive("The backup was changed: something follows its checksums.")
                        content = _content(archive, entry, len(sums) if entry.name == SUMS else PIECE)
                        if entry.name == SUMS:
                            if content != sums:
                                raise BadArchive("The backup was changed: its checksums differ.")
                            self.digest = hashlib.sha256(sums).hexdigest()
                            continue
                        if self.signer:
                            raise BadArchive("The backup was changed: something follows its signature.")
                        if entry.name == SIGNATURE:
                            self.signer = _signer(content, bytes(sums))
                        sums += _sum_line(entry.name, content)
                        if entry.name != SIGNATURE:
                            yield _member(entry.name, content)
                while rest := unpacked.read(tarfile.RECORDSIZE):  # what ends the file is checked, too
                    if rest.strip(b"\0"):
                        raise BadArchive("The backup was changed: something follows its end.")
            except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError) as error:
                raise BadArchive(f"The backup was cut or damaged: {error}.") from error
        if not self.digest:
            raise BadArchive("The backup was cut: its end is missing.")


def read_archive(file: IO[bytes], identity: str = "") -> ArchiveReader:
    return ArchiveReader(file, identity)


def check_recipient(recipient: str) -> None:
    """Raises Invalid where a text, if there is one, is no public key of age or SSH."""
    if recipient:
        _recipient(recipient)


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


def _sum_line(name: str, content: bytes) -> bytes:
    return f"{hashlib.sha256(content).hexdigest()}  {name}\n".encode("utf-8", "surrogateescape")


class _Header(tarfile.TarInfo):
    """A header of the kinds that `ArchiveWriter` makes: of a file, or of its long name.

    tarfile reads a long name into memory as soon as it has read its header, whatever its size.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        header = super().frombuf(buf, encoding, errors)
        if header.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.XHDTYPE):
            raise BadArchive(f"The backup was changed: {header.name!r} is no file.")
        if header.type == tarfile.XHDTYPE and header.size > _MOST_HEADER:
            raise BadArchive(f"The backup was changed: a name has {header.size:,} bytes.")
        return header


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo, most: int) -> bytes:
    """Its size is known before a byte of it is read."""
    if entry.size > most:
        raise BadArchive(f"The backup was changed: {entry.name!r} has {entry.size:,} bytes, and {most:,} is the limit.")
    member = archive.extractfile(entry)
    content = member.read() if member is not None else b""
    if len(content) != entry.size:
        raise BadArchive("The backup was cut: it ends within a file.")
    return content


def _signer(content: bytes, sums: bytes) -> str:
    """The fingerprint of the key that signed the sums."""
    try:
        raw, signature = (bytes.fromhex(part) for part in content.decode("ascii").split())
    except ValueError:
        raw = signature = b""
    key = PublicKey(raw)
    if not key.holds(_SIGNED + sums, signature):
        raise BadArchive("The backup was changed: its signature doesn't fit what it holds.")
    return key.fingerprint


class _Unpacked:
    """The content of a packed file; at its end the packed data must have ended, too."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._unpacker = zstandard.ZstdDecompressor().decompressobj()
        self._unpacked = bytearray()  # what isn't handed on yet
        self._n_read = self._n_unpacked = 0

    def read(self, size: int) -> bytes:
        while len(self._unpacked) < size and not self._unpacker.eof:
            packed = self._file.read(_READ)
            if not packed:
                raise BadArchive("The backup was cut: its end is missing.")
            unpacked = self._unpacker.decompress(packed)
            self._n_read, self._n_unpacked = self._n_read + len(packed), self._n_unpacked + len(unpacked)
            if self._n_unpacked > _ALWAYS_ALLOWED + _MOST_EXPANDED * self._n_read:
                raise BadArchive(f"The backup was changed: it unpacks to over {_MOST_EXPANDED:,} times its own size.")
            self._unpacked += unpacked
        content = bytes(self._unpacked[:size])
        del self._unpacked[:size]
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
