"""The records that all lines of a job mean, whatever the order in which they were read.

A run is known by its job and start. What it held from one change to the next is a part, and each part is a record. The
first part has the run's key; each later one is keyed by the instant at which it begins, as Slurm's parts of resized
jobs are. The records are a function of the set of lines: neither their order nor their number matters.

What a line would have said that is missing is named (`JobHistory.gaps`), whether its effect can be worked out or not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from apps.core.resource_kinds import GPU, NO_KINDS, Kinds, gpus_of
from apps.usage.parsers.base import MOST_JOB_S, Rates, RecordRow, RunEvent, instant, microseconds

NOTHING = Rates(0.0, 0.0, 0.0, 0.0)
TOLERANCE_S = 300  # by which a walltime may differ from the times of lines
START, PHASE, END = "starts_unknown", "phases_unknown", "ends_unknown"  # gaps of a job
_CUT = 2 * MOST_JOB_S  # more than the seconds of any part
_NAMES = ("job", "array_task", "user", "group", "project", "queue", "state")
_FACTS = ("end", "start", "phase", "part", "change", "gone")  # kinds whose rows say what a run is, the best first
_S = 1_000_000


class Change(NamedTuple):
    """What a run holds from an instant on. is_awake: it isn't suspended."""

    at_us: int
    rates: Rates
    is_awake: bool


class Part(NamedTuple):
    """is_cut: a change ended it, not the end of the run."""

    begin_us: int
    end_us: int | None
    rates: Rates
    is_awake: bool
    is_cut: bool


@dataclass(slots=True)
class JobHistory:
    """rows: the job's records, in the order of time. gaps: what its lines lack. unexplained: lines without a run."""

    rows: list[RecordRow] = field(default_factory=list)
    gaps: set[str] = field(default_factory=set)
    unexplained: list[RunEvent] = field(default_factory=list)


def line_of(row: RecordRow, line: int = 0) -> RunEvent:
    """A record of a whole run as the line that it was."""
    kind = {"pending": "wait", "running": "start"}.get(row.state, "end")
    at = {"wait": row.submit_at, "start": row.start_at, "end": row.end_at}[kind]
    return RunEvent(kind, row.job, row.array_task, _us(at), line, NOTHING, row)


def history_of(lines: Iterable[RunEvent]) -> JobHistory:
    """The records of one job, by all lines about it."""
    ordered = sorted({each._replace(line=0): each for each in lines}.values(), key=_order)
    history = JobHistory()
    runs = _runs(ordered, history)
    restarts: dict[int, int] = {}
    for place, run in enumerate(runs):
        following_us = runs[place + 1].start_us if place + 1 < len(runs) else None
        run.restart = restarts.get(run.submit_us, 0)
        restarts[run.submit_us] = run.restart + 1
        history.rows += run.rows(following_us)
        history.gaps |= run.gaps
    waiting = [each for each in ordered if each.kind in ("wait", "gone") and _is_waiting(each.row)]
    known = set(restarts)
    for line in sorted(waiting, key=lambda each: (each.kind != "wait", _order(each))):
        row = line.row
        if row is not None and _us(row.submit_at) not in known:
            known.add(_us(row.submit_at))
            history.rows.append(_waiting(row, ordered))
    if (not history.rows and any(each.kind != "ask" for each in ordered)) or history.unexplained:
        history.gaps.add(START)
    return history


def _order(line: RunEvent) -> tuple[Any, ...]:
    return line.at_us, line.kind, line.rates, line.walltime_s or -1.0, repr(line.row)


def _is_waiting(row: RecordRow | None) -> bool:
    return row is not None and row.start_at is None


def _waiting(row: RecordRow, lines: Sequence[RunEvent]) -> RecordRow:
    """A job that no run is known of: it waits, or was withdrawn."""
    submit_us = _us(row.submit_at)
    later = [each for each in lines if each.at_us >= submit_us]
    for ask in (each.row for each in later if each.kind == "ask" and each.row):
        asked = {name: getattr(ask, name) for name in ("cpus", "gpus", "nodes", "mem_mb", "project", "queue")}
        row = row._replace(**{name: value for name, value in asked.items() if value})
        row = row._replace(requested_s=row.requested_s if ask.requested_s is None else ask.requested_s)
    return row._replace(state="withdrawn" if any(each.kind == "gone" for each in later) else "pending", restart=0)


