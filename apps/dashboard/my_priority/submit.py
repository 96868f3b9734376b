"""Under which account to submit: those that may run the same job, best first, with the rank after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest

from apps.analytics.what_if import Place, read_asked
from apps.analytics.what_if.after_job import USUAL_CORE_H, places_after_job
from apps.core import clock
from apps.core.errors import Invalid, NotFound, TooOften, Unavailable
from apps.dashboard.shell.requests import actor_of
from apps.explain.messages import reason_in_short, runs_where
from apps.explain.my_priority import MyPriority
from apps.priorities.sentences.numbers import as_typed

_MOST_SHOWN = 8
_MOST_TYPED = 40


@dataclass(frozen=True)
class SubmitRow:
    """One account. after: its rank once the job counts; None where that isn't known."""

    mine: MyPriority
    url: str
    reason: str
    is_shown: bool
    is_first: bool
    after: Place | None

    @property
    def falls(self) -> int | None:
        """Places that the job costs; None where the rank is rounded."""
        if self.after is None or self.after.rank is None or not self.after.is_exact or self.mine.rank is None:
            return None
        return self.after.rank[0] - self.mine.rank


@dataclass(frozen=True)
class SubmitCard:
    """core_h: as typed; problem: why that can't be. option: what Slurm's sbatch takes for the first account."""

    policy: str
    entry: str
    account: str
    rows: Sequence[SubmitRow]
    core_h: str
    problem: str = ""
    option: str = ""


def submit_card(
    request: HttpRequest, mine: MyPriority, known: Sequence[MyPriority], urls: Mapping[int, str]
) -> SubmitCard | None:
    """known: all accounts of the person, best first. urls: their pages, by id(). None for an account without a rank."""
    able = [other for other in known if runs_where(mine, other) and other.rank is not None][:_MOST_SHOWN]
    if mine.rank is None or mine.entry_uid is None or not able:
        return None
    typed = request.GET.get("job_core_h", "").strip()[:_MOST_TYPED] or as_typed(USUAL_CORE_H)
    after: dict[UUID, Place] = {}
    problem = ""
    try:
        asked = read_asked({"core_h": typed}).core_h or 0.0
        uids = [other.entry_uid for other in able if other.entry_uid is not None]
        after = places_after_job(
            policy_slug=mine.policy_slug,
            entry_uids=list(dict.fromkeys(uids)),
            core_h=asked,
            actor=actor_of(request),
            at=clock.now(),
        )
    except Invalid as error:
        problem = error.fields[0].message if error.fields else error.message
    except TooOften as error:
        problem = error.message
    except (NotFound, Unavailable):
        pass  # a newer snapshot has just arrived: the ranks of now stay
    rows = [
        SubmitRow(
            mine=other,
            url=urls[id(other)],
            reason=reason_in_short(other),
            is_shown=other is mine,
            is_first=place == 0 and len(able) > 1,
            after=None if other.entry_uid is None else after.get(other.entry_uid),
        )
        for place, other in enumerate(able)
    ]
    return SubmitCard(
        policy=mine.policy_slug,
        entry=str(mine.entry_uid),
        account=mine.account,
        rows=rows,
        core_h=typed,
        problem=problem,
        option=f"--account={able[0].group}" if able[0].group and len(able) > 1 else "",
    )
