"""Rows and sentences of planned waits under a draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.contrib.starts.draft_waits.records import DraftWaits, GroupDraftWaits, SchedulerDraftWaits
from apps.contrib.starts.now.wait_statistics import LEAST_WAIT_JOBS
from apps.contrib.starts.pages.row_names import name_of_row
from apps.contrib.starts.plan_error import PlanError
from apps.contrib.starts.sentences import LEAST_PROMISES_OF_RECORD
from apps.priorities.sentences import numbers
from apps.priorities.sentences.wait_text import wait_change, wait_text
from apps.web.shell import presentation

SAME_WAIT_S = 60.0  # a smaller change of a median is none
_WHY_NONE: dict[str, Promise] = {
    "no_scheduler": gettext_lazy("No scheduler of this policy gets its ranks, so that no queue is known."),
    "no_snapshot": gettext_lazy("Nothing has been computed yet: planned waits follow the first recompute."),
    "absent": gettext_lazy("Planned waits follow the effect on ranks: compute it under Effect."),
    "asked": gettext_lazy("The effect on ranks is being computed: planned waits follow it."),
    "failed": gettext_lazy(
        "The effect on ranks could not be computed, so that there are no planned waits: see Effect."
    ),
    "conflict": gettext_lazy("The draft can’t be based on the published policy: resolve its conflicts first."),
    "counts_otherwise": gettext_lazy(
        "It changes how usage counts: make a change set of it, whose review has its planned waits."
    ),
    "unsuitable": gettext_lazy("Its algorithm doesn’t fit its tree, so that it gives no ranks."),
    "decided": gettext_lazy("It is published or withdrawn, so that there is no draft to compare."),
}
_NO_QUEUE: dict[str, Promise] = {
    "no_report": gettext_lazy("The agent of %(name)s has listed no queue yet."),
    "stale": gettext_lazy("The agent of %(name)s is silent: its queue was last listed %(at)s."),
    "no_plan": gettext_lazy(
        "The agent of %(name)s lists no running jobs or no capacity, so that nothing can be planned: update it."
    ),
    "no_jobs": gettext_lazy("No job that could start waits in %(name)s."),
}


@dataclass(frozen=True, slots=True)
class DraftWaitRow:
    """A group's planned waits as texts. change_to: longer, shorter, same, or unknown."""

    kind: str
    name: str
    uid: UUID | None
    jobs: str
    median: str
    draft_median: str
    change: str
    change_to: str
    p90: str
    draft_p90: str


@dataclass(frozen=True, slots=True)
class QueueTexts:
    """One scheduler: its answer first, then how far it may be off. rows: empty where nothing is planned."""

    scheduler: str
    state: str
    answer: str
    rows: Sequence[DraftWaitRow]
    error: str
    is_error_known: bool
    notes: Sequence[str]


def why_none(waits: DraftWaits) -> str:
    """Empty where there are planned waits."""
    return str(_WHY_NONE.get(waits.state, "")) if not waits.schedulers else ""


def queue_texts(waits: DraftWaits, at: datetime) -> list[QueueTexts]:
    return [_texts(each, at) for each in waits.schedulers]


def _texts(queue: SchedulerDraftWaits, at: datetime) -> QueueTexts:
    is_ready = queue.state == "ready"
    return QueueTexts(
        scheduler=queue.scheduler,
        state=queue.state,
        answer=_answer(queue.groups) if is_ready else _no_queue(queue, at),
        rows=[_row(each) for each in queue.groups] if is_ready else [],
        error=error_sentence(queue.error) if is_ready else "",
        is_error_known=queue.error.median_s is not None,
        notes=_notes(queue, at) if is_ready else [],
    )


def _no_queue(queue: SchedulerDraftWaits, at: datetime) -> str:
    listed = "" if queue.taken_at is None else presentation.clock_time(queue.taken_at, at)
    return str(_NO_QUEUE[queue.state]) % {"name": queue.scheduler, "at": listed}


