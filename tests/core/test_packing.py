"""Packed files: every reader of the core reads all members, or refuses the file."""

from __future__ import annotations

import gzip
import io
import os
import random
import struct
import zlib
from collections.abc import Callable, Iterator

import pytest
import zstandard
from django.conf import LazySettings

from apps.core.errors import DomainError
from apps.core.packing import Bounds, Damaged, Expands, Unpacker, packing_of, unpack_gzip
from apps.engine.errors import BadCase
from apps.policies.formats.decoding import text_of
from apps.usage.records import uploads
from apps.usage.services import read_body
from apps.web.rest.errors import Refusal

LINES = [b"%d %d 5 3600 8 -1 -1 8 7200 -1 1 %d 3 -1 1 -1 -1 -1\n" % (n, 60 * n, n % 7) for n in range(1, 901)]
TEXT = b"".join(LINES)
HALVES = (b"".join(LINES[:300]), b"".join(LINES[300:]))


def block_gzip(text: bytes) -> bytes:
    """As bgzip writes: blocks with an extra field that holds their size, and an empty one at the end."""

    def block(part: bytes) -> bytes:
        packer = zlib.compressobj(wbits=-15)
        body = packer.compress(part) + packer.flush()
        head = b"\x1f\x8b\x08\4" + b"\0" * 4 + b"\0\xff" + struct.pack("<H", 6)
        size = struct.pack("<2sHH", b"BC", 2, len(body) + 25)
        return head + size + body + struct.pack("<II", zlib.crc32(part), len(part) & 0xFFFFFFFF)

    return b"".join(block(text[i : i + 20_000]) for i in range(0, len(text), 20_000)) + block(b"")


WHOLE = {
    "one member": gzip.compress(TEXT),
    "two members": b"".join(map(gzip.compress, HALVES)),
    "a member for each line": b"".join(map(gzip.compress, LINES)),
    "blocks of bgzip": block_gzip(TEXT),
    "an empty first member": gzip.compress(b"") + gzip.compress(TEXT),
    "empty members between": gzip.compress(HALVES[0]) + gzip.compress(b"") * 3 + gzip.compress(HALVES[1]),
    "zeros behind it": gzip.compress(TEXT) + b"\0" * 600_000,
}
SPOILT = {
    "garbage behind it": gzip.compress(TEXT) + b"garbage",
    "text behind it": gzip.compress(TEXT) + TEXT,
    "zstd behind it": gzip.compress(HALVES[0]) + zstandard.ZstdCompressor().compress(HALVES[1]),
    "cut": gzip.compress(TEXT)[:-9],
    "a cut second member": gzip.compress(HALVES[0]) + gzip.compress(HALVES[1])[:-1],
    "a cut head": gzip.compress(HALVES[0]) + gzip.compress(HALVES[1])[:7],
    "one byte of a head": gzip.compress(TEXT) + b"\x1f",
    "a wrong sum in the first": gzip.compress(HALVES[0])[:-8] + b"\1\2\3\4" + gzip.compress(HALVES[1]),
    "a wrong length": gzip.compress(TEXT)[:-4] + struct.pack("<I", len(TEXT) + 1),
}


def by_upload(data: bytes) -> bytes:
    stored = uploads.store(io.BytesIO(data))
    with uploads.open_unpacked(stored.name) as file:
        return file.read()


READERS: dict[str, Callable[[bytes], bytes]] = {
    "policies": lambda data: text_of(data).encode(),
    "uploads": by_upload,
    "records by REST": lambda data: read_body(io.BytesIO(data), gzip=True),
}


