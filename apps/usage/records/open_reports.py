"""Newer reports of open jobs: what `scontrol update`, `qalter` and the like change while a job waits or runs.

Both reports have the same revision and state, and neither has an end: the one that is received last counts, if it says
otherwise about what usage and demand depend on. What a report leaves out changes nothing, since formats of one source
say more or less: a listing has no project, and accounting has no GPUs where they aren't tracked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from apps.accounts.models import Account
from apps.usage.models import JobClass
from apps.usage.parsers.base import I8, NO_TIME, RUNNING, Flags, RecordBatch
from apps.usage.records.stored_versions import StoredVersions

Texts = tuple[str, ...]
_OF_ACCOUNT = ("user_name", "group_name", "dn", "fqan", "project")
_OF_JOB_CLASS = ("queue", "partition", "qos")


class Names(Protocol):
    """The names of accounts and of job classes, by id."""

    def of_accounts(self, ids: Sequence[int]) -> Mapping[int, Texts]: ...

    def of_job_classes(self, ids: Sequence[int]) -> Mapping[int, Texts]: ...


class StoredNames:
    """Names by the ids of their rows."""

    def of_accounts(self, ids: Sequence[int]) -> dict[int, Texts]:
        return {pk: tuple(names) for pk, *names in Account.objects.filter(pk__in=ids).values_list("pk", *_OF_ACCOUNT)}

    def of_job_classes(self, ids: Sequence[int]) -> dict[int, Texts]:
        rows = JobClass.objects.filter(pk__in=ids).values_list("pk", *_OF_JOB_CLASS)
        return {pk: tuple(names) for pk, *names in rows}


@dataclass(frozen=True, slots=True)
class _Named:
    """Accounts and job classes of rows, one id each."""

    account_id: I8
    job_class_id: I8


class OpenReports:
    """The open jobs of a batch, beside what is stored of them.

    differ_from_stored: rows that say otherwise than the stored version, which is of the same state and revision.
    """

    def __init__(
        self, batch: RecordBatch, stored: StoredVersions, account_id: I8, job_class_id: I8, names: Names
    ) -> None:
        self._batch, self._names = batch, names
        self._of_rows = _Named(account_id, job_class_id)
        self.differ_from_stored: Flags = np.zeros(len(batch), np.bool_)
        is_open = (stored.id != 0) & ~stored.is_other & ~stored.has_vanished & (batch.state <= RUNNING)
        rows = np.flatnonzero(is_open & (batch.state == stored.state) & (batch.revision == stored.revision))
        if len(rows):
            of_stored = _Named(stored.account_id[rows], stored.job_class_id[rows])
            self.differ_from_stored[rows] = self._differ(rows, stored.take(rows), of_stored)

    def differ(self, first: int, second: int) -> bool:
        """Whether the second of two rows with one key, state and revision says otherwise about an open job."""
        if self._batch.state[second] > RUNNING:
            return False
        before = StoredVersions.none(1)
        for name in ("start_us", "cpus", "gpus", "requested_s"):
            getattr(before, name)[0] = getattr(self._batch, name)[first]
        of_first = _Named(self._of_rows.account_id[[first]], self._of_rows.job_class_id[[first]])
        return bool(self._differ(np.array([second]), before, of_first)[0])

    def _differ(self, rows: I8, before: StoredVersions, of_before: _Named) -> Flags:
        """Rows of the batch, each beside its version before."""
        start_us, cpus, gpus, limit_s = (
            getattr(self._batch, name)[rows] for name in ("start_us", "cpus", "gpus", "requested_s")
        )
        is_same_run = start_us == before.start_us
        differs: Flags = ~np.isnan(limit_s) & (limit_s != before.requested_s)
        differs |= (cpus > 0) & (cpus != before.cpus)
        differs |= (gpus > 0) & (gpus != before.gpus)
        account_id, job_class_id = self._of_rows.account_id[rows], self._of_rows.job_class_id[rows]
        differs |= _other_names(account_id, of_before.account_id, self._names.of_accounts)
        differs |= _other_names(job_class_id, of_before.job_class_id, self._names.of_job_classes)
        differs &= is_same_run
        if self._batch.differ_by_start:  # a start that was set anew: a node had to boot, or another run is reported
            differs |= (start_us > before.start_us) & (before.start_us != NO_TIME)
        return differs


def _other_names(ids: I8, before: I8, names_of: Callable[[Sequence[int]], Mapping[int, Texts]]) -> Flags:
    """Which ids have other names than those before, and leave none out that these have."""
    differs: Flags = ids != before
    rows = np.flatnonzero(differs)
    if len(rows):
        names = names_of(sorted({*ids[rows].tolist(), *before[rows].tolist()}))
        pairs = zip(ids[rows].tolist(), before[rows].tolist(), strict=True)
        differs[rows] = [_replaces(names[new], names[old]) for new, old in pairs]
    return differs


def _replaces(names: Texts, before: Texts) -> bool:
    return names != before and all(new or not old for new, old in zip(names, before, strict=True))
