"""Hourly usage and open jobs of sources as column arrays, for the recompute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from apps.usage.buckets import RESOURCES
from apps.usage.held_hours import NOT_HELD
from apps.usage.models import Overlap
from apps.usage.open_jobs import known_until_epoch
from apps.usage.parsers.base import F8, FINISHED, I8, NO_TIME, PENDING, RUNNING, Flags
from apps.usage.pgbinary import fetch_columns


@dataclass(frozen=True, eq=False, slots=True)
class UsageArrays:
    """Hourly usage as columns; `hour_epoch` is the start of the hour in seconds since 1970.

    site_code: 1 for the first of `sites`, 2 for the second …, 0 for any other site; None when no sites were requested.
    resources: those that were loaded; the columns of the others are 0.
    """

    account_id: I8
    source_id: I8
    job_class_id: I8
    hour_epoch: I8
    cpu_s: F8
    gpu_s: F8
    mem_gb_s: F8
    node_s: F8
    billing: F8
    site_code: I8 | None = None
    sites: tuple[str, ...] = ()
    resources: tuple[str, ...] = RESOURCES

    def selected(self, chosen: Flags | I8) -> UsageArrays:
        """The chosen rows, by mask or index."""
        names = ("account_id", "source_id", "job_class_id", "hour_epoch", *RESOURCES)
        code = None if self.site_code is None else self.site_code[chosen]
        return replace(self, site_code=code, **{name: getattr(self, name)[chosen] for name in names})


@dataclass(frozen=True, eq=False, slots=True)
class OpenRecords:
    """Running and pending jobs as columns.

    start_epoch: seconds since 1970, NaN for pending jobs. Amounts are rates, per second. site_code, sites: see
    UsageArrays. known_until_epoch: the time until which each job counts (see `open_jobs`); None when all of them run
    until a report says otherwise. part_before_epoch: first start of a job that was resized; NaN
    for others, None when none was.
    """

    account_id: I8
    source_id: I8
    job_class_id: I8
    is_running: Flags
    start_epoch: F8
    cpus: F8
    gpus: F8
    mem_gb: F8
    nodes: F8
    billing: F8
    requested_s: F8
    site_code: I8 | None = None
    sites: tuple[str, ...] = ()
    known_until_epoch: F8 | None = None
    part_before_epoch: F8 | None = None

    def selected(self, chosen: Flags | I8) -> OpenRecords:
        """The chosen jobs, by mask or index."""
        columns = ((each.name, getattr(self, each.name)) for each in fields(self))
        selected: dict[str, Any] = {name: values[chosen] for name, values in columns if isinstance(values, np.ndarray)}
        return replace(self, **selected)


_LOAD_USAGE = """
SELECT array_agg(account_id), array_agg(hour_at){amounts}{code}
FROM usage_bucket {named}
WHERE source_id = ANY(%s::int8[]) AND hour_at >= %s::timestamptz AND hour_at < %s::timestamptz{unless_held}
"""
_LOAD_OPEN = """
SELECT array_agg(account_id), array_agg(source_id), array_agg(job_class_id), array_agg((state = {running})::int::int8),
    array_agg(COALESCE(start_at, '-infinity')), array_agg(cpus), array_agg(gpus), array_agg(mem_mb), array_agg(nodes),
    array_agg(billing), array_agg(COALESCE(requested_s, 'NaN')){code}{began_at}
FROM usage_record {named} {part_before}
WHERE source_id = ANY(%s::int8[]) AND state <> {finished} AND state IN ({running}, {pending})
    AND submit_at <= %s::timestamptz
"""
# Start of the first part, of a part that was submitted and began when another ended: so Slurm records a resize. Of the
# last parts only, by the key's index: those that ended before the last tick don't matter, and a job may have thousands.
_MOST_PARTS = 32
PART_BEFORE = f"""
LEFT JOIN LATERAL (
    SELECT min(earlier.start_at) AS began_at FROM (
        SELECT part.start_at, part.end_at FROM usage_record AS part
        WHERE usage_record.submit_at = usage_record.start_at AND part.source_id = usage_record.source_id
            AND part.job_number = usage_record.job_number AND part.cluster = usage_record.cluster
            AND part.job = usage_record.job AND part.array_task = usage_record.array_task
            AND part.submit_at < usage_record.submit_at
        ORDER BY part.submit_at DESC LIMIT {_MOST_PARTS}) AS earlier
    WHERE earlier.end_at <= usage_record.start_at
    HAVING bool_or(earlier.end_at = usage_record.start_at)) AS part_before ON true