def _runs(lines: Sequence[RunEvent], history: JobHistory) -> list[_Run]:
    """The runs by start, each with its lines. A line that names the job alone is of the run that had begun last."""
    runs: dict[int, _Run] = {}
    for line in lines:
        if line.row is not None and line.row.start_at is not None:
            start_us = _us(line.row.start_at)
            runs.setdefault(start_us, _Run(start_us)).lines.append(line)
    starts = sorted(runs)
    for line in lines:
        place = bisect_left(starts, line.at_us)
        if line.kind == "again" and place and line.at_us not in runs:
            before = runs[starts[place - 1]]
            runs[line.at_us] = _Run(line.at_us, lines=[_started_again(before, line)])
            starts.insert(place, line.at_us)
    may_wait = any(line.kind == "wait" or _is_waiting(line.row) for line in lines)
    for line in lines:
        if line.kind in ("wait", "ask", "again") or (line.row is not None and line.row.start_at is not None):
            continue
        # What ends a run goes before what begins at the same instant.
        is_end = line.kind in ("stop", "gone")
        n_begun = bisect_left(starts, line.at_us) if is_end else bisect_right(starts, line.at_us)
        if n_begun or line.at_us in runs:
            runs[starts[max(n_begun, 1) - 1]].lines.append(line)
        elif line.kind != "gone" or not may_wait:
            history.unexplained.append(line)
    for line in lines:
        n_begun = bisect_right(starts, line.at_us)
        if line.kind == "ask" and n_begun:
            runs[starts[n_begun - 1]].lines.append(line)
    return [runs[start_us] for start_us in starts]


def _started_again(before: _Run, line: RunEvent) -> RunEvent:
    row = before.facts._replace(state="running", start_at=instant(line.at_us), end_at=None)
    return RunEvent("start", line.job, line.array_task, line.at_us, line.line, NOTHING, row)


@dataclass(slots=True)
class _Run:
    """One run, and the lines about it in the order of time."""

    start_us: int
    lines: list[RunEvent] = field(default_factory=list)
    gaps: set[str] = field(default_factory=set)
    restart: int = 0

    def _of(self, *kinds: str) -> list[RunEvent]:
        return sorted((each for each in self.lines if each.kind in kinds), key=_order)

    @property
    def facts(self) -> RecordRow:
        """The row that says most of the run. Of several ends the latest counts."""
        rows = [(each.kind, each.row) for each in self._of(*_FACTS) if each.row is not None and each.row.start_at]
        best = min((kind for kind, _ in rows), key=_FACTS.index)
        of_best = [row for kind, row in rows if kind == best]
        return of_best[-1 if best == "end" else 0]

    @property
    def submit_us(self) -> int:
        return min(_us(each.row.submit_at) for each in self.lines if each.row is not None and each.row.start_at)

    def rows(self, following_us: int | None) -> list[RecordRow]:
        """The records of the run. following_us: start of the next one; runs of one job don't overlap."""
        facts, timeline = self.facts, _Timeline(self.start_us, rates_of(self.facts))
        ends = self._of("end")
        end_us = _us(ends[-1].row.end_at) if ends and ends[-1].row is not None else None
        walltime_s = ends[-1].walltime_s if ends else None
        over = self._of("stop") or self._of("gone")
        if end_us is None and over:
            end_us = max(over[0].at_us, self.start_us)
        timeline.take(self._of("rest", "resume", "change"), end_us)
        if facts.start_at is not None and not any(each.row for each in self._of("end", "start", "gone", "part")):
            self._without_start(timeline)
        if timeline.take_parts(self._of("part"), end_us):
            self.gaps.add(PHASE)
        if timeline.fit_phases(self._of("phase"), end_us):
            self.gaps.add(PHASE)
        if timeline.fit_walltime(end_us, walltime_s):
            self.gaps.add(PHASE)
        asked_s = self._asked_s(facts, end_us)
        if end_us is None and following_us is not None:
            self.gaps.add(END)
            end_us = timeline.latest_end_us(asked_s, following_us)
        first = facts._replace(
            state="running", submit_at=instant(self.submit_us), restart=self.restart, requested_s=asked_s, revision=0
        )
        return _rows(first, timeline.parts(end_us), self.start_us)

    def _without_start(self, timeline: _Timeline) -> None:
        """What it held first, where neither the line of its start nor that of its end is known."""
        self.gaps.add(START)
        phases = self._of("phase")
        changes = self._of("change")
        if phases and phases[0].row is not None and (not changes or phases[0].at_us <= changes[0].at_us):
            timeline.first = rates_of(phases[0].row)

    def _asked_s(self, facts: RecordRow, end_us: int | None) -> float | None:
        """The time that it asked for at last."""
        if facts.state == "finished" and facts.requested_s is not None:
            return facts.requested_s
        asked = [
            (self.start_us if each.kind in ("start", "gone") else each.at_us, each.row.requested_s)
            for each in self._of("start", "gone", "phase", "change", "ask")
            if each.row is not None
            and each.row.requested_s is not None
            and (end_us is None or each.at_us < end_us or each.kind == "gone")
        ]
        return max(asked)[1] if asked else facts.requested_s


