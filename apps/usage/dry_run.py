"""What an import would do, without writing anything."""

from __future__ import annotations

import numpy as np

from apps.usage.collectors.base import FINISHED, I8, RecordBatch
from apps.usage.ingest import with_defaults
from apps.usage.models import Source
from apps.usage.versions import Counts, comparable_end, find_stored, judge, key_hash


class DryRun:
    """Judges batch after batch, remembering the versions that earlier ones would have stored."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._seen: list[tuple[np.ndarray[tuple[int], np.dtype[np.uint64]], I8, I8, I8]] = []

    def judge(self, batch: RecordBatch) -> Counts:
        if not len(batch):
            return Counts()
        batch = with_defaults(batch, self._source)
        hashes = key_hash(batch)
        stored = find_stored(self._source.pk, batch)
        for seen_hash, revision, end_us, state in self._seen:
            place = np.minimum(np.searchsorted(seen_hash, hashes), len(seen_hash) - 1)
            known = seen_hash[place] == hashes
            stored.id[known] = -1
            stored.revision[known] = revision[place[known]]
            stored.end_us[known] = end_us[place[known]]
            stored.state[known] = state[place[known]]
        verdict = judge(batch, stored)
        self._remember(batch, hashes, verdict.winners)
        finished = verdict.winners[batch.state[verdict.winners] == FINISHED]
        seconds = (batch.end_us[finished] - batch.start_us[finished]) / 1e6
        verdict.counts.core_s = float((seconds * batch.cpus[finished]).sum())
        return verdict.counts

    def _remember(self, batch: RecordBatch, hashes: np.ndarray[tuple[int], np.dtype[np.uint64]], winners: I8) -> None:
        if not len(winners):
            return
        winners = winners[np.argsort(hashes[winners])]
        end_us = comparable_end(batch.end_us, batch.state)
        self._seen.append((hashes[winners], batch.revision[winners], end_us[winners], batch.state[winners]))
