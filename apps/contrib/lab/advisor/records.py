"""What the advisor measures of a policy (Evidence), and its advice; fields have REST's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from apps.contrib.lab.comparison.verdict import ReplayFacts, read_facts

VERSION = 2  # of stored evidence


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """One operator on the tree's present state, and on the sampled days, at the policy's own resolution.

    orders_like: the first operator of the list that orders every pair alike. density: width of the components that
    entries are on, the median, in points of actual share. misplaced: mean percentage of leaves whose rank differs by
    rounding, over the days. flip_days: percentage of days with such a leaf. visible: percentage of leaves whose vector
    the typical job changes.
    """

    name: str
    k: float | None
    has_boundaries: bool
    is_proportional: bool
    is_isolated: bool
    orders_like: str
    density: float | None
    n_misplaced: int
    n_lost: int
    misplaced: float
    flip_days: float
    distinct_bits: int | None
    same_ranks_bits: int | None
    job_bits: int | None
    median_job_h: float | None
    visible: float

    @property
    def is_compliant(self) -> bool:
        return self.has_boundaries and self.is_proportional and self.is_isolated


@dataclass(frozen=True, slots=True)
class ResolutionFacts:
    """One resolution with the policy's own operator; see `OperatorFacts`."""

    resolution: int
    n_misplaced: int
    n_lost: int
    misplaced: float
    flip_days: float
    visible: float


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured."""

    as_of: Annotated[str | None, "Instant of the tree's usage; empty without usage"]
    n_leaves: Annotated[int, "Ranked leaves"]
    n_days: Annotated[int, "Days of the past on which ranks were compared"]
    n_jobs: Annotated[int, "Jobs that were replayed; 0: too few for a replay"]
    one_in: Annotated[int, "Of so many jobs one was replayed"]
    n_replay_days: Annotated[int, "Days that were replayed"]
    n_training_days: Annotated[int, "Of these, days from which the advice was chosen"]
    n_held_back_days: Annotated[int, "The last days, on which it was checked"]
    n_replays: Annotated[int, "Replays of each setting, with submissions up to an hour later"]
    n_entries: Annotated[int, "Entries whose jobs were replayed"]
    n_left_out: Annotated[int, "Entries that used less, whose jobs were left out"]
    n_waiting: Annotated[int, "Of the replayed jobs, those that never started: they wait, and count as demand"]
    cpus: Annotated[int, "Processors on the day with the most: on each day, the most that ran at once"]
    typical_job_h: Annotated[float | None, "Job up to which half of all work was done, in hours of the metric"]
    unit: Annotated[str, "Unit of the jobs: core-hours if the metric counts cores only"]
    model_error_points: Annotated[
        float | None, "Difference of the distance from fair use, replay of history and history, in points"
    ] = None
    wait_s: Annotated[float | None, "Mean wait of the jobs that started, weighted by their usage, in seconds"] = None
    model_wait_s: Annotated[float | None, "The same where they are replayed in the order of history"] = None
    meets_history: Annotated[bool, "The replay meets history; else nothing is compared"] = True
    n_own_jobs: Annotated[int | None, "Jobs of the days that have an entry in the policy; empty if unknown"] = None
    n_own_days: Annotated[int, "Days from the first of these jobs on"] = 0
    n_unknown: Annotated[int, "Waiting jobs without a requested time, which are left out: their demand isn't known"] = 0
    n_unrequested: Annotated[int, "Replayed jobs without a requested time, backfilled by their real length"] = 0
    least_cpus: Annotated[int, "Processors on the day with the fewest"] = 0
    job_points: Annotated[float, "The typical job in points of seven days' usage: less is chance"] = 0.0


@dataclass(frozen=True)
class Evidence:
    """Everything that `advise` needs, as numbers. algorithm, window: of the policy's settings.

    operators: empty without usage, and for policies that don't rank by vectors. current: replays of the policy's own
    settings; None where nothing is replayed. tried_operators: replays of the operators, of one among those that order
    alike. half_lives, algorithms: with the advised operator, so that they aren't advised for what it mends. combined:
    replays of all recommended settings together; None where at most one is changed.
    """

    algorithm: Mapping[str, Any]
    window: Mapping[str, Any]
    sample: Sample
    operators: tuple[OperatorFacts, ...] = ()
    resolutions: tuple[ResolutionFacts, ...] = ()
    current: ReplayFacts | None = None
    tried_operators: tuple[ReplayFacts, ...] = ()
    half_lives: tuple[ReplayFacts, ...] = ()
    algorithms: tuple[ReplayFacts, ...] = ()
    combined: ReplayFacts | None = None

    def to_json(self) -> dict[str, Any]:
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evidence:
        """Raises ValueError for what another version stored, KeyError and TypeError for other fields."""
        if data["version"] != VERSION:
            raise ValueError(f"Evidence of version {data['version']} can't be read.")
        current, combined = data["current"], data["combined"]
        return cls(
            data["algorithm"],
            data["window"],
            Sample(**data["sample"]),
            tuple(OperatorFacts(**each) for each in data["operators"]),
            tuple(ResolutionFacts(**each) for each in data["resolutions"]),
            None if current is None else read_facts(current),
            tuple(map(read_facts, data["tried_operators"])),
            tuple(map(read_facts, data["half_lives"])),
            tuple(map(read_facts, data["algorithms"])),
            None if combined is None else read_facts(combined),
        )


@dataclass(frozen=True, slots=True)
class Criterion:
    """A column of the table of a choice."""

    name: Annotated[str, "Stable name"]
    title: Annotated[str, "Title of the column"]
    unit: Annotated[str, "yes_no (1 and 0), percent, points, leaves, bits, hours or days"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row of the table of a choice."""

    name: Annotated[str, "Operator, resolution, half-life or algorithm"]
    is_now: Annotated[bool, "The policy's own"]
    is_recommended: Annotated[bool, "The advice"]
    orders_like: Annotated[str, "Operator that orders every pair alike; empty if it is the first such, or no operator"]
    values: Annotated[tuple[float | None, ...], "One for each criterion; empty where nothing was measured"]
    note: Annotated[str, "Why it was not measured; else empty"] = ""