@dataclass(slots=True)
class _Timeline:
    """What a run holds from when on. first: from its start; changes: since, each with all that it holds then."""

    start_us: int
    first: Rates
    allocations: list[tuple[int, Rates]] = field(default_factory=list)
    suspended: list[tuple[int, int | None, Rates]] = field(default_factory=list)  # from, to, what the server released
    unclear: list[tuple[int, int]] = field(default_factory=list)  # spans in which a line about a rest is missing
    n_unclear_awake: int = 0

    def take(self, lines: Sequence[RunEvent], end_us: int | None) -> None:
        """Lines of this run before its end. At one instant, what ends a state goes before what begins it."""
        last_us = self.start_us
        open_rest: tuple[int, Rates] | None = None
        by_time: dict[int, dict[str, RunEvent]] = {}
        for each in lines:
            if end_us is None or each.at_us < end_us:
                by_time.setdefault(max(each.at_us, self.start_us), {})[each.kind] = each
        for at_us, kinds in sorted(by_time.items()):
            if "change" in kinds and kinds["change"].row is not None:
                self.allocations.append((at_us, rates_of(kinds["change"].row)))
            rest, resume = kinds.get("rest"), kinds.get("resume")
            if rest is not None and resume is not None:
                continue  # it is as before
            if rest is not None:
                if open_rest is None:
                    open_rest = (at_us, rest.rates)
                else:  # it had continued in between
                    self.unclear.append((last_us, at_us))
                last_us = at_us
            elif resume is not None:
                if open_rest is not None:
                    self.suspended.append((open_rest[0], at_us, open_rest[1]))
                    open_rest = None
                else:  # it had been suspended before
                    self.unclear.append((last_us, at_us))
                    self.n_unclear_awake += 1
                last_us = at_us
        if open_rest is not None:
            self.suspended.append((open_rest[0], None, open_rest[1]))

    def allocated(self, at_us: int) -> Rates:
        """The resources that it has just before an instant, whether it is suspended or not."""
        n_before = bisect_left(self.allocations, at_us, key=_begin_of)
        return self.allocations[n_before - 1][1] if n_before else self.first

    def take_parts(self, parts: Sequence[RunEvent], end_us: int | None) -> bool:
        """What it held in spans that lines name exactly. Returns whether a line about the time between is missing.

        Time that neither a part nor a change explains counts with the allocation before it, else with the last one.
        """
        changed_us = [at_us for at_us, _ in self.allocations]
        is_missing, until_us = False, self.start_us
        for each in parts:
            if each.row is None or each.walltime_s is None:
                continue
            begin_us, over_us = max(each.at_us - round(each.walltime_s * _S), self.start_us), each.at_us
            is_missing = is_missing or (begin_us - until_us > _S and not _is_near(changed_us, until_us))
            until_us = max(until_us, over_us)
            if begin_us == self.start_us:
                self.first = rates_of(each.row)
            from_place = bisect_left(self.allocations, begin_us, key=_begin_of)
            to_place = bisect_left(self.allocations, over_us, key=_begin_of)
            self.allocations[from_place:to_place] = [(begin_us, rates_of(each.row))] * (begin_us != self.start_us)
        is_open = end_us is not None and end_us - until_us > _S and bool(parts)
        return is_missing or (is_open and not _is_near(changed_us, until_us))

    def fit_phases(self, phases: Sequence[RunEvent], end_us: int | None) -> bool:
        """Add changes that only the end of a phase shows. Returns whether the begin of one had to be worked out."""
        is_worked_out, ends = False, [self.start_us]
        for each in phases:
            if each.row is None:
                continue
            at_us = each.at_us if end_us is None else min(each.at_us, end_us)
            held = rates_of(each.row)
            if not _alike(self.allocated(at_us), held):
                n_before = bisect_left(self.allocations, at_us, key=_begin_of)
                earliest_us = self.allocations[n_before - 1][0] if n_before else self.start_us
                begin_us = earliest_us
                if each.walltime_s is not None:
                    begin_us = max(self._before(at_us, each.walltime_s), earliest_us)
                near = ends[
                    bisect_left(ends, begin_us - TOLERANCE_S * _S) : bisect_right(ends, begin_us + TOLERANCE_S * _S)
                ]
                begin_us = max(near[-1], earliest_us) if near else begin_us
                is_worked_out = is_worked_out or not near or begin_us == self.start_us
                if begin_us == self.start_us:
                    self.first = held
                from_place = bisect_left(self.allocations, begin_us, key=_begin_of)
                to_place = bisect_right(self.allocations, begin_us, key=_begin_of)
                self.allocations[from_place:to_place] = [(begin_us, held)] * (begin_us != self.start_us)
            ends.append(at_us)
            if each.at_us < _near_end(end_us):  # if nothing changed then, what it held after this phase isn't known
                n_before = bisect_left(self.allocations, each.at_us - TOLERANCE_S * _S, key=_begin_of)
                n_until = bisect_right(self.allocations, each.at_us + TOLERANCE_S * _S, key=_begin_of)
                is_worked_out = is_worked_out or n_before == n_until
        return is_worked_out

    def _before(self, at_us: int, awake_s: float) -> int:
        """The instant before another, between which it was awake for so many seconds."""
        left_us, until_us = round(awake_s * _S), at_us
        earlier = self.suspended[: bisect_left(self.suspended, at_us, key=_begin_of)]
        for begin_us, resumed_us, _ in reversed(earlier):
            if begin_us >= until_us:
                continue
            awake_us = until_us - min(resumed_us if resumed_us is not None else until_us, until_us)
            if awake_us >= left_us:
                break
            left_us, until_us = left_us - awake_us, begin_us
        return until_us - left_us

    def fit_walltime(self, end_us: int | None, walltime_s: float | None) -> bool:
        """Add the rest, or the end of one, of which the line is missing. Returns whether one is missing.

        The walltime shows how long it was, where one line is missing. Its place is next to the line that shows it.
        """
        if end_us is None or walltime_s is None:
            return bool(self.unclear)
        rested_us = sum((end_us if to_us is None else to_us) - from_us for from_us, to_us, _ in self.suspended)
        missing_us = round((end_us - self.start_us - rested_us) - walltime_s * _S)  # of rest; below 0: of being awake
        if not self.unclear and self.suspended and missing_us < -TOLERANCE_S * _S:  # it was awake within a rest
            from_us, to_us, _ = max(self.suspended, key=lambda rest: (rest[1] or end_us) - rest[0])
            self.unclear.append((from_us, to_us or end_us))
        if len(self.unclear) == 1 and abs(missing_us) > TOLERANCE_S * _S:
            (after_us, until_us), is_awake = self.unclear[0], self.n_unclear_awake > 0
            length_us = min(abs(missing_us), until_us - after_us)
            if is_awake and missing_us > 0:
                self.suspended.append((until_us - length_us, until_us, NOTHING))
            elif not is_awake and missing_us < 0:
                self._wake(until_us - length_us, until_us)
            self.suspended.sort(key=lambda rest: rest[0])
        return bool(self.unclear) or (walltime_s > 0 and missing_us > TOLERANCE_S * _S)

    def _wake(self, from_us: int, to_us: int) -> None:
        """It was awake in this span of a rest."""
        place = next(i for i, rest in enumerate(self.suspended) if rest[0] <= from_us and (rest[1] or to_us) >= to_us)
        begin_us, end_us, gone = self.suspended[place]
        self.suspended[place : place + 1] = [(begin_us, from_us, gone), (to_us, end_us, gone)]

    def changes(self) -> list[Change]:
        """What it holds from the start on, and from each change."""
        times = {self.start_us, *(at_us for at_us, _ in self.allocations)}
        times |= {at_us for begin_us, end_us, _ in self.suspended for at_us in (begin_us, end_us) if at_us is not None}
        changes: list[Change] = []
        for at_us in sorted(times):
            held = self.allocated(at_us + 1)
            n_before = bisect_right(self.suspended, at_us, key=_begin_of)
            _, until_us, released = self.suspended[n_before - 1] if n_before else (0, 0, NOTHING)
            is_awake = until_us is not None and at_us >= until_us
            held = held if is_awake else less(held, released)
            if not changes or changes[-1].rates != held:
                changes.append(Change(at_us, held, is_awake))
        return changes

    def parts(self, end_us: int | None) -> list[Part]:
        """A part that holds nothing is none, but for the first: it has the run's key."""
        parts: list[Part] = []
        changes = [change for change in self.changes() if end_us is None or change.at_us < end_us]
        for place, change in enumerate(changes or self.changes()[:1]):
            following_us = changes[place + 1].at_us if place + 1 < len(changes) else None
            until_us = end_us if following_us is None else following_us
            if any(change.rates) or not place:
                parts.append(Part(change.at_us, until_us, change.rates, change.is_awake, following_us is not None))
        return parts

    def latest_end_us(self, asked_s: float | None, until_us: int) -> int:
        """When a run without an end was over at the latest: after the time it asked for, and before the next run."""
        if asked_s is None:
            return until_us
        end_us = self.start_us + round(asked_s * _S)
        for begin_us, resumed_us, _ in self.suspended:
            if begin_us >= end_us:
                break
            if resumed_us is None:
                return until_us
            end_us += resumed_us - begin_us
        return min(until_us, end_us)


