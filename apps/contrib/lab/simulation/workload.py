"""Draw jobs from the streams of a scenario, with independent random numbers for each stream and quantity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from apps.contrib.lab.simulation.columns import Arrivals, Departures, Jobs
from apps.contrib.lab.simulation.scenario import Scenario
from apps.contrib.lab.simulation.streams import MOST_STREAMED_JOBS, Site, Span, Stream
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.errors import BadCase

# Quantities drawn for a stream. The index in this list is part of the seed, so that quantities are independent.
_DRAWN = ("arrivals", "run", "factor", "site", "loss")
NO_STREAM = -1  # in place of a stream's number


class Workload(NamedTuple):
    """Drawn jobs. entries: tree index of each queue. too_wide: for each stream, jobs of its log that fit no site.

    row: of each job, its row in its log; its number among those of its stream where it has none.
    """

    jobs: Jobs
    arrivals: Arrivals
    departures: Departures
    entries: IntArray
    too_wide: tuple[int, ...]
    row: IntArray


class _Drawn(NamedTuple):
    """The jobs of one stream, in order of arrival."""

    at_s: FloatArray
    run_s: FloatArray
    requested_s: FloatArray
    cpus: IntArray
    site: IntArray
    entry: IntArray
    is_lost: BoolArray
    rate: FloatArray
    row: IntArray


def draw(scenario: Scenario) -> Workload:
    """All jobs that are submitted before the end; deterministic for scenario and seed."""
    drawn = [_draw_stream(scenario, number) for number in range(len(scenario.streams))]
    too_wide = tuple(_count_too_wide(stream, scenario.sites) for stream in scenario.streams)
    columns = _Drawn(*(np.concatenate([_empty[i], *(jobs[i] for jobs in drawn)]) for i in range(len(_Drawn._fields))))
    stream = np.repeat(np.arange(len(drawn)), [len(jobs.at_s) for jobs in drawn]).astype(np.int64)
    if len(stream) > MOST_STREAMED_JOBS:
        raise BadCase(f"{len(stream):,} jobs; at most {MOST_STREAMED_JOBS:,} are simulated", place="workload")
    entries, queue = _queues(scenario, columns.entry)
    site_queue = columns.site * len(entries) + queue
    in_time = np.argsort(columns.at_s, kind="stable")
    by_queue = in_time[np.argsort(site_queue[in_time], kind="stable")]
    order = np.empty(len(stream), dtype=np.int64)
    order[in_time] = np.arange(len(stream))
    job = np.empty(len(stream), dtype=np.int64)
    job[by_queue] = np.arange(len(stream))
    jobs = Jobs(
        site_queue=site_queue[by_queue],
        order=order[by_queue],
        run_s=columns.run_s[by_queue],
        requested_s=columns.requested_s[by_queue],
        cpus=columns.cpus[by_queue],
        counted=np.where(columns.is_lost, 0.0, columns.rate)[by_queue],
        stream=stream[by_queue],
    )
    arrivals = Arrivals(at_s=columns.at_s[in_time], site_queue=site_queue[in_time], job=job[in_time])
    return Workload(jobs, arrivals, _departures(scenario, entries), entries, too_wide, columns.row[by_queue])


_empty: tuple[Any, ...] = (
    *(np.zeros(0) for _ in range(3)),
    *(np.zeros(0, dtype=np.int64) for _ in range(3)),
    np.zeros(0, dtype=np.bool_),
    np.zeros(0),
    np.zeros(0, dtype=np.int64),
)


def _generators(seed: int, number: int) -> dict[str, np.random.Generator]:
    """Independent generators for each quantity of the stream with this number."""
    seeds = np.random.SeedSequence(seed, spawn_key=(number,)).spawn(len(_DRAWN))
    return {name: np.random.default_rng(child) for name, child in zip(_DRAWN, seeds, strict=True)}


def _draw_stream(scenario: Scenario, number: int) -> _Drawn:
    stream = scenario.streams[number]
    random = _generators(scenario.seed, number)
    jobs = _of_rate(stream, random) if stream.trace is None else _of_trace(stream, random, scenario.sites)
    if scenario.noise.loss > 0:
        jobs = jobs._replace(is_lost=random["loss"].random(len(jobs.at_s)) < scenario.noise.loss)
    return jobs


def _of_rate(stream: Stream, random: dict[str, np.random.Generator]) -> _Drawn:
    at_s = _arrivals(stream, random["arrivals"])
    n = len(at_s)
    run_s = _uniform(random["run"], stream.run_s, n)
    sites = np.array(stream.sites, dtype=np.int64)
    return _Drawn(
        at_s=at_s,
        run_s=run_s,
        requested_s=run_s * _uniform(random["factor"], stream.requested_factor, n),
        cpus=np.full(n, stream.cpus, dtype=np.int64),
        site=sites[random["site"].integers(0, len(sites), n)],
        entry=np.full(n, stream.entry, dtype=np.int64),
        is_lost=np.zeros(n, dtype=np.bool_),
        rate=np.full(n, float(stream.cpus)),
        row=np.arange(n),
    )


def _uniform(random: np.random.Generator, span: Span, n: int) -> FloatArray:
    return span.low + (span.high - span.low) * random.random(n)


def _arrivals(stream: Stream, random: np.random.Generator) -> FloatArray:
    """Arrival times from `from_s` to before `until_s`: one an interval after a random phase, or exponential gaps."""
    length_s = stream.until_s - stream.from_s
    if not length_s > 0 or not np.isfinite(stream.interval_s):
        return np.zeros(0)
    if not stream.is_random:
        n = int(np.ceil(length_s / stream.interval_s)) + 1
        at_s = stream.from_s + stream.interval_s * (random.random() + np.arange(n))
        return np.asarray(at_s[at_s < stream.until_s])
    chunks, last_s = [np.zeros(0)], stream.from_s
    chunk = int(1.1 * length_s / stream.interval_s) + 64
    while last_s < stream.until_s:
        chunks.append(last_s + np.cumsum(random.exponential(stream.interval_s, chunk)))
        last_s = float(chunks[-1][-1])
    at_s = np.concatenate(chunks)
    return np.asarray(at_s[at_s < stream.until_s])


def _of_trace(stream: Stream, random: dict[str, np.random.Generator], sites: tuple[Site, ...]) -> _Drawn:
    """The log's jobs from `from_s` on, each at its site, or at a random one among those with enough processors."""
    trace = stream.trace
    assert trace is not None  # noqa: S101 - the caller has checked
    at_s = stream.from_s + trace.at_s
    widths = np.array([sites[number].cpus for number in stream.sites], dtype=np.int64)
    by_width = np.argsort(-widths, kind="stable")
    n_wide_enough = len(widths) - np.searchsorted(np.sort(widths), trace.cpus, side="left")
    drawn = np.floor(random["site"].random(len(trace)) * n_wide_enough).astype(np.int64)
    factor = _uniform(random["factor"], stream.requested_factor, len(trace))
    site = np.array(stream.sites, dtype=np.int64)[by_width[np.minimum(drawn, len(widths) - 1)]]
    kept = (n_wide_enough > 0) & (at_s < stream.until_s)
    if trace.site is not None:
        all_widths = np.array([each.cpus for each in sites], dtype=np.int64)
        kept &= (trace.site < 0) | (all_widths[trace.site] >= trace.cpus)
        site = np.where(trace.site < 0, site, trace.site)
    jobs = _Drawn(
        at_s=at_s,
        run_s=trace.run_s,
        requested_s=np.where(trace.requested_s > 0, trace.requested_s, trace.run_s * factor),
        cpus=trace.cpus,
        site=site,
        entry=trace.entry,
        is_lost=np.zeros(len(trace), dtype=np.bool_),
        rate=trace.cpus.astype(np.float64) if trace.rate is None else trace.rate,
        row=np.arange(len(trace)),
    )
    return _Drawn(*_rows(jobs, kept))


