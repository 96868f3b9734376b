"""Read the site's own jobs of some days from its records, as they are replayed: who, where, when, and how much.

Taken are all jobs that were submitted in these days, that waited or ran when they began, and that reached an entry of
the policy. Those that still run at the end run on; those that still wait are as long as they requested times the part
that their entry usually uses. What is left out is counted with its reason. Jobs of peers are not known one by one:
their usage is not replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps.contrib.lab.comparison.replay import DAY_S
from apps.contrib.lab.experiments.inputs import NO_SUBMIT_TIME, WAS_RUNNING, WAS_WAITING, GivenJobs
from apps.contrib.lab.experiments.replayed_jobs import delivered_by_day, narrowed_to, with_usual_lengths
from apps.contrib.lab.experiments.spec import Site
from apps.priorities.usage_factors import JobClassRow, site_names, weighted_amounts
from apps.usage.arrays import KINDS, OpenRecords, kind_columns
from apps.usage.columns import RATE_ARRAYS
from apps.usage.held_hours import OF_CURRENT, STARTED_HELD
from apps.usage.models import JobClass, Overlap, SiteDay, Source
from apps.usage.open_jobs import KNOWN_UNTIL, known_until_epoch
from apps.usage.parsers.base import FINISHED, NO_TIME, PENDING, RUNNING, WITHDRAWN
from apps.usage.pgbinary import fetch_columns

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_SPAN = timedelta(days=7)  # of submissions that one query reads
_LOAD = """
SELECT array_agg(account_id), array_agg(source_id), array_agg(job_class_id), array_agg(state), array_agg(submit_at),
    array_agg(COALESCE(start_at, '-infinity')), array_agg(COALESCE(end_at, '-infinity')), {rates},
    array_agg(COALESCE(requested_s, 'NaN')), array_agg(is_charge::int), array_agg(COALESCE(named.code, 0)),
    array_agg({held}), {kinds}
FROM usage_record LEFT JOIN unnest(%s::text[]) WITH ORDINALITY AS named(name, code) ON named.name = site
WHERE source_id = ANY(%s::int8[]) AND {when}{of_current}{sampled}
"""
_KNOWN_UNTIL = KNOWN_UNTIL.replace("record.", "usage_record.")
# As `replayed_jobs` chooses: each reason to leave a job out, but for the mapping.
_COUNT = """
WITH counted AS (
    SELECT account_id, source_id, COALESCE(NULLIF(usage_record.site, ''), source.slug) AS site, count(*) AS n
    FROM usage_record JOIN usage_source AS source ON source.id = source_id
    WHERE source_id = ANY(%s::int8[]) AND ({carried} OR {in_span}){of_current}
        AND NOT is_charge AND COALESCE(cpus, 1) > 0 AND NOT {held}::bool AND CASE usage_record.state
            WHEN {finished} THEN end_at > start_at
            WHEN {running} THEN requested_s > 0 OR LEAST(%s, {known_until}) > start_at
            WHEN {pending} THEN requested_s > 0
            ELSE false END
    GROUP BY 1, 2, 3
), numbered AS (SELECT site, row_number() OVER () AS number FROM (SELECT DISTINCT site FROM counted) AS named)
SELECT array_agg(account_id), array_agg(source_id), array_agg(number), array_agg(n)
FROM counted JOIN numbered USING (site)
"""
_WAITED = """
SELECT wanted FROM unnest(%s::int8[]) AS wanted WHERE EXISTS (SELECT FROM usage_record WHERE source_id = wanted
    AND ({carried} OR {in_span}) AND (submit_at < start_at OR state = {pending}))