def _begin_of(span: tuple[Any, ...]) -> int:
    return int(span[0])


def _is_near(instants_us: Sequence[int], at_us: int) -> bool:
    """Whether one of these, in order, is within a second of an instant."""
    place = bisect_left(instants_us, at_us - _S)
    return place < len(instants_us) and instants_us[place] <= at_us + _S


def _near_end(end_us: int | None) -> float:
    return float("inf") if end_us is None else end_us - TOLERANCE_S * _S


def _alike(one: Rates, other: Rates) -> bool:
    """Lines of one phase may name memory and nodes in other ways."""
    return (one.cpus, one.gpus) == (other.cpus, other.gpus)


def _rows(first: RecordRow, parts: Sequence[Part], start_us: int) -> list[RecordRow]:
    rows, awake_s, held_first = [], 0.0, parts[0].rates
    for part in parts:
        seconds = 0.0 if part.end_us is None else (part.end_us - part.begin_us) / _S
        row, begin_at = first, instant(part.begin_us)
        if part.begin_us != start_us:
            left_s = None if first.requested_s is None else max(first.requested_s - awake_s, 0.0)
            row = row._replace(submit_at=begin_at, requested_s=left_s)
        is_memory = bool(held_first.cpus) and not (part.rates.cpus or part.rates.gpus)  # what a resting job keeps
        rows.append(
            row._replace(
                state="running" if part.end_us is None else "finished",
                start_at=begin_at,
                end_at=None if part.end_us is None else instant(part.end_us),
                revision=_CUT - int(seconds) if part.is_cut else 0,
                is_charge=is_memory,
                kinds=_held_kinds(first.kinds, part.rates),
                **part.rates._asdict(),
            )
        )
        awake_s += seconds if part.is_awake else 0.0
    return rows


