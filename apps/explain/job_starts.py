"""When jobs start, as an installed plug-in promises it: what pages, REST and the terminal show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from apps.accounts.actor import Actor
from apps.core.plugins import plugins
from apps.explain.my_priority import MyPriority

Outcome = Literal["open", "kept", "broken"]
Note = Literal["", "held", "dependency", "begin_time", "never", "learning", "unknown", "stale", "capacity"]


@dataclass(frozen=True, slots=True)
class FirstStart:
    """The first promise of 80 % that a job got. It stays in view when later ones follow."""

    before_80: Annotated[datetime | None, "Null: more than a week ahead"]
    said_at: datetime
    outcome: Annotated[Outcome, "open: its time has not come"]
    settled_at: Annotated[datetime | None, "When it was kept or broken; null: it is open"]


@dataclass(frozen=True, slots=True)
class HeldStarts:
    """How often such promises held."""

    share: Annotated[float | None, "Of the promises of 80 % that are settled, 0 to 1; null: none is"]
    n: Annotated[int, "Promises of 80 % that are settled"]
    days: Annotated[int, "Of how many days"]
    is_low: Annotated[bool, "Whether less than 65 % of the latest ones held"]


@dataclass(frozen=True, slots=True)
class JobStart:
    """When a job starts, with a probability: an estimate with its record, not a reservation.

    short: for a row of a table.
    """

    within_5_min: Annotated[float | None, "Probability of a start within 5 minutes of `said_at`; null: later promises"]
    before_50: Annotated[
        datetime | None, "It starts before this with 50 %; null: more than a week ahead, or no promise"
    ]
    before_80: Annotated[datetime | None, "The same with 80 %"]
    before_95: Annotated[datetime | None, "The same with 95 %"]
    is_promised: Annotated[bool, "False: it has no promise, for the reason in `note`"]
    said_at: datetime
    first: FirstStart | None
    basis: Annotated[str, "What the promise is made of"]
    held: HeldStarts
    note: Annotated[Note, "Why it has no promise, or what the promise doesn't know; empty: nothing"]
    short: Annotated[str, "The time of 80 % in the time zone of the site, or why there is none"]
    text: Annotated[str, "The promise in sentences, with the same zone; empty: it has none"]
    first_text: Annotated[str, "The first promise and the current one as a sentence; empty: they are the same"]
    note_text: Annotated[str, "`note` as a sentence; empty: there is none"]
    record_text: Annotated[str, "`basis` and `held` in sentences; empty without a promise"]

    @property
    def sentences(self) -> list[str]:
        """In reading order."""
        return [text for text in (self.text, self.first_text, self.note_text, self.record_text) if text]


@dataclass(frozen=True, slots=True)
class NewJobShape:
    """A job that isn't submitted yet. text: it in words, which a sentence about its start follows."""

    scheduler: Annotated[str, "Where it would wait; empty: not known"]
    partition: Annotated[str, "Empty: not known"]
    cpus: float
    limit_s: Annotated[float | None, "Time limit; null: not known"]
    text: Annotated[str, "The job in words"]
    source: Annotated[str, "Usage source of whose records the start is estimated; empty: of a scheduler's queue"] = ""


@dataclass(frozen=True, slots=True)
class NewJobStart:
    """When such a job would start if it was submitted now."""

    job: NewJobShape
    start: JobStart

    @property
    def sentences(self) -> list[str]:
        """In reading order, the job named in the first one."""
        first, *more = self.start.sentences
        return [f"{self.job.text} {first}", *more]


def load_new_job_start(account: MyPriority, *, core_h: float, actor: Actor, at: datetime) -> NewJobStart | None:
    """For a job of the actor under an account; None without a plug-in that estimates starts.

    core_h: its size in hours of the policy's metric.
    """
    answers: Iterable[NewJobStart | None] = (
        plugin.new_job_start(account, core_h=core_h, actor=actor, at=at) for plugin in plugins()
    )
    return next((answer for answer in answers if answer is not None), None)
