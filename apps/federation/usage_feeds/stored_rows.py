"""Rows of a feed as they are stored when it is built: those of one hour, and the running jobs.

Each row names its entry by the uid (16 bytes), so that rows of several hours, which were stored at different times, can
be put into one document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import zstandard

from apps.federation.documents.wire_usage import RunningRows
from apps.usage.bucket_deltas import AMOUNTS
from apps.usage.parsers.base import F8, I8

U1 = npt.NDArray[np.uint8]
_N_RATES = 6  # cpus, gpus, mem_gb, nodes, billing and requested_s of a running job


@dataclass(frozen=True, eq=False)
class HourRows:
    """The rows of one hour. uids: (n, 16), ascending; amounts: (n, 6) in the order of AMOUNTS."""

    uids: U1
    amounts: F8

    def __len__(self) -> int:
        return len(self.uids)

    @property
    def digest(self) -> str:
        digest = hashlib.sha256(self.uids.tobytes())
        digest.update(self.amounts.tobytes())
        return digest.hexdigest()

    def pack(self) -> bytes:
        """The rows, zstd; b"" for none."""
        return _packed(self.uids, self.amounts) if len(self) else b""


NO_ROWS = HourRows(np.zeros((0, 16), np.uint8), np.zeros((0, len(AMOUNTS))))


def unpack_hours(stored: Sequence[tuple[bytes, int]]) -> HourRows:
    """The rows of hours one after another, from what `HourRows.pack` returned and the number of rows of each."""
    parts = [_unpack_hour(data, n) for data, n in stored if n]
    if not parts:
        return NO_ROWS
    return HourRows(np.concatenate([each.uids for each in parts]), np.concatenate([each.amounts for each in parts]))


def _unpack_hour(data: bytes, n: int) -> HourRows:
    raw = zstandard.ZstdDecompressor().decompress(data)
    uids = np.frombuffer(raw, np.uint8, n * 16).reshape(n, 16)
    return HourRows(uids, np.frombuffer(raw, np.float64, n * len(AMOUNTS), n * 16).reshape(n, len(AMOUNTS)))


@dataclass(frozen=True, eq=False)
class StoredRunning:
    """The running jobs. rows.entry: index into uids, which are (n, 16) and ascending."""

    uids: U1
    rows: RunningRows

    @property
    def named(self) -> U1:
        """The uid of each job's entry."""
        return self.uids[self.rows.entry]

    @property
    def digest(self) -> str:
        rows = self.rows
        digest = hashlib.sha256(self.named.tobytes())
        for column in (rows.start_us, rows.cpus, rows.gpus, rows.mem_gb, rows.nodes, rows.billing):
            digest.update(column.tobytes())
        digest.update(np.where(np.isnan(rows.requested_s), -1.0, rows.requested_s).tobytes())
        return digest.hexdigest()

    def pack(self) -> bytes:
        """The jobs, zstd."""
        rows = self.rows
        rates = (rows.cpus, rows.gpus, rows.mem_gb, rows.nodes, rows.billing, rows.requested_s)
        return _packed(self.named, rows.start_us, *rates)


def unpack_running(data: bytes, n: int) -> StoredRunning:
    """The jobs from what `StoredRunning.pack` returned and their number."""
    raw = zstandard.ZstdDecompressor().decompress(data)
    uids, entry = unique_uids(np.frombuffer(raw, np.uint8, n * 16).reshape(n, 16))
    start_us = np.frombuffer(raw, np.int64, n, n * 16)
    rates = np.frombuffer(raw, np.float64, n * _N_RATES, n * 24).reshape(_N_RATES, n)
    return StoredRunning(uids, RunningRows(entry, start_us, *rates))


def unique_uids(uids: U1) -> tuple[U1, I8]:
    """The distinct uids (m, 16), ascending, and for each given one its index among them."""
    if not len(uids):
        return uids, np.zeros(0, np.int64)
    halves = np.ascontiguousarray(uids).view(">u8")
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    ordered = halves[order]
    is_first = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    place = np.empty(len(order), np.int64)
    place[order] = np.cumsum(is_first) - 1
    return np.ascontiguousarray(uids)[order[is_first]], place


def _packed(*columns: npt.NDArray[np.generic]) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(b"".join(column.tobytes() for column in columns))
