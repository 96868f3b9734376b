"""Hourly usage that a worker keeps between two recomputes: only hours that changed are read again."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from cachetools import LRUCache

from apps.core.derived_state import in_memory
from apps.usage.account_sums import first_full_hour
from apps.usage.arrays import UsageArrays, load_usage
from apps.usage.buckets import RESOURCES
from apps.usage.changed_hours import ReadMarks
from apps.usage.models import Overlap
from apps.usage.parsers.base import I8

DERIVED_STATE = (
    in_memory(
        "kept_usage",
        holds="usage of the window, for the next recompute",
        key="sources, sites, resources, length of the window; marks of what was read",
        inputs="buckets",
        range="the hours of the window",
        ends="hours from a changed one on are read again",
    ),
)

_HOUR_S = 3600
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_BYTES = 512 * 1024**2

_Key = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class _Kept:
    """Usage of the hours from `from_hour` to before `to_hour`, since 1970, sorted by hour."""

    from_hour: int
    to_hour: int
    usage: UsageArrays

    def between(self, from_hour: int, to_hour: int) -> UsageArrays:
        """Views of the rows of these hours."""
        edges = np.searchsorted(self.usage.hour_epoch, [from_hour * _HOUR_S, to_hour * _HOUR_S])
        return _rows(self.usage, slice(*edges.tolist()))

    @property
    def n_bytes(self) -> int:
        return 1 + sum(int(column.nbytes) for column in _columns(self.usage).values())


class KeptUsage:
    """The last usage by what was asked for.

    A caller holds `lock` from before its transaction begins until it ends, so that each transaction sees the state that
    the previous one saw, or a later one. The transaction is read-only with one snapshot.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._marks = ReadMarks()
        self._kept: LRUCache[_Key, _Kept] = LRUCache(_MOST_BYTES, getsizeof=lambda kept: kept.n_bytes)

    def load(
        self,
        *,
        sources: Sequence[int],
        from_at: datetime | None,
        to_at: datetime,
        sites: Sequence[str],
        resources: Iterable[str],
        classes: bool,
    ) -> UsageArrays:
        """As `arrays.load_usage`; rows are sorted by hour."""
        self._drop_changed()
        is_held = Overlap.objects.filter(held__in=sources).exclude(state=Overlap.State.COUNTED).exists()
        from_hour = 0 if from_at is None else max(first_full_hour(from_at), 0)
        to_hour = first_full_hour(to_at)
        n_days = None if from_at is None else (to_hour - from_hour) // 24  # two windows don't take turns
        key = (tuple(sources), tuple(sites), frozenset(resources), classes, is_held, n_days)
        kept = self._kept.get(key)
        begin = from_hour if kept is None or kept.from_hour > from_hour else kept.to_hour
        if kept is None or begin < to_hour:
            read = load_usage(
                sources=sources,
                from_at=_EPOCH + timedelta(hours=begin),
                to_at=to_at,
                sites=sites,
                resources=resources,
                classes=classes,
            )
            read = _rows(read, np.argsort(read.hour_epoch, kind="stable"))
            usage = read if begin == from_hour or kept is None else _joined(kept.between(from_hour, begin), read)
            kept = _Kept(from_hour, to_hour, usage)
            self._kept.pop(key, None)
            if kept.n_bytes <= _MOST_BYTES:
                self._kept[key] = kept
        return kept.between(from_hour, to_hour)

    def _drop_changed(self) -> None:
        changed_hour = self._marks.first_changed_hour()
        if changed_hour is None:
            return
        for key, kept in list(self._kept.items()):
            if changed_hour <= kept.from_hour:
                del self._kept[key]
            elif changed_hour < kept.to_hour:
                self._kept[key] = _Kept(kept.from_hour, changed_hour, kept.between(kept.from_hour, changed_hour))


def _columns(usage: UsageArrays) -> dict[str, Any]:
    """The columns that were loaded; those of other resources are 0."""
    names = ("account_id", "source_id", "job_class_id", "hour_epoch", *usage.resources, "site_code")
    return {name: column for name in names if (column := getattr(usage, name)) is not None}


def _with_columns(usage: UsageArrays, columns: Mapping[str, Any]) -> UsageArrays:
    nothing = np.broadcast_to(np.float64(0.0), len(columns["hour_epoch"]))
    return replace(usage, **{**dict.fromkeys(RESOURCES, nothing), **columns})


def _rows(usage: UsageArrays, rows: slice | I8) -> UsageArrays:
    return _with_columns(usage, {name: column[rows] for name, column in _columns(usage).items()})


def _joined(before: UsageArrays, after: UsageArrays) -> UsageArrays:
    if not len(after.hour_epoch):
        return before
    new = _columns(after)
    return _with_columns(after, {name: np.concatenate([old, new[name]]) for name, old in _columns(before).items()})


kept_usage = KeptUsage()
