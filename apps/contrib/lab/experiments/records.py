"""What selectors return about experiments: frozen records with REST's names. Times in seconds or hours by their names.

The pages and REST read these alone. `ExperimentRow` is a row of the list; `ExperimentDetail` adds the variants with
their states and headline numbers; `VariantReport` has one variant's numbers by entry, beside the base's, and its
figures over time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from apps.runs.waiting import RunWaiting

Kind = Literal["synthetic", "trace", "replay"]
# queued: none of its runs has begun, or the next one waits; preparing: its inputs are read; done: all have ended, and
# at least one gave a result
ExperimentState = Literal["queued", "preparing", "running", "done", "failed", "cancelled"]
# waiting: for the inputs; queued: for a worker
VariantState = Literal["waiting", "queued", "running", "done", "failed", "cancelled"]
# waiting: for a worker that reads it, or it is being read
TraceState = Literal["waiting", "read", "refused"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an experiment would need, before it starts."""

    n_jobs: Annotated[int, "Jobs of one variant; of a replay, about"]
    n_events: Annotated[int, "Events of one variant: arrivals, starts, ends and refreshes"]
    n_entries: Annotated[int, "Entries that take part: those with jobs, what is above them, and the rest of each group"]
    n_sites: int
    n_runs: Annotated[int, "The base and its variants"]
    seconds: Annotated[float, "Processor seconds of all variants together"]
    memory_mb: Annotated[float, "Of one worker, at most"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Jobs of a workload that are not simulated, and why."""

    reason: Annotated[str, "Stable"]
    text: Annotated[str, "The reason as a sentence"]
    n_jobs: int
    core_h: float


@dataclass(frozen=True, slots=True)
class Changed:
    """One thing that a variant changes of the base."""

    field: Annotated[str, "Stable, such as settings.window.half_life_s"]
    label: str
    before: Annotated[str, "As text; empty where there was nothing"]
    after: str


@dataclass(frozen=True, slots=True)
class Headline:
    """The numbers of one outcome that a list shows; null: not known."""

    n_jobs: Annotated[int, "Jobs whose waits count"]
    n_started: Annotated[int, "Of the jobs whose waits count, those that started"]
    n_waiting: Annotated[int, "Of the jobs whose waits count, those that still wait at the end"]
    wait_mean_s: float | None
    wait_median_s: float | None
    wait_p90_s: float | None
    core_h: Annotated[float, "Delivered"]
    rms_points: Annotated[float | None, "Distance of the top groups from their targets, root mean square over time"]
    settled_h: Annotated[
        float | None,
        "Hours until the top groups stay at fair use, within the tolerance: at their targets as far as demand allows",
    ]
    is_settled: Annotated[bool | None, "false: not by the end; null: not known"]
    busy: Annotated[float, "Part of all processors that was busy"]
    fair_points: Annotated[
        float | None, "Distance from fair use at every level, in points; null: of a release before, compute it again"
    ] = None


@dataclass(frozen=True, slots=True)
class Compared:
    """A variant of a replay as advice compares settings: mean distance from fair use in points, of repeated replays."""

    training_points: Annotated[float | None, "On the first days, from which is chosen; null: not compared"]
    held_back_points: Annotated[float | None, "On the last third of the days, by which the choice is checked"]
    why_not: Annotated[str, "Why it is not compared; else empty"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a replay says about the variants that change one kind of setting, by the rule of advice."""

    subject: Annotated[str, "algorithm, half_life, settings, or history: the replay doesn't meet it"]
    headline: Annotated[str, "The verdict in one sentence"]
    sentence: Annotated[str, "Its numbers; empty where nothing is compared"]
    chosen: Annotated[int | None, "The better variant; 0: the base, nothing is measurably better; null: no verdict"]
    nearest: Annotated[int | None, "The variant that is talked about; 0: none is nearer"]
    basis: Annotated[
        str,
        "keep: nothing measurably better; first: chosen on the first days, confirmed by the last; last: chosen and "
        "confirmed on the last; contradicted: they disagree; unlike_history: the replay doesn't meet history",
    ]


@dataclass(frozen=True, slots=True)
class VariantRow:
    index: Annotated[int, "0: the base"]
    title: Annotated[str, "Its name, or what it changes"]
    changes: tuple[Changed, ...]
    change_set: int | None
    state: VariantState
    progress: Annotated[float, "Completed part, 0 to 1"]
    problem: Annotated[str, "Why it failed"]
    run: int | None
    headline: Headline | None
    compared: Annotated[Compared | None, "Of a replay, beside history; null: not yet, or nothing to compare"]
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    id: int
    policy: str
    name: str
    kind: Kind
    state: ExperimentState
    waiting: Annotated[RunWaiting | None, "Behind what it waits while it is queued; null: it doesn't"]
    progress: Annotated[float, "Completed part of all variants, 0 to 1"]
    n_variants: Annotated[int, "Besides the base"]
    revision: Annotated[int, "Revision of the policy that the base is"]
    seed: int
    release: Annotated[str, "Of the program that made it"]
    owner: str
    created_at: datetime
    cancelled_by: str
    change_set: Annotated[int | None, "The change set that it is evidence of"]


@dataclass(frozen=True, slots=True)
class ModelError:
    """How far the replay of the policy as published is from what happened: the error of the model.

    Waits in seconds: simulated minus real. core_hours_points: distance of the groups' parts of the core-hours, day by
    day, in points: half the sum of the distances, its mean over days.
    """

    wait_mean_s: float | None
    wait_median_s: float | None
    wait_p90_s: float | None
    core_hours_points: float | None
    n_jobs: int


@dataclass(frozen=True, slots=True)
class ExperimentDetail:
    """An experiment. spec: as it was sent, in canonical form, so that it can be sent again."""

    row: ExperimentRow
    spec: Mapping[str, Any]
    estimate: Estimate
    problem: Annotated[str, "Why it could not be prepared"]
    first_day: Annotated[date | None, "Of a replay"]
    hours: float | None
    sites: Mapping[str, int]
    left_out: tuple[LeftOut, ...]
    variants: tuple[VariantRow, ...]
    history: Annotated[Headline | None, "What happened in fact, of a replay"]
    happened: Annotated[Compared | None, "Distances of what happened in fact, on the days of the comparison"]
    model_error: ModelError | None
    explains_waits: Annotated[
        bool, "false: the replay has less than half of the real waits, so variants aren't compared"
    ]
    verdicts: Annotated[tuple[Verdict, ...], "Of a replay, one for each kind of setting that variants change"]
    closest: Annotated[int | None, "The variant or base that was closest to fair use; null: none yet"]
    may_manage: bool


@dataclass(frozen=True, slots=True)
class EntryNumbers:
    """An entry in one variant; `_was`: in the base. null: not known, or not in that tree."""

    entry: UUID
    path: str
    name: str
    depth: Annotated[int, "1: below the root"]
    is_group: bool
    target: Annotated[float | None, "Share among siblings, 0 to 1"]
    target_was: float | None
    n_jobs: int
    n_waiting: Annotated[int, "Still waiting at the end"]
    wait_mean_s: float | None
    wait_mean_was_s: float | None
    wait_median_s: float | None
    wait_median_was_s: float | None
    wait_p90_s: float | None
    wait_p90_was_s: float | None
    core_h: float
    core_h_was: float
    fair_points: Annotated[float | None, "Of a group: distance of its children from fair use"]
    rms_points: Annotated[float | None, "Of a group: distance of its children from their bare targets, over time"]
    rms_was_points: float | None
    settled_h: Annotated[
        float | None, "Of a group: hours until its children stay at fair use, within the tolerance; null: not known"
    ]
    settled_was_h: float | None
    is_settled: Annotated[bool | None, "false: not by the end"]


@dataclass(frozen=True, slots=True)
class Curve:
    """The share of an entry over time. Values are those at `at_h` of the report; null where nothing is compared."""

    entry: UUID
    path: str
    name: str
    target: float | None
    share: tuple[float | None, ...]
    share_was: tuple[float | None, ...]
    core_h: Annotated[tuple[float, ...], "By day"]
    core_h_was: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class VariantReport:
    """The outcome of one variant beside the base's. Gains: leaves whose mean wait is shorter, the largest first."""

    experiment: int
    index: int
    title: str
    headline: Headline
    headline_was: Headline | None
    entries: Annotated[tuple[EntryNumbers, ...], "The upper levels of the tree, breadth-first"]
    n_entries: Annotated[int, "All that took part"]
    gains: tuple[EntryNumbers, ...]
    losses: tuple[EntryNumbers, ...]
    n_gain: int
    n_lose: int
    idle: Annotated[tuple[str, ...], "Paths of entries of which no job ran or waited, at most 20; none below another"]
    n_idle: Annotated[int, "Number of these entries"]
    at_h: tuple[float, ...]
    curves: tuple[Curve, ...]
    days: Annotated[tuple[date, ...], "Of a replay; empty otherwise"]
    n_days: int


@dataclass(frozen=True, slots=True)
class ReplayEvidence:
    """An experiment that is attached to a change set, for its review. report: of the variant that is this change set,
    or of the first one; None until it is done.
    """

    detail: ExperimentDetail
    attached_at: datetime
    attached_by: str
    report: VariantReport | None


@dataclass(frozen=True, slots=True)
class TraceRow:
    """An uploaded log. What is known only after it is read is null until then."""

    id: int
    policy: str
    name: str
    state: TraceState
    problem_code: Annotated[str, "Stable; why it was refused, else empty"]
    problem: Annotated[str, "The reason as a sentence, with the first wrong line"]
    waiting: Annotated[RunWaiting | None, "Behind what it waits; null: it is being read, or was"]
    n_jobs: int | None
    hours: float | None
    n_users: int | None
    most_cpus: Annotated[int | None, "Of one job"]
    left_out: tuple[LeftOut, ...] | None
    digest: Annotated[str | None, "Of its jobs"]
    owner: str
    created_at: datetime
