"""What the view of now says of a group's level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, NamedTuple
from uuid import UUID

from apps.contrib.starts.now.coming_free import PartitionComingFree
from apps.contrib.starts.now.level import RowKind
from apps.contrib.starts.now.listed_jobs import ListedScheduler
from apps.contrib.starts.now.wait_statistics import WaitStatistics


class RunsOn(NamedTuple):
    """What runs of one row on the unused share of another."""

    row: Annotated[int, "Place of the other row among `rows`, from 0"]
    amount: float


class ResourceNow(NamedTuple):
    """Cores, or GPUs, of one row. The formulas are those of `unused_shares`."""

    running: float
    entitled: Annotated[float | None, "Target × all that runs in the rows; null: no row has a target"]
    above: Annotated[float, "What runs beyond what it is entitled to, and so on unused shares of others"]
    unused: Annotated[float, "What it is entitled to beyond what runs"]
    waiting: Annotated[float, "What its waiting jobs ask for that could start now, if there was room"]
    reclaimed: Annotated[float, "Of what is above, if each row with an unused share got what its jobs wait for"]
    runs_on: Sequence[RunsOn]


@dataclass(frozen=True, slots=True)
class GroupNow:
    """One row: a group, the members together, what counts at the level's group itself, or unmapped accounts."""

    kind: RowKind
    uid: Annotated[UUID | None, "Of a group; null for other rows"]
    path: Annotated[str, "Of a group; empty for other rows"]
    target: Annotated[float, "Among the rows; 0 for what has no target"]
    waits: WaitStatistics
    jobs_waiting: Annotated[int | None, "Waiting jobs and tasks; null: no scheduler is counted"]
    cores: Annotated[ResourceNow | None, "null: no scheduler is counted"]
    gpus: Annotated[ResourceNow | None, "null: none runs or waits in any row, or no scheduler is counted"]


@dataclass(frozen=True, slots=True)
class LevelNow:
    """The rows of one group's level."""

    policy: str
    uid: UUID
    path: str
    as_of: datetime
    n_days: Annotated[int, "Length of the period of the waits, which ends at `as_of`"]
    rows: Sequence[GroupNow]
    total: Annotated[WaitStatistics, "All rows together"]
    schedulers: Annotated[Sequence[ListedScheduler], "Schedulers of the policy"]
    jobs_without_size: Annotated[int, "Jobs whose number of cores isn't known; they count as none"]
    coming_free: Annotated[
        Sequence[PartitionComingFree], "When running jobs of the rows end by their limits, the 100 largest partitions"
    ]
    sources_without_waits: Annotated[int, "Usage sources left out, because they report no submission times"]
