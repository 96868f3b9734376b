"""What a backup holds, and who made it, is known before anything is done with it, and costs no more than it may."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from typing import IO, Any

import pyrage
import pytest
import zstandard

from apps.cli.backup.archive import PIECE, SUMS, ArchiveWriter, BadArchive, encrypted, read_archive
from apps.cli.backup.contents import Examined, examine_backup
from apps.cli.backup.origin import Origin, UnknownOrigin, require_known_origin
from apps.core.errors import Invalid
from apps.core.signing import SigningKey
from tests.each_case import each_case

KEY = SigningKey.generate()
MANIFEST: dict[str, Any] = {
    "product": "fairshare-web", "version": "1.0.0", "site": "local", "made_at": "2026-11-20T12:00:00+00:00",
    "postgresql": 18, "migrations": ["usage.0001_tables"], "salt": "s", "settings": {"FAIRSHARE_TICK_S": "ab"},
}  # fmt: skip
MEMBERS: dict[str, bytes] = {
    "secrets/secret_key": b"one\ntwo", "secrets/token_pepper": b"p", "secrets/pseudonym_key": b"k",
    "uploads/a/log.gz/000001": b"rows", "database/000001": b"PGDMP and tables",
}  # fmt: skip


def archive(
    members: dict[str, bytes] | None = None, manifest: dict[str, Any] | None = None, key: SigningKey | None = KEY
) -> bytes:
    out = io.BytesIO()
    writer = ArchiveWriter(out, MANIFEST if manifest is None else manifest)
    for name, content in (MEMBERS if members is None else members).items():
        writer.add(name, content)
    writer.finish(key)
    return out.getvalue()


def examined(data: bytes) -> Examined:
    return examine_backup(io.BytesIO(data))


def test_a_whole_backup_is_described_with_its_signer_and_digest() -> None:
    data = archive()
    found = examined(data)
    assert found.signer == KEY.public.fingerprint
    assert found.sha256 == hashlib.sha256(data).hexdigest()
    assert (found.n_database_bytes, found.n_file_bytes) == (16, 7 + 1 + 1 + 4)
    identity = pyrage.x25519.Identity.generate()
    sealed = io.BytesIO()
    with encrypted(sealed, str(identity.to_public())) as plain:
        plain.write(data)
    same = examine_backup(io.BytesIO(sealed.getvalue()), str(identity))
    assert same.digest == found.digest, "the content's identity, however it is packed"
    assert same.sha256 == hashlib.sha256(sealed.getvalue()).hexdigest()
    assert examined(archive(key=None)).signer == ""


def test_a_backup_of_an_unknown_maker_is_refused_with_what_to_give() -> None:
    """Anybody can make a file whose checksums are right, and encrypt it for the site's public key."""
    real, unsigned = examined(archive()), examined(archive(key=None))
    stranger = SigningKey.generate()
    forged = examined(archive({**MEMBERS, "secrets/secret_key": b"known to a stranger"}, key=stranger))
    ours = Origin(signed_by=f"{KEY.public.fingerprint[:4].upper()} {KEY.public.fingerprint[4:]}")
    require_known_origin(ours, real)
    for found in (real, unsigned, forged):
        require_known_origin(Origin(sha256=found.sha256), found)
        require_known_origin(Origin(is_any_accepted=True), found)
        with pytest.raises(UnknownOrigin, match=r"Nothing shows who made the backup\..*--sha256.*--any-origin"):
            require_known_origin(Origin(), found)
    for found in (unsigned, forged):
        with pytest.raises(UnknownOrigin, match="isn't signed by that key"):
            require_known_origin(ours, found)
        with pytest.raises(UnknownOrigin, match=f"is another one: its SHA-256 is {found.sha256}"):
            require_known_origin(Origin(sha256=real.sha256, is_any_accepted=True), found)
    for wrong in (Origin(sha256="abc"), Origin(signed_by="g" * 64)):
        with pytest.raises(Invalid, match="64 hexadecimal digits"):
            wrong.check()


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "another backup behind it": lambda data: data + data,
    "an empty frame behind it": lambda data: data + zstandard.ZstdCompressor().compress(b""),
    "garbage behind it": lambda data: data + b"garbage",
    "a zero behind it": lambda data: data + b"\0",
    "a frame to skip before it": lambda data: b"\x50\x2a\x4d\x18\1\0\0\0x" + data,
    "nothing": lambda data: b"",
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_not_one_whole_backup_is_refused(name: str) -> None:
    with pytest.raises(BadArchive):
        examined(SPOILT[name](archive()))