def _held_kinds(kinds: Kinds, rates: Rates) -> Kinds:
    """Kinds in a part of a run: none while it is suspended, and of GPUs only where it holds as many."""
    if not kinds or not (rates.cpus or rates.gpus):
        return NO_KINDS
    return kinds if gpus_of(kinds) <= rates.gpus else tuple(pair for pair in kinds if not pair[0].startswith(GPU))


def rates_of(row: RecordRow) -> Rates:
    return Rates(row.cpus, row.gpus, row.nodes, row.mem_mb)


def less(held: Rates, released: Rates) -> Rates:
    """What a resting run keeps: nothing, or where the server names what it released, the others."""
    if not any(released):
        return NOTHING
    kept = Rates(*(max(has - gone, 0.0) for has, gone in zip(held, released, strict=True)))
    return kept._replace(nodes=held.nodes if kept.cpus else 0.0)


def as_json(row: RecordRow | None) -> list[Any] | None:
    """A row of a line: names, then times in microseconds, rates, the time that it asks for, and kinds if it has any."""
    if row is None:
        return None
    times = [None if at is None else microseconds(at) for at in (row.submit_at, row.start_at, row.end_at)]
    kinds = [list(row.kinds)] if row.kinds else []
    return [*(getattr(row, name) for name in _NAMES), times, list(rates_of(row)), row.requested_s, *kinds]


def from_json(value: Sequence[Any] | None) -> RecordRow | None:
    if value is None:
        return None
    names, (times, rates, requested_s, *kinds) = value[: len(_NAMES)], value[len(_NAMES) :]
    at: Callable[[int | None], datetime | None] = lambda us: None if us is None else instant(us)  # noqa: E731
    submit_at, start_at, end_at = map(at, times)
    return RecordRow(
        **dict(zip(_NAMES, names, strict=True)),
        submit_at=submit_at,
        start_at=start_at,
        end_at=end_at,
        requested_s=requested_s,
        kinds=tuple((name, float(amount)) for name, amount in kinds[0]) if kinds else NO_KINDS,
        **Rates(*rates)._asdict(),
    )


def _us(at: datetime | None) -> int:
    if at is None:
        raise ValueError("The time of a line is missing.")
    return microseconds(at)
