"""Distinguish jobs that have the same key, by Slurm's own number of each (SLUID).

A job that is submitted again under the same number in the same second has the key of the first one. Its record's key
differs by `restart`, the next free number. So records that are stored keep their keys, and a record that is stored
without a SLUID is the one of the first job that has its key and doesn't contradict it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from apps.usage.parsers.base import I8, NO_TIME, Flags, RecordBatch
from apps.usage.records.record_keys import key_hash
from apps.usage.records.versions import StoredVersions

Find = Callable[[RecordBatch], StoredVersions]

_PROBED = 4  # numbers that are asked for at once; few jobs have more than two
_MOST_OF_KEY = 4096


class Identified(NamedTuple):
    """A batch whose rows have the key of their own job, and their stored versions."""

    batch: RecordBatch
    stored: StoredVersions


@dataclass(frozen=True, slots=True)
class _Slot:
    """A record of a key as it is stored: sluid 0 and start NO_TIME where it has none."""

    sluid: int
    start_us: int


def identify_jobs(batch: RecordBatch, stored: StoredVersions, find: Find) -> Identified:
    """Give each row the key of its own job, and each row of a job the SLUID that is known of it.

    stored: the versions of the rows' present keys, as `find` returns them. Without SLUIDs, nothing changes.
    """
    if not batch.sluid.any() and not stored.sluid.any():
        return Identified(batch, stored)
    unclear = _contradicts(batch, stored) | _contradict_each_other(batch)
    if unclear.any():
        base = key_hash(replace(batch, restart=np.zeros(len(batch), np.int64)))
        rows = np.flatnonzero(np.isin(base, base[unclear]))
        batch = replace(batch, restart=_restarts(batch, rows, base, find))
        stored = find(batch)
    return Identified(replace(batch, sluid=_known_sluids(batch, stored)), stored)


def _contradicts(batch: RecordBatch, stored: StoredVersions) -> Flags:
    """Rows whose key is stored for another SLUID; or one of both has none, and they don't share a known start."""
    have_same_start = (batch.start_us != NO_TIME) & (batch.start_us == stored.start_us)
    has_one = (batch.sluid != 0) ^ (stored.sluid != 0)
    has_both = (batch.sluid != 0) & (stored.sluid != 0)
    differs: Flags = (has_both & (batch.sluid != stored.sluid)) | (has_one & ~have_same_start)
    unclear: Flags = (stored.id != 0) & differs
    return unclear


def _contradict_each_other(batch: RecordBatch) -> Flags:
    """Rows that share their key with one of another SLUID."""
    unclear = np.zeros(len(batch), np.bool_)
    hashes = key_hash(batch)
    order = np.lexsort((batch.sluid, hashes))
    of_key, sluid = hashes[order], batch.sluid[order]
    differs = (of_key[1:] == of_key[:-1]) & (sluid[1:] != sluid[:-1])
    unclear[order[1:][differs]] = True
    return unclear


def _restarts(batch: RecordBatch, rows: I8, base: np.ndarray[tuple[int], np.dtype[np.uint64]], find: Find) -> I8:
    """The numbers of all rows, with those of `rows` chosen by what is stored of their keys."""
    restart = batch.restart.copy()
    _, first, group = np.unique(base[rows], return_index=True, return_inverse=True)
    slots = _stored_slots(batch, rows[first], find)
    for place, of_key in enumerate(slots):
        members = rows[group == place]
        restart[members] = _assigned(batch, members, of_key)
    return restart


