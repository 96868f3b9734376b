"""What an import would do, without writing anything."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from apps.usage.models import Source
from apps.usage.parsers.base import FINISHED, I8, RecordBatch, microseconds
from apps.usage.records.ingest import with_defaults, without_ahead
from apps.usage.records.late_records import is_too_late
from apps.usage.records.versions import Counts, Stored, comparable_end, find_stored, judge, key_hash


class DryRun:
    """Judges batch after batch, remembering the versions that earlier ones would have stored."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._seen: list[tuple[np.ndarray[tuple[int], np.dtype[np.uint64]], I8, I8, I8]] = []

    def judge(self, batch: RecordBatch, at: datetime) -> Counts:
        if not len(batch):
            return Counts()
        batch, rejections = without_ahead(batch, self._source, at)
        counts = Counts(rejected=len(rejections), rejections=rejections)
        if len(batch):
            self._judge(with_defaults(batch, self._source), counts)
        return counts

    def _judge(self, batch: RecordBatch, counts: Counts) -> None:
        stored = self._stored(batch, key_hash(batch))
        sealed_at = self._source.sealed_before_at
        if sealed_at is not None:
            late = is_too_late(batch, stored, microseconds(sealed_at))
            counts.too_late = int(late.sum())
            batch, stored = batch.take(~late), stored.take(~late)
        verdict = judge(batch, stored)
        counts.add(verdict.counts)
        self._remember(batch, key_hash(batch), verdict.winners)
        finished = verdict.winners[batch.state[verdict.winners] == FINISHED]
        seconds = (batch.end_us[finished] - batch.start_us[finished]) / 1e6
        counts.core_s = float((seconds * batch.cpus[finished]).sum())

    def _stored(self, batch: RecordBatch, hashes: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> Stored:
        """What the table holds, and over that what this run would have stored."""
        stored = find_stored(self._source.pk, batch)
        for seen_hash, revision, end_us, state in self._seen:
            place = np.minimum(np.searchsorted(seen_hash, hashes), len(seen_hash) - 1)
            known = seen_hash[place] == hashes
            stored.id[known] = -1
            stored.revision[known] = revision[place[known]]
            stored.end_us[known] = end_us[place[known]]
            stored.state[known] = state[place[known]]
        return stored

    def _remember(self, batch: RecordBatch, hashes: np.ndarray[tuple[int], np.dtype[np.uint64]], winners: I8) -> None:
        if not len(winners):
            return
        winners = winners[np.argsort(hashes[winners])]
        end_us = comparable_end(batch.end_us, batch.state)
        self._seen.append((hashes[winners], batch.revision[winners], end_us[winners], batch.state[winners]))