@dataclass(frozen=True, slots=True)
class AdvisedChoice:
    """The advice about one setting, with what was measured of each candidate."""

    subject: Annotated[str, "operator, resolution, half_life or algorithm"]
    title: Annotated[str, "Name of the setting"]
    now: Annotated[str, "The policy's own"]
    recommended: Annotated[str, "The advice; equal to `now` where nothing is measurably better"]
    is_change: Annotated[bool, "The advice differs from the policy's own"]
    sentence: Annotated[str, "Why, with the numbers"]
    criteria: tuple[Criterion, ...]
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class HeldBack:
    """The recommended settings and the policy's own on the days that the advice was not chosen from."""

    n_days: Annotated[int, "The last days of the replay"]
    now_points: Annotated[float, "Distance from fair use with the policy's own settings, in points"]
    recommended_points: Annotated[float, "Distance with the recommended settings"]
    is_better: Annotated[bool, "The recommended settings are nearer"]
    sentence: Annotated[str, "The comparison in words"]


@dataclass(frozen=True, slots=True)
class Advice:
    """Operator, resolution, half-life and algorithm for one policy, each with what was measured."""

    sentence: Annotated[str, "The advice in one sentence"]
    is_change: Annotated[bool, "Something should be changed"]
    choices: tuple[AdvisedChoice, ...]
    held_back: HeldBack | None
    sample: Sample
    algorithm: Annotated[Mapping[str, Any], "Recommended settings of the algorithm"]
    half_life_s: Annotated[float | None, "Recommended half-life; empty: the window stays as it is"]
    aging: Annotated[str, "Decay function that the recommended half-life is of"]

    @property
    def recommended(self) -> dict[str, str]:
        """What is advised, by subject: a notice is sent when this differs from the last one."""
        return {choice.subject: choice.recommended for choice in self.choices}