def _stored_slots(batch: RecordBatch, representatives: I8, find: Find) -> list[dict[int, _Slot]]:
    """What is stored of each representative's key, by number."""
    slots: list[dict[int, _Slot]] = [{} for _ in representatives]
    asked, first = np.arange(len(representatives)), 0
    while len(asked) and first < _MOST_OF_KEY:
        numbers = np.arange(first, first + _PROBED)
        probe = batch.take(np.repeat(representatives[asked], _PROBED))
        probe.restart = np.tile(numbers, len(asked))
        stored = find(probe)
        for at in np.flatnonzero(stored.id).tolist():
            slot = _Slot(int(stored.sluid[at]), int(stored.start_us[at]))
            slots[asked[at // _PROBED]][int(probe.restart[at])] = slot
        is_full = (stored.id != 0).reshape(len(asked), _PROBED).all(axis=1)
        asked, first = asked[is_full], first + _PROBED
    return slots


def _assigned(batch: RecordBatch, rows: I8, stored: dict[int, _Slot]) -> list[int]:
    """The number of each row of one key.

    A SLUID that is stored keeps its number, unless it waits there and a record without SLUID has its start. Another
    SLUID gets the number of a record without one: with its start, else without any start; else the next free number.
    A row without SLUID belongs to the record with its start, else to that of its own number. If this has a SLUID and
    another start, it belongs to a job that waits, else to another one.
    """
    sluids, starts = batch.sluid[rows].tolist(), batch.start_us[rows].tolist()
    start_of = {sluid: start for sluid, start in zip(sluids, starts, strict=True) if sluid and start != NO_TIME}
    free = {number: slot.start_us for number, slot in sorted(stored.items()) if not slot.sluid}
    begun_first = sorted(stored.items(), key=lambda item: item[1].start_us == NO_TIME, reverse=True)
    number_of = {slot.sluid: number for number, slot in begun_first if slot.sluid}
    for sluid in number_of.keys() & start_of.keys():  # it waited under its SLUID, and was seen to run without
        if stored[number_of[sluid]].start_us == NO_TIME and start_of[sluid] in free.values():
            number_of[sluid] = next(number for number, start_us in free.items() if start_us == start_of[sluid])
            del free[number_of[sluid]]
    taken, asking = set(stored), sorted(set(sluids) - number_of.keys() - {0})
    for has_start in (True, False):  # the same start decides before an unknown one
        for sluid in [each for each in asking if each not in number_of]:
            start_us = start_of.get(sluid, NO_TIME)
            fitting = [
                number
                for number, of_slot in free.items()
                if (of_slot == start_us if has_start else NO_TIME in (of_slot, start_us))
            ]
            if fitting:
                number_of[sluid] = fitting[0]
                del free[fitting[0]]
    for sluid in asking:
        if sluid not in number_of:
            number_of[sluid] = _next_free(taken)
    number_at = {slot.start_us: number for number, slot in stored.items() if slot.start_us != NO_TIME}
    number_at |= {start_of[sluid]: number for sluid, number in number_of.items() if sluid in start_of}
    begun = set(number_at.values())
    waiting = sorted(number for number in number_of.values() if number not in begun)
    chosen = []
    for sluid, start_us, own in zip(sluids, starts, batch.restart[rows].tolist(), strict=True):
        if sluid:
            chosen.append(number_of[sluid])
            continue
        if start_us != NO_TIME and start_us not in number_at:
            is_other = own in begun and own in number_of.values()
            number_at[start_us] = own if not is_other else waiting.pop(0) if waiting else _next_free(taken)
        chosen.append(number_at.get(start_us, own))
    return chosen


def _next_free(taken: set[int]) -> int:
    """The least number that no record has; it is taken then."""
    number = next(number for number in range(_MOST_OF_KEY) if number not in taken)
    taken.add(number)
    return number


def _known_sluids(batch: RecordBatch, stored: StoredVersions) -> I8:
    """The rows' SLUIDs; a row without one has that of the record, or of another row, of its key with its start."""
    sluid = np.where((batch.sluid == 0) & (batch.start_us == stored.start_us), stored.sluid, batch.sluid)
    has_one = np.flatnonzero(sluid)
    if len(has_one) < len(batch):
        of_key = np.stack([key_hash(batch).view(np.int64), batch.start_us])
        _, group = np.unique(of_key, axis=1, return_inverse=True)
        group = group.reshape(-1)
        known = np.zeros(int(group.max()) + 1, np.int64)
        known[group[has_one]] = sluid[has_one]
        sluid = np.where(sluid != 0, sluid, known[group])
    return sluid
