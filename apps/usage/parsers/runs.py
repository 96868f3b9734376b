"""A run of a job whose allocation changes or is suspended while it runs, as one record for each part.

The first part has the run's key. Each later one is keyed by the instant at which it begins, as Slurm's parts of resized
jobs are. A part that a change ended has a revision that rises as the part gets shorter, so that in any order of
arrival the earliest change counts, and goes before a report of the whole run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from apps.usage.parsers.base import MOST_JOB_S, Rates, RecordRow, instant, microseconds

NOTHING = Rates(0.0, 0.0, 0.0, 0.0)
_CUT = 2 * MOST_JOB_S  # more than the seconds of any part
_TEXTS = ("job", "array_task", "user", "group", "project", "queue", "cluster", "site")


class Change(NamedTuple):
    """What a run holds from an instant on. is_rest: it was suspended then."""

    at_us: int
    rates: Rates
    is_rest: bool = False


class Part(NamedTuple):
    """is_cut: a change ended it, not the end of the run."""

    begin_us: int
    end_us: int | None
    rates: Rates
    is_cut: bool


def is_cut(revision: int) -> bool:
    """Whether a stored revision is that of a part which a change ended."""
    return revision > 0


@dataclass(slots=True)
class Run:
    """first: names, key, start and what the run held first. emitted: end of each part by begin, as last given out."""

    first: RecordRow
    changes: list[Change] = field(default_factory=list)
    end_us: int | None = None
    emitted: dict[int, int | None] = field(default_factory=dict)

    @property
    def start_us(self) -> int:
        return _us(self.first.start_at)

    @property
    def submit_us(self) -> int:
        return _us(self.first.submit_at)

    @property
    def is_open(self) -> bool:
        return self.end_us is None

    @property
    def rates(self) -> Rates:
        return rates_of(self.first)

    def held_at(self, at_us: int, *, awake: bool = False) -> Rates:
        """What it holds just before an instant. awake: or held before it was suspended."""
        held = self.rates
        for change in self.changes:
            if change.at_us < at_us and not (awake and change.is_rest):
                held = change.rates
        return held

    def rest(self, at_us: int, kept: Rates = NOTHING) -> None:
        self._add(Change(at_us, kept, is_rest=True))

    def resume(self, at_us: int) -> None:
        self._add(Change(at_us, self.held_at(at_us, awake=True)))

    def change(self, at_us: int, rates: Rates) -> None:
        self._add(Change(at_us, rates))

    def _add(self, change: Change) -> None:
        if change not in self.changes:
            self.changes = sorted([*self.changes, change], key=lambda known: known.at_us)

    def parts(self) -> list[Part]:
        parts: list[Part] = []
        begin_us, rates = self.start_us, self.rates
        for change in self.changes:
            if self.end_us is not None and change.at_us >= self.end_us:
                break
            if change.rates == rates:
                continue
            if change.at_us > begin_us or (not parts and begin_us == self.start_us):
                parts.append(Part(begin_us, max(change.at_us, begin_us), rates, is_cut=True))
            begin_us, rates = max(change.at_us, begin_us), change.rates
        if self.end_us is None or self.end_us > begin_us or not parts:
            parts.append(Part(begin_us, self.end_us, rates, is_cut=False))
        return [part for part in parts if any(part.rates) or part.begin_us == self.start_us]

    def new_rows(self) -> list[RecordRow]:
        """Records of the parts that are new or end otherwise than before."""
        rows, held_s = [], 0.0
        for part in self.parts():
            if part.begin_us not in self.emitted or self.emitted[part.begin_us] != part.end_us:
                rows.append(self._row(part, held_s))
                self.emitted[part.begin_us] = part.end_us
            held_s += _seconds(part) if part.rates.cpus or part.rates.gpus else 0.0
        return rows

    def _row(self, part: Part, held_s: float) -> RecordRow:
        first, begin_at = self.first, instant(part.begin_us)
        asked_s = first.requested_s
        if part.begin_us != self.start_us:
            left_s = None if asked_s is None else max(asked_s - held_s, 0.0)
            first = first._replace(submit_at=begin_at, requested_s=left_s)
        return first._replace(
            state="running" if part.end_us is None else "finished",
            start_at=begin_at,
            end_at=None if part.end_us is None else instant(part.end_us),
            revision=_CUT - int(_seconds(part)) if part.is_cut else 0,
            is_charge=bool(self.rates.cpus) and not (part.rates.cpus or part.rates.gpus),  # memory of a resting job
            **part.rates._asdict(),
        )

    def latest_end_us(self, until_us: int) -> int:
        """When a run without an end was over at the latest: after the time it asked for, and before the next run."""
        asked_s = self.first.requested_s
        if asked_s is None:
            return until_us
        rested_s, since_us = 0.0, None
        for change in self.changes:
            if change.is_rest:
                since_us = change.at_us if since_us is None else since_us
            elif since_us is not None:
                rested_s, since_us = rested_s + (change.at_us - since_us) / 1e6, None
        return min(until_us, self.start_us + int((asked_s + rested_s) * 1e6))

    def as_json(self) -> list[Any]:
        first = self.first
        names = [getattr(first, name) for name in _TEXTS]
        changes = [[change.at_us, [*change.rates], change.is_rest] for change in self.changes]
        key = [self.submit_us, first.restart, first.requested_s, self.start_us, [*self.rates]]
        return [names, key, changes, self.end_us, [[begin, end] for begin, end in self.emitted.items()]]

    @classmethod
    def from_json(cls, value: list[Any]) -> Run:
        names, (submit_us, restart, requested_s, start_us, rates), changes, end_us, emitted = value
        first = RecordRow(
            state="running",
            submit_at=instant(submit_us),
            start_at=instant(start_us),
            restart=restart,
            requested_s=requested_s,
            **dict(zip(_TEXTS, names, strict=True)),
            **Rates(*rates)._asdict(),
        )
        known = [Change(at_us, Rates(*held), is_rest) for at_us, held, is_rest in changes]
        return cls(first, known, end_us, {begin: end for begin, end in emitted})


def rates_of(row: RecordRow) -> Rates:
    return Rates(row.cpus, row.gpus, row.nodes, row.mem_mb)


def less(held: Rates, released: Rates) -> Rates:
    """What a resting run keeps: nothing, or where the server names what it released, the others."""
    if not any(released):
        return NOTHING
    kept = Rates(*(max(has - gone, 0.0) for has, gone in zip(held, released, strict=True)))
    return kept._replace(nodes=held.nodes if kept.cpus else 0.0)


def _us(at: Any) -> int:
    return microseconds(at)


def _seconds(part: Part) -> float:
    return 0.0 if part.end_us is None else (part.end_us - part.begin_us) / 1e6
