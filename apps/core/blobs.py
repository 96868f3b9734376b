"""Arrays as one checksummed, compressed blob, in which revision trees and snapshots are stored.

Layout before compression: b"FSB1", a little-endian u4 header length, the header as JSON (`{"columns": [[name, dtype,
shape, offset, n_bytes], …], "meta": {…}}`), then the columns, 16-byte aligned. A list of strings is stored as two
columns, `<name>.utf8` (u1) and `<name>.lengths` in bytes (u1, u2 or u4), which pack better than where each ends; older
blobs have `<name>.ends` (i8).
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import zstandard

from apps.core.strings import Strings

_MAGIC = b"FSB1"
_ALIGN = 16
_MOST_BLOB_BYTES = 8 * 1024**3

Array = np.ndarray[Any, np.dtype[Any]]
Column = Array | Sequence[str]


class CorruptBlob(ValueError):
    """The stored bytes differ from those that were written."""


def pack(columns: Mapping[str, Column], meta: Mapping[str, Any] | None = None) -> tuple[bytes, str]:
    """Return the blob and its SHA-256 (hex). Equal columns and meta give equal bytes."""
    blob = zstandard.ZstdCompressor(level=1).compress(b"".join(raw_parts(columns, meta or {}, is_packed=True)))
    return blob, hashlib.sha256(blob).hexdigest()


def raw_parts(columns: Mapping[str, Column], meta: Mapping[str, Any], *, is_packed: bool) -> list[bytes | memoryview]:
    """The layout before compression, in parts. is_packed: strings with their lengths, else with their ends as i4."""
    arrays: dict[str, Array] = {}
    for name, column in columns.items():
        if isinstance(column, np.ndarray):
            arrays[name] = np.ascontiguousarray(column)
        else:
            arrays.update(_string_columns(name, Strings.of(column), is_packed=is_packed))
    described: list[Any] = []
    parts: list[bytes | memoryview] = []
    offset = 0
    for name, array in arrays.items():
        described.append([name, array.dtype.str, list(array.shape), offset, array.nbytes])
        padding = -array.nbytes % _ALIGN
        parts += [array.reshape(-1).view(np.uint8).data, b"\0" * padding]
        offset += array.nbytes + padding
    header = json.dumps({"columns": described, "meta": dict(meta)}, sort_keys=True).encode()
    header += b" " * (-(len(_MAGIC) + 4 + len(header)) % _ALIGN)
    return [_MAGIC + struct.pack("<I", len(header)) + header, *parts]


def unpack(blob: bytes | memoryview, digest: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return columns (read-only arrays; `Strings` for strings) and meta.

    Raises:
        CorruptBlob: the bytes don't have that digest, or aren't a blob.
    """
    if hashlib.sha256(blob).hexdigest() != digest:
        raise CorruptBlob("The stored bytes don't match their checksum.")
    return read_raw(zstandard.ZstdDecompressor().decompress(blob, max_output_size=_MOST_BLOB_BYTES))


def read_raw(raw: bytes | memoryview) -> tuple[dict[str, Any], dict[str, Any]]:
    """Columns and meta of `raw_parts`: arrays are views of the bytes."""
    if raw[:4] != _MAGIC:
        raise CorruptBlob("The stored bytes are of another kind.")
    (header_length,) = struct.unpack_from("<I", raw, 4)
    header = json.loads(bytes(raw[8 : 8 + header_length]))
    start = 8 + header_length
    columns: dict[str, Any] = {}
    for name, dtype, shape, offset, n_bytes in header["columns"]:
        count = n_bytes // np.dtype(dtype).itemsize
        columns[name] = np.frombuffer(raw, dtype=dtype, count=count, offset=start + offset).reshape(shape)
    for name in [name for name in columns if name.endswith((".lengths", ".ends"))]:
        stem, _, kind = name.rpartition(".")
        ends = columns.pop(name) if kind == "ends" else np.cumsum(columns.pop(name), dtype=np.int64)
        columns[stem] = Strings(columns.pop(f"{stem}.utf8").data, ends)
    return columns, header["meta"]


def _string_columns(name: str, strings: Strings, *, is_packed: bool) -> dict[str, Array]:
    utf8 = np.frombuffer(strings.utf8, np.uint8)
    if not is_packed:
        return {f"{name}.utf8": utf8, f"{name}.ends": np.ascontiguousarray(strings.ends)}
    lengths = np.diff(strings.ends, prepend=0)
    narrow = lengths.astype(np.min_scalar_type(int(lengths.max(initial=0))))
    return {f"{name}.utf8": utf8, f"{name}.lengths": narrow}
