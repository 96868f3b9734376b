"""What is said of planned waits under a draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from apps.contrib.schedulers.rank_use import RankUse
from apps.contrib.starts.now.level import RowKind
from apps.contrib.starts.plan_error import PlanError

# The state of the effect of a change set, or another reason. counts_otherwise: of a variant that changes how usage
# counts, unsuitable: of one whose algorithm doesn't fit its tree.
DraftState = Literal[
    "ready", "stale", "asked", "failed", "absent", "no_snapshot", "conflict", "decided", "no_scheduler",
    "counts_otherwise", "unsuitable",
]  # fmt: skip
QueueStateName = Literal["ready", "no_report", "stale", "no_plan", "no_jobs"]


@dataclass(frozen=True, slots=True)
class GroupDraftWaits:
    """One group: how long its waiting jobs still wait by the plan. Null: fewer than 5 of its jobs are planned."""

    kind: RowKind
    uid: Annotated[UUID | None, "Of a group; null for other rows"]
    path: Annotated[str, "Of a group; empty for other rows"]
    jobs: Annotated[int | None, "Waiting jobs that both plans place; an array counts once, by its next task"]
    median_s: Annotated[float | None, "By the published policy, in seconds from the listing"]
    p90_s: Annotated[float | None, "90th percentile, by the published policy"]
    draft_median_s: Annotated[float | None, "Under the draft"]
    draft_p90_s: Annotated[float | None, "90th percentile, under the draft"]

    @property
    def change_s(self) -> float | None:
        """By how much the median is longer under the draft."""
        if self.median_s is None or self.draft_median_s is None:
            return None
        return self.draft_median_s - self.median_s


@dataclass(frozen=True, slots=True)
class SchedulerDraftWaits:
    """One scheduler of the policy. Groups are in the order of the change of their medians, the longest first."""

    scheduler: str
    state: Annotated[
        QueueStateName,
        "no_report: its agent has listed no queue yet; stale: nor lately; no_plan: it lists no running jobs or"
        " capacity; no_jobs: none waits that could start",
    ]
    taken_at: Annotated[datetime | None, "When its agent last listed the queue; null: never"]
    rank_use: Annotated[RankUse, "Whether the scheduler orders jobs by the policy's ranks; if not, as if it did"]
    rank_use_text: Annotated[str, "The same as a sentence; empty: it does"]
    adds_up: Annotated[
        bool, "true: jobs are ordered by priorities in which the factors are replaced; false: by the factors alone"
    ]
    jobs_left_out: Annotated[int, "Waiting jobs without a planned start: held, dependent, or such that never start"]
    error: Annotated[PlanError, "How far plans of this queue were off in the past"]
    groups: Sequence[GroupDraftWaits]


@dataclass(frozen=True, slots=True)
class DraftWaits:
    """Planned waits of the jobs that wait now, under a draft beside the published policy."""

    state: Annotated[DraftState, "ready, or why there are none"]
    policy: str
    uid: Annotated[UUID, "The group whose children are the rows"]
    path: str
    as_of: Annotated[datetime | None, "Instant of the usage; null: not computed"]
    schedulers: Sequence[SchedulerDraftWaits]