def test_a_backup_cut_at_any_byte_is_refused() -> None:
    data = archive()
    for n in range(len(data)):
        with pytest.raises(BadArchive):
            examined(data[:n])


def test_a_signature_covers_every_byte_of_what_is_restored() -> None:
    members = list(_members(archive()))
    names = [name for name, _content in members]
    assert names[-2:] == ["SIGNATURE", SUMS]
    for at in range(len(members) - 2):
        name, content = members[at]
        changed = [*members[:at], (name, content + b"\n"), *members[at + 1 :]]
        with pytest.raises(BadArchive, match="its signature doesn't fit"):
            examined(_with_sums(changed[:-1]))
    with pytest.raises(BadArchive, match="something follows its signature"):
        examined(_with_sums([*members[:-1], ("uploads/later/000001", b"x")]))
    assert examined(_with_sums([each for each in members[:-1] if each[0] != "SIGNATURE"])).signer == ""


@each_case("field", [name for name in MANIFEST if name != "product"])
@each_case("value", [None, [], {"a": 1}, "", "x\x1b[2J", -1])
def test_a_manifest_without_a_valid_field_is_refused_by_its_name(field: str, value: object) -> None:
    if (field, value) in (("migrations", []),):
        return
    with pytest.raises(BadArchive, match=f"manifest.json has no valid '{field}'"):
        examined(archive(manifest={**MANIFEST, field: value}))
    with pytest.raises(BadArchive, match=f"manifest.json has no valid '{field}'"):
        examined(archive(manifest={name: MANIFEST[name] for name in MANIFEST if name != field}))


def without(name: str) -> dict[str, bytes]:
    return {each: content for each, content in MEMBERS.items() if each != name}


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (without("secrets/secret_key"), "lacks 'secrets/secret_key'"),
        (without("secrets/pseudonym_key"), "lacks 'secrets/pseudonym_key'"),
        (without("database/000001"), "lacks 'database'"),
        ({**MEMBERS, "database/000001": b"#!/bin/sh"}, "no dump of PostgreSQL"),
        ({**MEMBERS, "secrets/secret_key": b"\xff"}, "no key of a site"),
        ({**MEMBERS, "secrets/secret_key": b"\n"}, "no key of a site"),
        ({**MEMBERS, "secrets/other": b"k"}, "no key of a site"),
        ({**MEMBERS, "database/000003": b"x"}, "a piece of 'database' is missing"),
        ({**MEMBERS, "uploads/a/000001": b"x"}, "two files 'uploads/a'"),
        ({**MEMBERS, "uploads/a/log.gz/b/000001": b"x"}, "two files"),
        ({**MEMBERS, "source-secrets/../../key/000001": b"x"}, "leads out of its folder"),
        ({**MEMBERS, "uploads//x/000001": b"x"}, "leads out of its folder"),
        ({**MEMBERS, "/etc/passwd": b"x"}, "no place for a file"),
        ({**MEMBERS, "uploads/" + "x" * 300: b"x"}, "leads out of its folder"),
        ({**MEMBERS, "pg/postgresql.auto.conf": b"x"}, "no place for a file"),
    ],
)
def test_an_archive_that_cannot_be_restored_is_refused_by_the_name_of_what_is_wrong(
    members: dict[str, bytes], words: str
) -> None:
    with pytest.raises(BadArchive, match=words):
        examined(archive(members))