"""  # noqa: S608 - constants only
_STATES = {"pending": str(PENDING), "running": str(RUNNING), "finished": str(FINISHED)}
_NO_PARTS = {"part_before": "", "began_at": "", **_STATES}
_PARTS = {"part_before": PART_BEFORE, "began_at": ", array_agg(COALESCE(part_before.began_at, '-infinity'))", **_STATES}
_CODE = ", array_agg(COALESCE(named.code, 0))"
_NAMED = "LEFT JOIN unnest(%s::text[]) WITH ORDINALITY AS named(name, code) ON named.name = site"
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


def load_usage(
    *,
    sources: Sequence[int],
    from_at: datetime | None,
    to_at: datetime,
    sites: Sequence[str] = (),
    resources: Iterable[str] = RESOURCES,
    classes: bool = True,
) -> UsageArrays:
    """Load the buckets of hours from `from_at` (inclusive) to `to_at` (exclusive), in no particular order.

    Held hours, which another source covers too, are left out.

    sites: sites to distinguish by `site_code`, without duplicates. resources: columns to load. classes: whether to load
    job classes; if not, `job_class_id` is 0, which no class has.
    """
    wanted = tuple(name for name in RESOURCES if name in set(resources))
    keys = ["source_id"] * (len(sources) > 1) + ["job_class_id"] * classes  # a column with one value needs no query
    amounts = "".join(f", array_agg({name})" for name in (*keys, *wanted))
    is_held = Overlap.objects.filter(held__in=sources).exclude(state=Overlap.State.COUNTED).exists()
    parameters = [list(sources), from_at or _EARLIEST, to_at]
    arrays = _columns(_LOAD_USAGE, sites, parameters, amounts=amounts, unless_held=NOT_HELD if is_held else "")
    none: list[Any] = [np.zeros(0, np.int64)]
    columns = arrays or none * (2 + len(keys)) + [np.zeros(0)] * len(wanted) + none
    account_id, hour_us = columns[:2]
    n = len(account_id)
    values: dict[str, Any] = {
        "source_id": np.full(n, sources[0] if sources else 0, np.int64),
        "job_class_id": np.zeros(n, np.int64),
        **dict.fromkeys(RESOURCES, np.zeros(n)),
    }
    values.update(zip((*keys, *wanted), columns[2:], strict=False))
    return UsageArrays(
        account_id=account_id,
        hour_epoch=hour_us // 1_000_000,
        **values,
        site_code=columns[-1] if sites else None,
        sites=tuple(sites),
        resources=wanted,
    )


def load_open_records(
    *,
    sources: Sequence[int],
    sites: Sequence[str] = (),
    submitted_by: datetime | None = None,
    parts: bool = False,
) -> OpenRecords:
    """Load running and pending jobs as last reported.

    submitted_by: leave out jobs submitted later. parts: load `part_before_epoch`, too.
    """
    columns = _columns(
        _LOAD_OPEN, sites, [list(sources), submitted_by or "infinity"], **(_PARTS if parts else _NO_PARTS)
    )
    if not columns:
        none, nothing = np.zeros(0, np.int64), np.zeros(0)
        numbers = (nothing, nothing, nothing, nothing, nothing, nothing, nothing)
        return OpenRecords(none, none, none, np.zeros(0, np.bool_), *numbers, none, tuple(sites))
    account_id, source_id, job_class_id, is_running, start_us, cpus, gpus, mem_mb, nodes, billing, *rest = columns
    running = is_running.astype(np.bool_)
    start_epoch = np.where(running, start_us / 1e6, np.nan)
    return OpenRecords(
        account_id,
        source_id,
        job_class_id,
        running,
        start_epoch,
        cpus,
        gpus,
        mem_mb / 1024.0,
        nodes,
        billing,
        rest[0],
        rest[1] if sites else None,
        tuple(sites),
        known_until_epoch(source_id, start_epoch, rest[0]),
        epochs_or_nan(rest[-1]) if parts else None,
    )


def epochs_or_nan(us: I8) -> F8:
    return np.where(us == NO_TIME, np.nan, us / 1e6)


def _columns(query: str, sites: Sequence[str], parameters: list[Any], **parts: str) -> list[Any]:
    """Fetch the columns of a query, with a column of site codes only if sites are given."""
    if not sites:
        return fetch_columns(query.format(code="", named="", **parts), parameters)
    return fetch_columns(query.format(code=_CODE, named=_NAMED, **parts), [list(sites), *parameters])
