"""Hourly usage and open jobs of sources as column arrays, for the recompute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from apps.usage.bucket_deltas import RESOURCES, kind_rates, stored_kinds
from apps.usage.columns import RATE_ARRAYS
from apps.usage.held_hours import NOT_HELD
from apps.usage.joined_columns import JOINED_FLOAT8, JOINED_INT4, JOINED_INT8, JOINED_TIMESTAMPTZ, fetch_joined
from apps.usage.kinds import join_kinds
from apps.usage.models import Overlap
from apps.usage.open_jobs import known_until_epoch
from apps.usage.parsers.base import F8, FINISHED, I8, NO_TIME, PENDING, RUNNING, Flags
from apps.usage.pgbinary import fetch_columns


@dataclass(frozen=True, eq=False, slots=True)
class UsageArrays:
    """Hourly usage as columns; `hour_epoch` is the start of the hour in seconds since 1970.

    site_code: 1 for the first of `sites`, 2 for the second …, 0 for any other site; None when no sites were requested.
    resources: those that were loaded; the columns of the others are 0. kinds: the columns of loaded kinds, by name.
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
    kinds: Mapping[str, F8] = field(default_factory=dict)

    def selected(self, chosen: Flags | I8) -> UsageArrays:
        """The chosen rows, by mask or index."""
        names = ("account_id", "source_id", "job_class_id", "hour_epoch", *RESOURCES)
        code = None if self.site_code is None else self.site_code[chosen]
        kinds = {name: column[chosen] for name, column in self.kinds.items()}
        return replace(self, site_code=code, kinds=kinds, **{name: getattr(self, name)[chosen] for name in names})

    def amount_of(self, resource: str) -> F8:
        """The column of a resource or of a loaded kind."""
        column: F8 = getattr(self, resource) if resource in RESOURCES else self.kinds[resource]
        return column


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
    kinds: Mapping[str, F8] = field(default_factory=dict)  # rates by name; one that isn't there is 0

    def selected(self, chosen: Flags | I8) -> OpenRecords:
        """The chosen jobs, by mask or index."""
        columns = ((each.name, getattr(self, each.name)) for each in fields(self))
        selected: dict[str, Any] = {name: values[chosen] for name, values in columns if isinstance(values, np.ndarray)}
        return replace(self, **selected, kinds={name: column[chosen] for name, column in self.kinds.items()})