"""
_IN_SPAN = "submit_at >= %s AND submit_at < %s"
_CARRIED = "submit_at < %s AND (end_at > %s OR state <> {finished} AND state IN ({pending}, {running}))"


@dataclass(frozen=True, eq=False)
class RecordedJobs:
    """Rows of records, (n,). Instants in seconds since 1970, NaN where there is none. site: index in `sites`."""

    account_id: I8
    source_id: I8
    job_class_id: I8
    state: I8
    submit_s: F8
    start_s: F8
    end_s: F8
    cpus: F8
    gpus: F8
    mem_gb: F8
    nodes: F8
    billing: F8
    requested_s: F8
    is_charge: Mask
    is_held: Mask
    site: I8
    sites: tuple[str, ...]
    site_code: I8  # of `site_names`, 1 for the first; 0: without a name
    site_names: tuple[str, ...]
    kinds: Mapping[str, F8] = field(default_factory=dict)  # rates by name; one that isn't there is 0

    def __len__(self) -> int:
        return len(self.account_id)

    def rates(self, metric: Mapping[str, Any]) -> F8:
        """Usage of each job per second, in this metric."""
        rows = OpenRecords(
            self.account_id,
            self.source_id,
            self.job_class_id,
            np.ones(len(self), np.bool_),
            self.start_s,
            self.cpus,
            self.gpus,
            self.mem_gb,
            self.nodes,
            self.billing,
            self.requested_s,
            *_coded(self, metric),
            kinds=self.kinds,
        )
        classes = {row[0]: JobClassRow(*row) for row in JobClass.objects.values_list("id", "queue", "partition", "qos")}
        return np.asarray(weighted_amounts(rows, metric=metric, classes=classes), dtype=np.float64)


def _coded(jobs: RecordedJobs, metric: Mapping[str, Any]) -> tuple[I8, tuple[str, ...]]:
    """The sites that have a factor in the metric, and the code of each job among them."""
    wanted = site_names(metric)
    code_of = np.zeros(len(jobs.site_names) + 1, dtype=np.int64)
    for number, name in enumerate(wanted, start=1):
        if name in jobs.site_names:
            code_of[jobs.site_names.index(name) + 1] = number
    return code_of[jobs.site_code], wanted


def own_sources() -> list[Source]:
    """Sources that report jobs of this site."""
    return list(Source.objects.filter(origin="").exclude(kind=Source.Kind.PEER).order_by("pk"))


@dataclass(frozen=True, eq=False)
class ReplayableCounts:
    """How many records are replayed if their accounts are mapped, by account, source and site: (m,) each.

    site: a number for each, which says only which of these rows are of the same one.
    """

    account_id: I8
    source_id: I8
    site: I8
    n: I8


def count_replayable(from_at: datetime, to_at: datetime) -> ReplayableCounts:
    """As `replayed_jobs` of the records of these days, without reading them."""
    sources = own_sources()
    carried = _CARRIED.format(finished=FINISHED, pending=PENDING, running=RUNNING)
    query = _COUNT.format(
        carried=carried,
        in_span=_IN_SPAN,
        of_current=OF_CURRENT,
        held=_held_by(sources),
        known_until=_KNOWN_UNTIL,
        finished=FINISHED,
        running=RUNNING,
        pending=PENDING,
    )
    columns = fetch_columns(query, [[source.pk for source in sources], from_at, from_at, from_at, to_at, to_at])
    return ReplayableCounts(*(columns or [np.zeros(0, np.int64)] * 4))


def count_by_account(from_at: datetime, to_at: datetime) -> tuple[I8, I8]:
    """(accounts, records of each that are replayed if it is mapped)."""
    counts = count_replayable(from_at, to_at)
    accounts, place = np.unique(counts.account_id, return_inverse=True)
    return accounts, np.bincount(place.reshape(-1), counts.n, minlength=len(accounts)).astype(np.int64)


def sources_with_submit_times(from_at: datetime, to_at: datetime) -> I8:
    """As `replayed_jobs` has it: one of their records of these days waited."""
    carried = _CARRIED.format(finished=FINISHED, pending=PENDING, running=RUNNING)
    query = _WAITED.format(carried=carried, in_span=_IN_SPAN, pending=PENDING)
    with connection.cursor() as cursor:
        cursor.execute(query, [[source.pk for source in own_sources()], from_at, from_at, from_at, to_at])
        return np.array([row[0] for row in cursor.fetchall()], np.int64)


def _held_by(sources: Sequence[Source]) -> str:
    """The SQL for whether hours of a record are held: nearly never there is any."""
    return (
        f"({STARTED_HELD})::int"
        if Overlap.objects.filter(held__in=sources).exclude(state=Overlap.State.COUNTED).exists()
        else "0"
    )


def load_recorded_jobs(
    from_at: datetime, to_at: datetime, *, one_in: int = 1, done: Callable[[], object] = lambda: None
) -> RecordedJobs:
    """Records that matter for these days: all, or one in so many. done: is called after each week that was read."""
    sources = own_sources()
    names = sorted(
        set(
            SiteDay.objects.filter(source__in=sources, day__gte=from_at.date() - timedelta(days=1))
            .exclude(site="")
            .values_list("site", flat=True)
        )
    )
    held = _held_by(sources)
    sampled = f" AND usage_record.id %% {one_in:d} = 0" if one_in > 1 else ""
    pieces = []
    for when, parameters in _spans(from_at, to_at):
        query = _LOAD.format(
            when=when, of_current=OF_CURRENT, sampled=sampled, held=held, rates=RATE_ARRAYS, kinds=KINDS
        )
        columns = fetch_columns(query, [names, [source.pk for source in sources], *parameters])
        if columns:
            pieces.append(columns)
        done()
    columns = _concatenated(pieces) if pieces else _no_columns()
    return _recorded(columns, sources, names)


def _concatenated(pieces: list[list[Any]]) -> list[Any]:
    """Column by column; what is joined is freed at once, because a year of jobs is large. The last are lists of texts,
    or None.
    """
    columns: list[Any] = []
    texts = [text for piece in pieces for text in piece.pop() or ()]
    for at in range(len(pieces[0])):
        columns.append(np.concatenate([piece[at] for piece in pieces]))
        for piece in pieces:
            piece[at] = None
    return [*columns, texts]


def _spans(from_at: datetime, to_at: datetime) -> Iterator[tuple[str, list[datetime]]]:
    carried = _CARRIED.format(finished=FINISHED, pending=PENDING, running=RUNNING)
    yield carried, [from_at, from_at]
    begin_at = from_at
    while begin_at < to_at:
        end_at = min(begin_at + _SPAN, to_at)
        yield _IN_SPAN, [begin_at, end_at]
        begin_at = end_at


def _no_columns() -> list[Any]:
    return [*(np.zeros(0, np.float64 if at in (7, 8, 9, 10, 11, 12) else np.int64) for at in range(17)), None]


def _recorded(columns: Sequence[Any], sources: Sequence[Source], names: Sequence[str]) -> RecordedJobs:
    account, source, job_class, state, submit_us, start_us, end_us, cpus, gpus, mem_mb, nodes, billing, *rest = columns
    requested_s, is_charge, code, is_held, has_kinds, texts = rest
    run_us = np.where((start_us != NO_TIME) & (end_us != NO_TIME), end_us - start_us, 0)
    place_of = {row.pk: place for place, row in enumerate(sources)}
    places = np.array([place_of[pk] for pk in source.tolist()], dtype=np.int64) if len(source) else source
    keys, key = np.unique(np.where(code > 0, code, -1 - places), return_inverse=True)
    named = [names[each - 1] if each > 0 else sources[-1 - each].slug for each in keys.tolist()]
    sites = tuple(dict.fromkeys(named))  # a source without names of sites may be called as a site is
    site = np.array([sites.index(name) for name in named], dtype=np.int64)[key.reshape(-1)]
    return RecordedJobs(
        account,
        source,
        job_class,
        state,
        _seconds(submit_us),
        _seconds(start_us),
        _seconds(end_us),
        cpus,
        gpus,
        mem_mb / 1024.0,
        nodes,
        billing,
        requested_s,
        is_charge.astype(np.bool_),
        is_held.astype(np.bool_),
        site,
        sites,
        code,
        tuple(names),
        kind_columns(has_kinds, texts, run_us),
    )


def _seconds(us: I8) -> F8:
    """NaN for NO_TIME."""
    return np.where(us == NO_TIME, np.nan, us / 1e6)


@dataclass(frozen=True, eq=False)
class ReplayedJobs:
    """jobs: those that are replayed, by their submission; their rate is a factor of that of their record. rows: of
    each, its record. account_ids: by `jobs.who`. sites: with the processors of the day with the most. cpus_by_day:
    (sites, days). left_out: (number of jobs, core-hours) by reason.
    """

    jobs: GivenJobs
    rows: I8
    account_ids: I8
    sites: tuple[Site, ...]
    cpus_by_day: I8
    left_out: Mapping[str, tuple[int, float]]

    def rates(self, recorded: RecordedJobs, metric: Mapping[str, Any]) -> F8:
        """Usage of each job per second, in this metric."""
        rates: F8 = recorded.rates(metric)[self.rows] * self.jobs.rate
        return rates


def replayed_jobs(
    recorded: RecordedJobs,
    from_at: datetime,
    to_at: datetime,
    *,
    entry_of: Callable[[I8], I8],
    cpus: Mapping[str, int],
) -> ReplayedJobs:
    """Choose what is replayed. entry_of: of accounts, by id, their entries in the policy, −1 for none. cpus: of sites,
    instead of the most that ran there at once on each day.
    """
    from_s, to_s = from_at.timestamp(), to_at.timestamp()
    accounts, who = np.unique(recorded.account_id, return_inverse=True)
    mapped = entry_of(accounts)[who.reshape(-1)] >= 0 if len(accounts) else np.zeros(0, np.bool_)
    end_s = np.where(recorded.state == FINISHED, recorded.end_s, np.inf)
    length_s = _lengths(recorded, to_s)
    reasons: dict[str, Mask] = {
        "withdrawn": recorded.state == WITHDRAWN,
        "charges": recorded.is_charge,
        "held": recorded.is_held,
        "no_cpus": ~(recorded.cpus > 0),
        "unmapped": ~mapped,
        "unknown_length": np.isnan(length_s),
        "no_run_time": ~(length_s > 0),
    }
    chosen = np.ones(len(recorded), dtype=np.bool_)
    core_s = _core_seconds(recorded, from_s, to_s)
    left_out = {}
    for reason, applies in reasons.items():
        dropped = chosen & applies
        chosen &= ~applies
        if dropped.any():
            left_out[reason] = (int(dropped.sum()), float(core_s[dropped].sum()) / 3600.0)
    was_running = chosen & (recorded.submit_s < from_s) & (recorded.start_s < from_s)
    chosen &= ~(was_running & ~(end_s > from_s))
    rows = np.flatnonzero(chosen)
    submit_s, start_s = recorded.submit_s[rows], recorded.start_s[rows]
    runs = was_running[rows]
    marks = np.where(runs, WAS_RUNNING, np.where(submit_s < from_s, WAS_WAITING, 0)).astype(np.uint8)
    marks |= np.where(np.isin(recorded.source_id[rows], _with_submit_times(recorded)), 0, NO_SUBMIT_TIME).astype(
        np.uint8
    )
    began_s = np.where(runs, from_s - start_s, 0.0)  # of those that ran: how long already
    at_s = np.where(runs, 0.0, np.maximum(submit_s - from_s, 0.0))
    requested_s = recorded.requested_s[rows] - began_s
    order = np.lexsort((submit_s, ~runs, at_s))
    rows, runs, at_s = rows[order], runs[order], at_s[order]
    known_accounts, who = np.unique(recorded.account_id[rows], return_inverse=True)
    used_sites, site = np.unique(recorded.site[rows], return_inverse=True)
    run_s = (length_s[rows] - began_s[order]).astype(np.float64)
    jobs = GivenJobs(
        at_s=at_s,
        before_s=np.where(runs, began_s[order], np.maximum(from_s - submit_s[order], 0.0)),
        run_s=np.maximum(run_s, 1e-3),
        requested_s=np.where(requested_s[order] > 0, requested_s[order], -1.0),
        cpus=np.ceil(recorded.cpus[rows]).astype(np.int64),
        site=site.reshape(-1).astype(np.int64),
        who=who.reshape(-1).astype(np.int64),
        rate=np.ones(len(rows)),
        marks=marks[order],
        waited_s=np.where(recorded.start_s[rows] < to_s, recorded.start_s[rows] - recorded.submit_s[rows], np.nan),
    )
    entry = entry_of(known_accounts)[jobs.who] if len(rows) else jobs.who
    jobs = with_usual_lengths(jobs, entry)
    names = [recorded.sites[each] for each in used_sites.tolist()]
    by_day = delivered_by_day(jobs, len(names), round((to_s - from_s) / DAY_S))
    for number, name in enumerate(names):
        by_day[number] = cpus.get(name, by_day[number])
    is_asked = np.array([name in cpus for name in names], dtype=np.bool_)
    most = np.maximum(by_day.max(axis=1, initial=0), 1)
    jobs = narrowed_to(jobs, np.where(is_asked, np.iinfo(np.int64).max, most))
    sites = tuple(Site(name, int(each)) for name, each in zip(names, most, strict=True))
    return ReplayedJobs(jobs, rows, known_accounts, sites, by_day, left_out)


def _with_submit_times(recorded: RecordedJobs) -> I8:
    """Sources that report when jobs were submitted: one of their jobs waited. Of others, each starts as it comes."""
    waited = (recorded.submit_s < recorded.start_s) | (recorded.state == PENDING)
    return np.unique(recorded.source_id[waited])


def _lengths(recorded: RecordedJobs, to_s: float) -> F8:
    """How long each job runs: as it did; of one that runs, what it requested, or at least until the end; of one that
    waits, what it requested; NaN where that is unknown.
    """
    ran_s = recorded.end_s - recorded.start_s
    until_end_s = np.fmin(to_s, _counts_until(recorded)) - recorded.start_s
    requested_s = recorded.requested_s
    is_running = recorded.state == RUNNING
    running_s = np.fmax(np.where(is_running, requested_s, np.nan), until_end_s)
    length_s: F8 = np.where(recorded.state == FINISHED, ran_s, np.where(is_running, running_s, requested_s))
    return length_s


def _counts_until(recorded: RecordedJobs) -> F8:
    """Of jobs that run: a line with their end may never come."""
    return known_until_epoch(recorded.source_id, recorded.start_s, recorded.requested_s)


def _core_seconds(recorded: RecordedJobs, from_s: float, to_s: float) -> F8:
    """That each job used in these days; 0 for those that have not started."""
    begin_s = np.maximum(recorded.start_s, from_s)
    end_s = np.fmin(np.where(np.isnan(recorded.end_s), _counts_until(recorded), recorded.end_s), to_s)
    used: F8 = np.nan_to_num(np.maximum(end_s - begin_s, 0.0)) * np.nan_to_num(recorded.cpus)
    return used