def _answer(groups: Sequence[GroupDraftWaits]) -> str:
    """Who would wait longer and shorter, with the group whose median changes most, of equal ones the one that loses."""
    known = [each for each in groups if each.change_s is not None]
    if not known:
        return _("No group has %(n)s waiting jobs or more that a plan can place.") % {"n": LEAST_WAIT_JOBS}
    moved = [each for each in known if change_of(each) != "same"]
    if not moved:
        return _("No group would wait longer or shorter by a minute or more.")
    most = max(moved, key=lambda each: (abs(each.change_s or 0.0), each.change_s or 0.0))
    longer = sum(change_of(each) == "longer" for each in moved)
    words = {
        "longer": numbers.count(longer),
        "shorter": numbers.count(len(moved) - longer),
        "most": name_of_row(most.kind, most.path),
        "before": wait_text(most.median_s),
        "after": wait_text(most.draft_median_s),
    }
    text = ngettext(
        "%(longer)s group would wait longer and %(shorter)s shorter; the largest change is that of %(most)s:"
        " %(after)s in the median instead of %(before)s.",
        "%(longer)s groups would wait longer and %(shorter)s shorter; the largest change is that of %(most)s:"
        " %(after)s in the median instead of %(before)s.",
        longer,
    )
    return text % words


def change_of(group: GroupDraftWaits) -> str:
    if group.change_s is None:
        return "unknown"
    if abs(group.change_s) < SAME_WAIT_S:
        return "same"
    return "longer" if group.change_s > 0 else "shorter"


def _row(group: GroupDraftWaits) -> DraftWaitRow:
    is_same = change_of(group) == "same"
    return DraftWaitRow(
        kind=group.kind,
        name=name_of_row(group.kind, group.path),
        uid=group.uid if group.kind == "group" else None,
        jobs=_("fewer than %(n)s") % {"n": LEAST_WAIT_JOBS} if group.jobs is None else numbers.count(group.jobs),
        median=wait_text(group.median_s),
        draft_median=wait_text(group.draft_median_s),
        change=_("no change") if is_same else wait_change(group.draft_median_s, group.median_s) or numbers.UNKNOWN,
        change_to=change_of(group),
        p90=wait_text(group.p90_s),
        draft_p90=wait_text(group.draft_p90_s),
    )


def error_sentence(error: PlanError) -> str:
    """How far plans of this queue were off, or that it isn't known yet."""
    if error.median_s is None or error.held is None:
        return _("How far plans of this queue are off is not known yet: of %(least)s starts, %(n)s are recorded.") % {
            "least": numbers.count(LEAST_PROMISES_OF_RECORD),
            "n": numbers.count(error.starts),
        }
    return _(
        "Of %(n)s planned starts in %(days)s days, half were off by %(median)s or less, and %(held)s held: the job"
        " started by then, or within 5 minutes."
    ) % {
        "n": numbers.count(error.starts),
        "days": numbers.count(error.days),
        "median": wait_text(error.median_s),
        "held": numbers.percent(error.held, 0),
    }


def _notes(queue: SchedulerDraftWaits, at: datetime) -> list[str]:
    """What the plans assume."""
    notes = []
    if queue.rank_use_text:
        notes.append(queue.rank_use_text)
    if queue.rank_use not in ("used", "paused"):
        notes.append(_("So both plans show what it would do if it did."))
    if not queue.adds_up:
        notes.append(_("Both plans order jobs by ranks alone, since its priorities are no sum of terms."))
    if queue.jobs_left_out:
        notes.append(
            ngettext(
                "%(n)s waiting job has no planned start: it is held, waits for another job, or can’t start as it is.",
                "%(n)s waiting jobs have no planned start: they are held, wait for others, or can’t start as they are.",
                queue.jobs_left_out,
            )
            % {"n": numbers.count(queue.jobs_left_out)}
        )
    return notes