@pytest.fixture(autouse=True)
def _own_folder(settings: LazySettings, tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    settings.VAR = tmp_path
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_all_members_of_a_packed_file(reader: str) -> None:
    for name, data in WHOLE.items():
        assert READERS[reader](data) == TEXT, name


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_accepts_a_part_of_a_packed_file(reader: str) -> None:
    accepted = [name for name, data in SPOILT.items() if not is_refused(READERS[reader], data)]
    assert accepted == []


def is_refused(read: Callable[[bytes], bytes], data: bytes) -> bool:
    try:
        read(data)
    except (DomainError, BadCase, Refusal):
        return True
    return False


def zstd(text: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(text)


SKIPPED = struct.pack("<II", 0x184D2A50, 5) + b"a map"  # a frame that readers skip, as pzstd writes them
WHOLE_ZSTD = {
    "one frame": zstd(TEXT),
    "two frames": b"".join(map(zstd, HALVES)),
    "a frame for each line": b"".join(map(zstd, LINES)),
    "an empty first frame": zstd(b"") + zstd(TEXT),
    "a frame to skip": SKIPPED + zstd(HALVES[0]) + SKIPPED + zstd(HALVES[1]) + SKIPPED,
    "no length in the head": zstandard.ZstdCompressor(write_content_size=False).compress(TEXT),
}
SUMMED = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
SPOILT_ZSTD = {
    "garbage behind it": zstd(TEXT) + b"garbage",
    "text behind it": zstd(TEXT) + TEXT,
    "gzip behind it": zstd(HALVES[0]) + gzip.compress(HALVES[1]),
    "cut": zstd(TEXT)[:-9],
    "a cut second frame": zstd(HALVES[0]) + zstd(HALVES[1])[:-1],
    "a cut head": zstd(HALVES[0]) + zstd(HALVES[1])[:6],
    "a cut frame to skip": zstd(TEXT) + SKIPPED[:-2],
    "two bytes of a head": zstd(TEXT) + b"\x28\xb5",
    "a wrong sum": SUMMED[:-4] + b"\1\2\3\4",
    "more in its head than it holds": SUMMED[:6] + bytes([SUMMED[6] + 1]) + SUMMED[7:],
}


def test_an_upload_has_all_frames_of_zstd_or_is_refused() -> None:
    for name, data in WHOLE_ZSTD.items():
        assert by_upload(data) == TEXT, name
    assert [name for name, data in SPOILT_ZSTD.items() if not is_refused(by_upload, data)] == []


@pytest.mark.parametrize("reader", sorted(READERS.keys() - {"uploads"}))
def test_readers_of_gzip_alone_refuse_zstd(reader: str) -> None:
    assert is_refused(READERS[reader], zstd(TEXT))


@pytest.mark.parametrize("reader", READERS)
def test_a_file_cut_anywhere_is_refused(reader: str) -> None:
    assert [len(cut) for cut in cut_files() if not is_refused(READERS[reader], cut)] == []


def cut_files() -> Iterator[bytes]:
    """A packed file of two members, cut in each part of them."""
    whole = gzip.compress(HALVES[0]) + gzip.compress(HALVES[1])
    first = len(gzip.compress(HALVES[0]))
    ends = (range(2, 40), range(first - 12, first), range(first + 1, first + 30), range(len(whole) - 12, len(whole)))
    return (whole[:end] for each in ends for end in each)


def unpack_pieces(unpacker: Unpacker, packed: bytes, size: int) -> bytes:
    pieces = [piece for i in range(0, len(packed), size) for piece in unpacker.feed(packed[i : i + size])]
    return b"".join([*pieces, *unpacker.finish()])


def test_a_stream_may_be_cut_anywhere_into_pieces() -> None:
    for packed in (WHOLE["empty members between"] + b"\0" * 99, block_gzip(TEXT)):
        for size in (1, 7, 4096):
            unpacker = Unpacker("gzip", Bounds())
            assert unpack_pieces(unpacker, packed, size) == TEXT
            assert (unpacker.n_in, unpacker.n_out) == (len(packed), len(TEXT))


@pytest.mark.parametrize("size", [1, 4096, 1024**2])
def test_what_follows_the_last_member_is_refused_wherever_a_piece_ends(size: int) -> None:
    whole = gzip.compress(TEXT)
    for packed, position, is_cut in (
        (whole + b"<html>", len(whole), False),
        (whole + whole[:20], len(whole) + 20, True),
    ):
        unpacker = Unpacker("gzip", Bounds())
        with pytest.raises(Damaged) as caught:
            unpack_pieces(unpacker, packed, size)
        assert (caught.value.position, caught.value.is_cut) == (position, is_cut)


def test_the_byte_of_damage_is_counted_over_all_members() -> None:
    first, second = gzip.compress(random.Random(4).randbytes(300_000)), bytearray(gzip.compress(TEXT))
    second[-6] ^= 0xFF
    with pytest.raises(Damaged) as caught:
        unpack_gzip(first + bytes(second), Bounds())
    assert len(first) + len(second) - 9 <= caught.value.position <= len(first) + len(second)


def test_bounds_hold_over_all_members_before_the_memory_is_taken() -> None:
    member = gzip.compress(bytes(2 * 1024**2))
    with pytest.raises(Expands):
        unpack_gzip(member * 20, Bounds())
    unpacker = Unpacker("gzip", Bounds(n_bytes=3_000_000))
    with pytest.raises(Expands):
        list(unpacker.feed(member * 20))
    assert unpacker.n_out < 8 * 1024**2
    assert len(unpack_gzip(member, Bounds(n_bytes=2 * 1024**2))) == 2 * 1024**2


def test_packings_are_known_by_their_first_bytes() -> None:
    assert packing_of(gzip.compress(b"")[:4]) == "gzip"
    assert packing_of(zstandard.ZstdCompressor().compress(b"x")[:4]) == "zstd"
    assert [packing_of(head) for head in (b"", b"\x1f", b"PK\3\4", b"; Version")] == [None] * 4
