from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable

import pytest
import zstandard

from apps.core.errors import DomainError, Invalid, TooLarge
from apps.core.packing import MOST_WINDOW_BYTES
from apps.usage.records import uploads

TEXT = b"".join(b"%d 0 5 3600 8 -1 -1 8 7200 -1 1 17 3 -1 1 -1 -1 -1\n" % n for n in range(20_000))


@pytest.fixture(autouse=True)
def _own_uploads(settings: object, tmp_path: object) -> None:
    settings.VAR = tmp_path  # type: ignore[attr-defined]


def zipped() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("log.swf", TEXT)
    return target.getvalue()


def tarred() -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        member = tarfile.TarInfo("log.swf")
        member.size = len(TEXT)
        archive.addfile(member, io.BytesIO(TEXT))
    return target.getvalue()


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def refusal_of(data: bytes) -> DomainError:
    with pytest.raises(DomainError) as caught:
        uploads.store(io.BytesIO(data))
    assert not list(uploads.path_of("x").parent.glob("*.usage"))
    return caught.value


@pytest.mark.parametrize("packed", [TEXT, gzip.compress(TEXT), zst(TEXT), zst(TEXT[:999]) + zst(TEXT[999:])])
def test_plain_gzip_and_zstd_files_are_read(packed: bytes) -> None:
    stored = uploads.store(io.BytesIO(packed))
    assert (stored.n_bytes, stored.n_unpacked, stored.head) == (len(packed), len(TEXT), TEXT[: 64 * 1024])
    with uploads.open_unpacked(stored.name) as file:
        read = b"".join(iter(lambda: file.read(10_000), b""))
    assert read == TEXT


def skipped(data: bytes, *, kind: int = 0x184D2A50) -> bytes:
    """A frame that readers skip, as pzstd writes one before each of its frames."""
    return struct.pack("<II", kind, len(data)) + data


@pytest.mark.parametrize(
    "packed",
    [
        skipped(b"size") + zst(TEXT),
        skipped(b"", kind=0x184D2A5F) + skipped(b"x" * 300_000) + zst(TEXT),
        skipped(b"size") + zst(TEXT[:999]) + skipped(b"size") + zst(TEXT[999:]) + skipped(b"end"),
    ],
)
def test_frames_that_zstd_skips_are_skipped(packed: bytes) -> None:
    stored = uploads.store(io.BytesIO(packed))
    assert (stored.n_unpacked, stored.head) == (len(TEXT), TEXT[: 64 * 1024])
    with uploads.open_unpacked(stored.name) as file:
        file.seek(700_000)
        assert file.read(100) == TEXT[700_000:700_100]


@pytest.mark.parametrize(
    "packed", [skipped(b"size")[:6], skipped(b"size") + zst(TEXT)[:-9], skipped(b"lz4") + b'\4"M\x18']
)
def test_a_damaged_file_behind_a_skipped_frame_is_named(packed: bytes) -> None:
    assert refusal_of(packed).code == "corrupt_zstd"


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zst])
def test_lines_that_end_by_returns_are_read(pack: Callable[[bytes], bytes]) -> None:
    """As old Macintosh programs and some spreadsheets write text."""
    stored = uploads.store(io.BytesIO(pack(TEXT.replace(b"\n", b"\r"))))
    assert stored.head == TEXT[: 64 * 1024]
    with uploads.open_unpacked(stored.name) as file:
        file.seek(700_000)
        assert file.read(100) == TEXT[700_000:700_100]
        assert file.read(-1) == TEXT[700_100:]
    mixed = uploads.store(io.BytesIO(b"a\rb\r\n"))
    assert mixed.head == b"a\rb\r\n"


def test_reading_of_a_zstd_file_resumes_at_any_byte() -> None:
    stored = uploads.store(io.BytesIO(zst(TEXT)))
    with uploads.open_unpacked(stored.name) as file:
        file.seek(700_000)
        assert file.read(100) == TEXT[700_000:700_100]


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("zip", lambda: zipped()),
        ("tar", lambda: tarred()),
        ("7z", lambda: b"7z\xbc\xaf\x27\x1c\x00\x04" + b"\0" * 100),
        ("xz", lambda: lzma.compress(TEXT)),
        ("bzip2", lambda: bz2.compress(TEXT)),
        ("tar", lambda: gzip.compress(tarred())),
        ("tar", lambda: zst(tarred())),
        ("zip", lambda: gzip.compress(zipped())),
        ("once more", lambda: gzip.compress(gzip.compress(TEXT))),
        ("once more", lambda: zst(gzip.compress(TEXT))),
    ],
)
def test_archives_are_refused_by_name_with_the_remedy(name: str, pack: Callable[[], bytes]) -> None:
    refusal = refusal_of(pack())
    assert isinstance(refusal, Invalid)
    assert refusal.code == "archive"
    assert name in str(refusal)
    assert "npack it" in str(refusal)


@pytest.mark.parametrize("data", [TEXT.decode().encode("utf-16"), b"PAR1" + b"\0" * 50, b"SQLite format 3\0" * 9])
def test_binary_files_are_rejected_by_type(data: bytes) -> None:
    assert refusal_of(data).code == "not_text"


@pytest.mark.parametrize("pack", [gzip.compress, zst])
def test_a_compression_bomb_is_rejected_before_unpacking(pack: object) -> None:
    bomb = pack(b"0" * 64 * 1024**2)  # type: ignore[operator]
    assert len(bomb) < 100_000
    refusal = refusal_of(bomb)
    assert isinstance(refusal, TooLarge)
    assert refusal.code == "expands_too_much"


def test_a_truncated_or_corrupt_zstd_file_is_rejected_with_the_byte() -> None:
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(random.Random(1).randbytes(100_000))
    for broken in (packed[:-1], packed[:5000], packed[:9000] + b"\xff" * 20 + packed[9020:]):
        refusal = refusal_of(broken)
        assert refusal.code == "corrupt_zstd"
        assert "near byte" in str(refusal)
    assert refusal_of(zst(TEXT) + b"junk behind it").code == "corrupt_zstd"


def test_a_zstd_file_that_needs_too_much_memory_is_refused_with_the_remedy() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    assert MOST_WINDOW_BYTES < 2**27
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    refusal = refusal_of(packer.compress(TEXT) + packer.flush())
    assert refusal.code == "corrupt_zstd"
    assert "--long" in str(refusal)
