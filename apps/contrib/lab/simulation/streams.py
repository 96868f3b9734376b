"""Read workload lines: streams of jobs described in a scenario."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apps.contrib.lab.simulation.log_jobs import Trace, read_trace
from apps.engine.case_fields import read_integer, read_number, refuse_repeated
from apps.engine.case_text import finite, shown
from apps.engine.cases import Policy
from apps.engine.errors import BadCase

HOUR_S = 3600.0
RATES = ("every_s", "poisson_s", "load", "trace")
SHORTEST_S = 1e-3  # bounds of intervals and run times, in seconds
MOST_STREAMED_JOBS = 5_000_000
MOST_STREAM_LINES = 10_000


@dataclass(frozen=True)
class Site:
    """A cluster with its own queue."""

    name: str
    cpus: int


@dataclass(frozen=True)
class Span:
    """A uniform distribution; a single number if both ends are equal."""

    low: float
    high: float

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class Stream:
    """Jobs of one workload line.

    interval_s: between jobs, the mean if `is_random`; infinite for none. entry: tree index, −1 for a log with rules.
    sites: indices of the sites it submits to. priority: its priority group in SAM's queue.
    """

    place: str
    entry: int
    interval_s: float
    is_random: bool
    run_s: Span
    requested_factor: Span
    cpus: int
    sites: tuple[int, ...]
    from_s: float
    until_s: float
    priority: float | None
    trace: Trace | None = None

    @property
    def expected_jobs(self) -> float:
        if self.trace is not None:
            return float(len(self.trace))
        return (self.until_s - self.from_s) / self.interval_s


def read_streams(
    lines: object, *, end_s: float, sites: tuple[Site, ...], policy: Policy, traces: Mapping[str, str]
) -> tuple[Stream, ...]:
    """Read all lines of `workload`; BadCase with the invalid field, or if there are too many jobs."""
    if not isinstance(lines, list):
        what = "is missing" if lines is None else f"{shown(lines)} can't be used"
        raise BadCase(f"{what}; a list of streams of jobs is allowed", place="workload")
    if len(lines) > MOST_STREAM_LINES:
        raise BadCase(f"{len(lines)} streams; at most {MOST_STREAM_LINES:,} are allowed", place="workload")
    streams = tuple(_read_stream(line, f"workload[{i}]", end_s, sites, policy, traces) for i, line in enumerate(lines))
    expected = sum(stream.expected_jobs for stream in streams)
    if expected > MOST_STREAMED_JOBS:
        raise BadCase(
            f"about {expected:.3g} jobs in {end_s / HOUR_S:g} hours; at most {MOST_STREAMED_JOBS:,} are simulated: "
            "fewer hours or longer intervals are allowed",
            place="workload",
        )
    return streams


def _read_stream(
    line: object, place: str, end_s: float, sites: tuple[Site, ...], policy: Policy, traces: Mapping[str, str]
) -> Stream:
    if not isinstance(line, dict):
        raise BadCase(f"{shown(line)} can't be used; an object with entry and a rate is allowed", place=place)
    refuse_repeated(line, place)
    chosen = _read_sites(line, place, sites)
    cpus = read_integer(line, "cpus", place, default=1, minimum=1, maximum=2**31)
    for number in chosen:
        if cpus > sites[number].cpus and "trace" not in line:
            name, width = sites[number].name, sites[number].cpus
            raise BadCase(
                f"{cpus} is wider than site {name}, which has {width}; name wider sites under `sites`",
                place=f"{place}.cpus",
            )
    from_s = HOUR_S * read_number(line, "from_h", place, default=0.0, minimum=0.0)
    until_s = min(end_s, HOUR_S * read_number(line, "until_h", place, default=math.inf, minimum=0.0))
    if from_s > until_s:
        raise BadCase("is after until_h, or after the end", place=f"{place}.from_h")
    is_trace = "trace" in line
    run_s = _read_span(line, "run_h", place, SHORTEST_S / HOUR_S, default=1.0 if is_trace else None, unit=HOUR_S)
    rate = _read_rate(line, place)
    capacity = sum(sites[number].cpus for number in chosen)
    return Stream(
        place=place,
        entry=-1 if is_trace else _read_entry(line, place, policy),
        interval_s=_interval(line, rate, place, capacity, run_s),
        is_random=rate != "every_s",
        run_s=run_s,
        requested_factor=_read_span(line, "requested_factor", place, 1e-3, default=1.0),
        cpus=cpus,
        sites=chosen,
        from_s=from_s,
        until_s=until_s,
        priority=read_number(line, "priority", place, default=None),
        trace=read_trace(line, place, policy, traces) if is_trace else None,
    )


def _read_sites(line: Mapping[str, Any], place: str, sites: tuple[Site, ...]) -> tuple[int, ...]:
    names = line.get("sites")
    if names is None:
        return tuple(range(len(sites)))
    if not isinstance(names, list) or not names:
        raise BadCase(f"{shown(names)} can't be used; a list of names of sites is allowed", place=f"{place}.sites")
    number_of = {site.name: number for number, site in enumerate(sites)}
    for name in names:
        if not isinstance(name, str) or name not in number_of:
            raise BadCase(f"{shown(name)} is no site of this scenario", place=f"{place}.sites")
    if len(set(names)) < len(names):
        raise BadCase("a site is named twice", place=f"{place}.sites")
    return tuple(number_of[name] for name in names)


def _read_entry(line: Mapping[str, Any], place: str, policy: Policy) -> int:
    path = line.get("entry")
    entry = policy.entry_at.get(path) if isinstance(path, str) and path else None
    if entry is None:
        what = "is missing" if path is None else f"{shown(path)} is not in the policy"
        raise BadCase(f"{what}; the path of an entry is allowed, such as /group/user", place=f"{place}.entry")
    if policy.tree.is_reserve[entry]:
        raise BadCase(f"{path} is a reserve and runs no jobs", place=f"{place}.entry")
    return entry


def _read_rate(line: Mapping[str, Any], place: str) -> str:
    rates = [name for name in RATES if line.get(name) is not None]
    if len(rates) != 1:
        what = "has no rate" if not rates else f"has both {rates[0]} and {rates[1]}"
        raise BadCase(f"{what}; one of {', '.join(RATES)} is required", place=place)
    return rates[0]


def _interval(line: Mapping[str, Any], rate: str, place: str, capacity: int, run_s: Span) -> float:
    if rate == "trace":
        return math.inf
    if rate != "load":
        return float(read_number(line, rate, place, minimum=SHORTEST_S))
    jobs_per_s = read_number(line, "load", place, minimum=0.0) * capacity / run_s.mean
    return 1.0 / jobs_per_s if jobs_per_s > 0 else math.inf


def _read_span(
    line: Mapping[str, Any], name: str, place: str, minimum: float, *, default: float | None, unit: float = 1.0
) -> Span:
    """A pair of numbers, or one number for both."""
    value = line.get(name)
    if value is None and default is not None:
        return Span(default * unit, default * unit)
    ends = [finite(end) for end in (value if isinstance(value, list) else [value, value])]
    if len(ends) != 2 or ends[0] is None or ends[1] is None or not minimum <= ends[0] <= ends[1] <= 1e9:
        what = "is missing" if value is None else f"{_shown_span(value)} can't be used"
        raise BadCase(
            f"{what}; a pair of numbers ≥ {minimum:.3g}, the smaller one first, is allowed", place=f"{place}.{name}"
        )
    return Span(ends[0] * unit, ends[1] * unit)


def _shown_span(value: object) -> str:
    return f"[{', '.join(shown(each) for each in value[:3])}]" if isinstance(value, list) else shown(value)


def priorities(streams: tuple[Stream, ...]) -> Iterator[float]:
    """The priority groups, lowest first."""
    yield from sorted({stream.priority for stream in streams if stream.priority is not None})