_BUCKETS = """
FROM usage_bucket {kinds}{named}
WHERE source_id = ANY(%s::int8[]) AND hour_at >= %s::timestamptz AND hour_at < %s::timestamptz{unless_held}
"""
_LOAD_OPEN = """
SELECT array_agg(account_id), array_agg(source_id), array_agg(job_class_id), array_agg((state = {running})::int::int8),
    array_agg(COALESCE(start_at, '-infinity')), {rates},
    array_agg(COALESCE(requested_s, 'NaN')), {kinds}{code}{began_at}
FROM usage_record {named} {part_before}
WHERE source_id = ANY(%s::int8[]) AND state <> {finished} AND state IN ({running}, {pending})
    AND submit_at <= %s::timestamptz
"""
# Start of the first part, of a part that was submitted and began when another ended: so Slurm records a resize. Of the
# last parts only, by the key's index: those that ended before the last tick don't matter, and a job may have thousands.
_MOST_ARRAY_PARTS = 32
PART_BEFORE = f"""
LEFT JOIN LATERAL (
    SELECT min(earlier.start_at) AS began_at FROM (
        SELECT part.start_at, part.end_at FROM usage_record AS part
        WHERE usage_record.submit_at = usage_record.start_at AND part.source_id = usage_record.source_id
            AND part.job_number = usage_record.job_number AND part.cluster = usage_record.cluster
            AND part.job = usage_record.job AND part.array_task = usage_record.array_task
            AND part.submit_at < usage_record.submit_at
        ORDER BY part.submit_at DESC LIMIT {_MOST_ARRAY_PARTS}) AS earlier
    WHERE earlier.end_at <= usage_record.start_at
    HAVING bool_or(earlier.end_at = usage_record.start_at)) AS part_before ON true
"""  # noqa: S608 - constants only
# Whether each record has kinds, and the texts of those that have: mostly none has.
KINDS = "array_agg((kinds IS NOT NULL)::int::int8), array_agg(kinds::text) FILTER (WHERE kinds IS NOT NULL)"
_STATES = {
    "rates": RATE_ARRAYS,
    "kinds": KINDS,
    "pending": str(PENDING),
    "running": str(RUNNING),
    "finished": str(FINISHED),
}
_NO_PARTS = {"part_before": "", "began_at": "", **_STATES}
_PARTS = {"part_before": PART_BEFORE, "began_at": ", array_agg(COALESCE(part_before.began_at, '-infinity'))", **_STATES}
_CODE = "COALESCE(named.code, 0)"
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

    sites: sites to distinguish by `site_code`, without duplicates. resources: columns to load, those of kinds by their
    names. classes: whether to load job classes; if not, `job_class_id` is 0, which no class has.
    """
    asked = set(resources)
    wanted = (*(name for name in RESOURCES if name in asked), *sorted(asked.difference(RESOURCES)))
    columns_of, kinds = join_kinds(wanted, from_at=from_at or _EARLIEST, to_at=to_at)
    keys = ["source_id"] * (len(sources) > 1) + ["job_class_id"] * classes  # a column with one value needs no query
    is_held = Overlap.objects.filter(held__in=sources).exclude(state=Overlap.State.COUNTED).exists()
    columns = {
        "account_id": JOINED_INT4.of("account_id"),
        "hour_us": JOINED_TIMESTAMPTZ.of("hour_at"),
        **{name: JOINED_INT4.of(name) for name in keys},
        **{name: JOINED_FLOAT8.of(expression) for name, expression in columns_of.items()},
        **({"site_code": JOINED_INT8.of(_CODE)} if sites else {}),
    }
    named, unless_held = _NAMED if sites else "", NOT_HELD if is_held else ""
    query = _BUCKETS.format(kinds=kinds, named=named, unless_held=unless_held)
    values: dict[str, Any] = fetch_joined(columns, query, [*_named(sites), list(sources), from_at or _EARLIEST, to_at])
    n = len(values["account_id"])
    constant = {
        "source_id": np.full(n, sources[0] if sources else 0, np.int64),
        "job_class_id": np.zeros(n, np.int64),
        **dict.fromkeys(RESOURCES, np.zeros(n)),
    }
    return UsageArrays(
        hour_epoch=values.pop("hour_us") // 1_000_000,
        kinds={name: values.pop(name) for name in wanted if name not in RESOURCES},
        **(constant | values),
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
    query = _LOAD_OPEN.format(
        code=f", array_agg({_CODE})" if sites else "",
        named=_NAMED if sites else "",
        **(_PARTS if parts else _NO_PARTS),
    )
    columns = fetch_columns(query, [*_named(sites), list(sources), submitted_by or "infinity"])
    if not columns:
        none, nothing = np.zeros(0, np.int64), np.zeros(0)
        numbers = (nothing, nothing, nothing, nothing, nothing, nothing, nothing)
        return OpenRecords(none, none, none, np.zeros(0, np.bool_), *numbers, none, tuple(sites))
    account_id, source_id, job_class_id, is_running, start_us, cpus, gpus, mem_mb, nodes, billing, *rest = columns
    kinds = kind_columns(rest.pop(1), rest.pop(1))
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
        kinds,
    )


def kind_columns(has_kinds: I8, texts: Sequence[str] | None, run_us: I8 | None = None) -> dict[str, F8]:
    """Rates of stored records by kind, from the columns of KINDS. run_us: how long each ran, without which no total has
    a rate.
    """
    if not texts:
        return {}
    n, kind = len(has_kinds), has_kinds.copy()
    kind[has_kinds > 0], kinds = stored_kinds(texts)
    rates = kind_rates(kind, kinds, np.zeros(n, np.int64) if run_us is None else run_us)
    columns = {name.decode(): np.zeros(n) for name in np.unique(rates.kind).tolist()}
    for name, column in columns.items():
        chosen = rates.kind == name.encode()
        column[rates.row[chosen]] = rates.rate[chosen]
    return columns


def epochs_or_nan(us: I8) -> F8:
    return np.where(us == NO_TIME, np.nan, us / 1e6)


def _named(sites: Sequence[str]) -> list[list[str]]:
    """The parameter of _NAMED, which is in the query if sites are given."""
    return [list(sites)] if sites else []
