"""Distinguish jobs and runs of Slurm that have the same key, by its own number of each (SLUID) and by their starts.

A job that is submitted again under the same number in the same second has the key of the first one, and so has a run
of a requeued job that kept its submission, and each piece that `sacct --truncate` cuts. Its record's key differs by
`restart`, the next free number. So records that are stored keep their keys, and a record that is stored without a SLUID
is the one of the first job that has its key and doesn't contradict it. Which number a run has depends on the order of
reports; that it has one of its own doesn't.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from apps.usage.parsers.base import I8, NO_TIME, RUNNING, Flags, RecordBatch
from apps.usage.records.record_keys import key_hash
from apps.usage.records.stored_versions import StoredVersions

Find = Callable[[RecordBatch], StoredVersions]

_PROBED = 4  # numbers that are asked for at once; few jobs have more than two
_MOST_OF_KEY = 4096


class Identified(NamedTuple):
    """A batch whose rows have the key of their own job, and their stored versions."""

    batch: RecordBatch
    stored: StoredVersions


@dataclass(frozen=True, slots=True)
class _Slot:
    """A record of a key as it is stored: sluid 0 and start NO_TIME where it has none. is_open: it waits or runs."""

    sluid: int
    start_us: int
    is_open: bool


def identify_jobs(batch: RecordBatch, stored: StoredVersions, find: Find) -> Identified:
    """Give each row the key of its own job, and each row of a job the SLUID that is known of it.

    stored: the versions of the rows' present keys, as `find` returns them. Without SLUIDs, nothing changes but for runs
    that differ by their starts.
    """
    if not (batch.differ_by_start or batch.sluid.any() or stored.sluid.any()):
        return Identified(batch, stored)
    unclear = _contradicts(batch, stored) | _contradict_each_other(batch)
    if unclear.any():
        base = key_hash(replace(batch, restart=np.zeros(len(batch), np.int64)))
        rows = np.flatnonzero(np.isin(base, base[unclear]))
        batch = replace(batch, restart=_restarts(batch, rows, base, find))
        stored = find(batch)
    return Identified(replace(batch, sluid=_known_sluids(batch, stored)), stored)


def _contradicts(batch: RecordBatch, stored: StoredVersions) -> Flags:
    """Rows whose key is stored for another SLUID; or one of both has none, and they don't share a known start; or both
    have none, and known starts differ.
    """
    have_same_start = (batch.start_us != NO_TIME) & (batch.start_us == stored.start_us)
    has_one = (batch.sluid != 0) ^ (stored.sluid != 0)
    has_both = (batch.sluid != 0) & (stored.sluid != 0)
    differs: Flags = (has_both & (batch.sluid != stored.sluid)) | (has_one & ~have_same_start)
    if batch.differ_by_start:
        have_starts = (batch.start_us != NO_TIME) & (stored.start_us != NO_TIME)
        differs |= ~has_one & ~has_both & have_starts & ~have_same_start
    unclear: Flags = (stored.id != 0) & differs
    return unclear


def _contradict_each_other(batch: RecordBatch) -> Flags:
    """Rows that share their key with one of another SLUID, or of another start if neither has a SLUID."""
    unclear = np.zeros(len(batch), np.bool_)
    hashes = key_hash(batch)
    order = np.lexsort((batch.start_us, batch.sluid, hashes))
    of_key, sluid, start_us = hashes[order], batch.sluid[order], batch.start_us[order]
    differs = sluid[1:] != sluid[:-1]
    if batch.differ_by_start:
        differs |= (sluid[1:] == 0) & (start_us[1:] != start_us[:-1]) & (start_us[:-1] != NO_TIME)
    unclear[order[1:][(of_key[1:] == of_key[:-1]) & differs]] = True
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
            is_open = bool(stored.state[at] <= RUNNING) and not stored.has_vanished[at]
            slot = _Slot(int(stored.sluid[at]), int(stored.start_us[at]), is_open)
            slots[asked[at // _PROBED]][int(probe.restart[at])] = slot
        is_full = (stored.id != 0).reshape(len(asked), _PROBED).all(axis=1)
        asked, first = asked[is_full], first + _PROBED
    return slots


def _assigned(batch: RecordBatch, rows: I8, stored: dict[int, _Slot]) -> list[int]:
    """The number of each row of one key.

    A SLUID that is stored keeps its number, unless it waits there and a record without SLUID has its start. Another
    SLUID gets the number of a record without one: with its start, else without any start; else the next free number.
    A row without SLUID belongs to the record with its start. Else it is the first run that was seen to wait, or to run
    from a start that nothing reports now (it was set anew, as a node had to boot); else another one.
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
    reported = set(starts) - {NO_TIME}
    unreported = {number for number, slot in stored.items() if slot.is_open and slot.start_us not in reported}
    left = sorted(unreported - set(number_of.values())) + waiting
    if 0 not in taken:
        left.insert(0, 0)
    for start_us in sorted({start for sluid, start in zip(sluids, starts, strict=True) if not sluid} - {NO_TIME}):
        if start_us not in number_at:
            number_at[start_us] = left.pop(0) if left else _next_free(taken)
            taken.add(number_at[start_us])
    return [
        number_of[sluid] if sluid else number_at.get(start_us, own)
        for sluid, start_us, own in zip(sluids, starts, batch.restart[rows].tolist(), strict=True)
    ]


def _next_free(taken: set[int]) -> int:
    """The least number that no record has; it is taken then."""
    number = next(number for number in range(_MOST_OF_KEY) if number not in taken)
    taken.add(number)
    return number


def _known_sluids(batch: RecordBatch, stored: StoredVersions) -> I8:
    """The rows' SLUIDs; a row without one has that of the record, or of another row, of its key with its start."""
    sluid = np.where((batch.sluid == 0) & (batch.start_us == stored.start_us), stored.sluid, batch.sluid)
    has_one = np.flatnonzero(sluid)
    if 0 < len(has_one) < len(batch):
        of_key = np.stack([key_hash(batch).view(np.int64), batch.start_us])
        _, group = np.unique(of_key, axis=1, return_inverse=True)
        group = group.reshape(-1)
        known = np.zeros(int(group.max()) + 1, np.int64)
        known[group[has_one]] = sluid[has_one]
        sluid = np.where(sluid != 0, sluid, known[group])
    return sluid