def _rows(jobs: _Drawn, kept: BoolArray) -> Iterator[Any]:
    yield from (column[kept] for column in jobs)


def _count_too_wide(stream: Stream, sites: tuple[Site, ...]) -> int:
    trace = stream.trace
    if trace is None:
        return 0
    widest = np.full(len(trace), max(sites[number].cpus for number in stream.sites))
    if trace.site is not None:
        all_widths = np.array([each.cpus for each in sites], dtype=np.int64)
        widest = np.where(trace.site < 0, widest, all_widths[trace.site])
    return int((trace.cpus > widest).sum())


def _queues(scenario: Scenario, entry: IntArray) -> tuple[IntArray, IntArray]:
    """(entry of each queue, queue of each job): one queue for each entry that may have jobs, or has past usage."""
    named = [stream.entry for stream in scenario.streams if stream.entry >= 0]
    used = np.zeros(0, dtype=np.int64) if scenario.past is None else scenario.past.entry
    entries = np.unique(np.concatenate([entry, np.array(named, dtype=np.int64), used]))
    return entries, np.searchsorted(entries, entry)


def _departures(scenario: Scenario, entries: IntArray) -> Departures:
    """Streams that stop before the end, in order of time.

    After a resize no stream (−1) stops: so that the processors that are free then are offered.
    """
    stops = sorted(
        [
            *((stream.until_s, n) for n, stream in enumerate(scenario.streams) if stream.until_s < scenario.end_s),
            *((at_s, NO_STREAM) for at_s in sorted({resize.at_s for resize in scenario.resizes})),
        ]
    )
    queues = [-1 if n == NO_STREAM else _queue_of(scenario.streams[n], entries) for _, n in stops]
    return Departures(
        at_s=np.array([at_s for at_s, _ in stops], dtype=np.float64),
        stream=np.array([n for _, n in stops], dtype=np.int64),
        queue=np.array(queues, dtype=np.int64),
    )


def _queue_of(stream: Stream, entries: IntArray) -> int:
    return -1 if stream.entry < 0 else int(np.searchsorted(entries, stream.entry))