def test_a_file_twice_in_the_archive_is_refused() -> None:
    members = [each for each in _members(archive()) if each[0] not in ("SIGNATURE", SUMS)]
    with pytest.raises(BadArchive, match="two files 'secrets/secret_key'"):
        examined(_with_sums([*members, ("secrets/secret_key", b"another")]))


class Zeros:
    """So many bytes of zeros, of which few exist at a time."""

    def __init__(self, size: int) -> None:
        self._left = size

    def read(self, size: int = -1) -> bytes:
        n_bytes = min(self._left, 2**16 if size < 0 else size)
        self._left -= n_bytes
        return b"\0" * n_bytes


def one_large_member(tar: tarfile.TarFile) -> None:
    _add(tar, "database/000001", Zeros(3 * 2**28), 3 * 2**28)


def many_members(tar: tarfile.TarFile) -> None:
    for number in range(1, 3 * 2**28 // PIECE):
        _add(tar, f"database/{number:06d}", Zeros(PIECE), PIECE)


def long_name(tar: tarfile.TarFile) -> None:
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 3 * 2**28
    tar.addfile(header, Zeros(header.size))


def a_size_beside_the_header(tar: tarfile.TarFile) -> None:
    header = tarfile.TarInfo("database/000001")
    header.pax_headers = {"size": str(3 * 2**28)}
    tar.addfile(header)


def a_link(tar: tarfile.TarFile) -> None:
    header = tarfile.TarInfo("uploads/a")
    header.type, header.linkname = tarfile.SYMTYPE, "/etc/passwd"
    tar.addfile(header)


@pytest.mark.parametrize(
    ("fill", "words"),
    [
        (one_large_member, "'database/000001' has 805,306,368 bytes"),
        (many_members, "unpacks to over 1,000 times its own size"),
        (long_name, "a name has 805,306,368 bytes"),
        (a_size_beside_the_header, "'database/000001' has 805,306,368 bytes"),
        (a_link, "'uploads/a' is no file"),
    ],
)
def test_a_small_file_that_unpacks_to_a_large_one_is_refused_before_memory_is_taken(
    fill: Callable[[tarfile.TarFile], None], words: str
) -> None:
    out = io.BytesIO()
    with (
        zstandard.ZstdCompressor().stream_writer(out, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        content = json.dumps({"format": 1, **MANIFEST}).encode()
        _add(tar, "manifest.json", io.BytesIO(content), len(content))
        fill(tar)
    assert len(out.getvalue()) < 200_000
    tracemalloc.start()
    try:
        with pytest.raises(BadArchive, match=words):
            examined(out.getvalue())
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


def test_names_that_tar_writes_in_a_header_of_their_own_are_read() -> None:
    names = [f"uploads/{'ü' * 90}/{'x' * 120}", f"source-secrets/{os.fsdecode(b'cluster-' + bytes([255]))}"]
    found = list(read_archive(io.BytesIO(archive({**MEMBERS, **{f"{name}/000001": b"1" for name in names}}))))
    assert {member.name for member in found} >= set(names)


def _add(tar: tarfile.TarFile, name: str, content: Any, size: int) -> None:
    header = tarfile.TarInfo(name)
    header.size = size
    tar.addfile(header, content)


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    unpacked = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as tar:
        for header in tar:
            file: IO[bytes] | None = tar.extractfile(header)
            assert file is not None
            yield header.name, file.read()


def _with_sums(members: list[tuple[str, bytes]]) -> bytes:
    """An archive of these members, with right checksums."""
    out = io.BytesIO()
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in members)
    with (
        zstandard.ZstdCompressor().stream_writer(out, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|") as tar,
    ):
        for name, content in [*members, (SUMS, sums.encode())]:
            _add(tar, name, io.BytesIO(content), len(content))
    return out.getvalue()
