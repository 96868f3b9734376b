"""`StartAnswer` → the sentences that pages, REST and the terminal show about the start of a job."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from django.utils import formats, timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.contrib.starts.answer import FirstOutcome, HeldRecord, StartAnswer, StartNote
from apps.contrib.starts.learned_trees import LearnedTrees
from apps.contrib.starts.prediction.bases import PLAN, RECORDS, SCHEDULER, TREES
from apps.contrib.starts.prediction.promises import FLOOR_S, LEVELS
from apps.contrib.starts.prediction.recent_waits import CONSTANT, LEAST_FOR_QUANTILES, RECENT
from apps.explain.job_starts import FirstStart, HeldStarts, JobStart
from apps.priorities.sentences import numbers
from apps.web.shell import presentation

LEAST_PROMISES_OF_RECORD = 30  # settled ones; a share of fewer says little
_FLOOR = timedelta(seconds=FLOOR_S)
_DAYS_BY_NAME = timedelta(days=6)  # ahead, that the name of the day alone says
_NOTES: dict[StartNote, Promise] = {
    StartNote.HELD: gettext_lazy("No start is promised while it is held."),
    StartNote.DEPENDENCY: gettext_lazy("No start is promised while it waits for another job."),
    StartNote.BEGIN_TIME: gettext_lazy("No start is promised until its begin time."),
    StartNote.NEVER: gettext_lazy("It can’t start as it is: its partition doesn’t admit it."),
    StartNote.UNKNOWN: gettext_lazy(
        "It isn’t known when it would start: no agent lists a queue here, and no source reports waits."
    ),
    StartNote.STALE: gettext_lazy("The agent has not reported for a while, so this may be out of date."),
    StartNote.CAPACITY: gettext_lazy("Nodes were drained or reserved since then, so it may take longer."),
}
_SHORT_NOTES: dict[StartNote, Promise] = {
    StartNote.HELD: gettext_lazy("not while held"),
    StartNote.DEPENDENCY: gettext_lazy("after another job"),
    StartNote.BEGIN_TIME: gettext_lazy("after its begin time"),
    StartNote.NEVER: gettext_lazy("can’t start"),
    StartNote.LEARNING: gettext_lazy("not known yet"),
}

_BASES: dict[str, Promise] = {
    CONSTANT: gettext_lazy("Estimated from past promises alone."),
    RECENT: gettext_lazy("Estimated from recent waits of jobs like it."),
    PLAN: gettext_lazy("Estimated from a plan of the queue."),
    SCHEDULER: gettext_lazy("Estimated from the start that the scheduler plans."),
    TREES: gettext_lazy("Estimated from past queues like this one."),
    RECORDS: gettext_lazy("Estimated from recent waits in the records of %(source)s, without its queue."),
}


def start_of(answer: StartAnswer, at: datetime) -> JobStart:
    """What is shown of an answer at an instant. Times are in the zone of the page."""
    before, first, held = answer.before, answer.first, answer.held
    return JobStart(
        within_5_min=answer.within_5_min,
        before_50=before.p50 if before else None,
        before_80=before.p80 if before else None,
        before_95=before.p95 if before else None,
        is_promised=before is not None,
        said_at=answer.made_at,
        first=None
        if first is None
        else FirstStart(first.before_80, first.made_at, first.outcome.value, first.settled_at),
        basis=answer.basis,
        held=HeldStarts(held.share, held.n, held.days, held.is_low),
        note=answer.note.value if answer.note else "",
        short=_short(answer, at),
        text=" ".join([*promise_sentences(answer, at), made_text(answer, at)]) if before else "",
        first_text=_first_text(answer, at),
        note_text=_note_text(answer),
        record_text=" ".join([basis_sentence(answer), *record_sentences(held, answer.source)]).strip()
        if before
        else "",
    )


def start_of_new(answer: StartAnswer, at: datetime) -> JobStart:
    """What is shown of a job that isn't submitted: nothing was said of it before."""
    return replace(start_of(answer, at), text=" ".join(promise_sentences(answer, at)))


def promise_sentences(answer: StartAnswer, at: datetime) -> list[str]:
    """What the promise says about the time after `at`. A level whose time is over says nothing any more.

    "Within 5 minutes" replaces 50 % until these are over, and of other levels that say no more.
    """
    if answer.before is None:
        return []
    floor_at = answer.made_at + _FLOOR
    is_soon = answer.within_5_min is not None and at < floor_at
    shown = [_("Within 5 minutes: %(chance)s.") % {"chance": _chance(answer.within_5_min or 0.0)}] if is_soon else []
    over_at = floor_at if is_soon else at
    times = answer.before
    for i in range(1 if is_soon else 0, len(LEVELS)):
        time, chance = times[i], _chance(LEVELS[i])
        if time is None:
            shown.append(_("For %(chance)s: more than a week.") % {"chance": chance})
            break
        if time > over_at and time not in times[i + 1 :]:
            shown.append(_("Before %(time)s: %(chance)s.") % {"time": _time(time, at), "chance": chance})
    return shown or [_("The time of its last promise is over.")]


def basis_sentence(answer: StartAnswer) -> str:
    """What the promise is made of."""
    return str(_BASES[answer.basis]) % {"source": answer.source} if answer.basis in _BASES else ""


def past_queues_sentence(trees: LearnedTrees) -> str:
    """Whether past queues are a base of promises, and of how many jobs."""
    words = {"least": numbers.count(trees.least_jobs), "n": numbers.count(trees.jobs)}
    if trees.is_enough:
        return _("Past queues of %(n)s started jobs are one base of the promises.") % words
    return _("Past queues are no base yet: of %(least)s started jobs to learn from, %(n)s are known.") % words


def _note_text(answer: StartAnswer) -> str:
    if answer.note is not StartNote.LEARNING:
        return str(_NOTES[answer.note]) if answer.note else ""
    words = {"least": numbers.count(LEAST_FOR_QUANTILES), "n": numbers.count(answer.n_seen or 0)}
    if answer.n_seen is None:
        return _("No start is promised yet: it takes %(least)s starts to learn from.") % words
    if answer.n_seen >= LEAST_FOR_QUANTILES:  # since the last time that one could have been made
        return _("No start is promised yet: enough starts to learn from are known only now.")
    return _("No start is promised yet: of %(least)s starts to learn from, %(n)s are known.") % words


def record_sentences(held: HeldRecord, source: str = "") -> list[str]:
    """How often such promises held, and a warning where that is much less often than promised. source: of whose past
    jobs they would have been promises.
    """
    if held.share is None or not held.n:
        return [_("No such promise is settled yet.")]
    words = {"n": numbers.count(held.n), "days": numbers.count(held.days), "share": numbers.percent(held.share)}
    if held.n < LEAST_PROMISES_OF_RECORD:
        few = ngettext(
            "Only %(n)s such promise is settled yet, too few for a record.",
            "Only %(n)s such promises are settled yet, too few for a record.",
            held.n,
        )
        return [few % words]
    shown = [_("Of %(n)s such promises in %(days)s days %(share)s held.") % words]
    if source:
        shown = [_("Of %(n)s such promises for its jobs of %(days)s days %(share)s would have held.") % words]
    if held.is_low and held.recent_share is not None:
        shown.append(_("Of the latest only %(share)s held: rely on it less.") % {"share": _chance(held.recent_share)})
    return shown


def made_text(answer: StartAnswer, at: datetime) -> str:
    """Said at 12:00 CET; yesterday at 12:00 CET; on 27 Nov at 12:00 CET. In the zone of the page."""
    if answer.at_submit:
        return _("Said at submission.")
    words = {"time": numbers.clock_text(answer.made_at, "H:i"), "day": presentation.day(answer.made_at, at)}
    n_days = (timezone.localdate(at) - timezone.localdate(answer.made_at)).days
    if n_days > 1:
        return _("Said on %(day)s at %(time)s.") % words
    return (_("Said yesterday at %(time)s.") if n_days == 1 else _("Said at %(time)s.")) % words


def _first_text(answer: StartAnswer, at: datetime) -> str:
    """The first promise beside the current one; empty where they are the same."""
    first, before = answer.first, answer.before
    if first is None or (first.outcome is FirstOutcome.OPEN and (not before or before.p80 == first.before_80)):
        return ""
    current = before.p80 if before else None
    words = {
        "first": "" if first.before_80 is None else _time(first.before_80, at),
        "current": "" if current is None else _time(current, at),
    }
    is_ahead = current is not None and current > at
    if first.before_80 is None:
        return _("The first promise was more than a week; now before %(current)s.") % words if is_ahead else ""
    if first.outcome is FirstOutcome.KEPT:
        return _("The first promise was before %(first)s, and kept: it waits again.") % words
    if first.outcome is FirstOutcome.BROKEN:
        if is_ahead:
            return _("The first promise was before %(first)s, and broken; now before %(current)s.") % words
        if before and current is None:
            return _("The first promise was before %(first)s, and broken; now more than a week.") % words
        return _("The first promise was before %(first)s, and broken.") % words
    if current is None:
        return _("The first promise is before %(first)s; now more than a week.") % words
    return _("The first promise is before %(first)s; now before %(current)s.") % words


def _short(answer: StartAnswer, at: datetime) -> str:
    if answer.before is None:
        return str(_SHORT_NOTES[answer.note]) if answer.note in _SHORT_NOTES else numbers.UNKNOWN
    time = answer.before.p80
    if time is None:
        return _("more than a week")
    return _row_time(time, at) if time > at else _("overdue")


def _time(time: datetime, at: datetime) -> str:
    """In the zone of the page: 18:40 CET; on one of the next days Tue 14:00 CET; else 8 Dec, 14:00 CET."""
    return numbers.clock_text(time, "D H:i") if _is_soon(time, at) else presentation.clock_time(time, at)


def _row_time(time: datetime, at: datetime) -> str:
    """18:40, Tue 14:00 or 8 Dec, 14:00 in the zone of the page, which names it once."""
    here = timezone.localtime(time)
    return formats.date_format(here, "D H:i") if _is_soon(time, at) else presentation.time_in_list(time, at)


def _is_soon(time: datetime, at: datetime) -> bool:
    """Whether the name of the day alone says which day it is: after today, less than six days ahead."""
    is_today = timezone.localtime(time).date() == timezone.localtime(at).date()
    return not is_today and timedelta(0) < time - at < _DAYS_BY_NAME


def _chance(probability: float) -> str:
    """Whole percent; nothing is certain, so never 0 or 100."""
    shown = round(min(max(probability, 0.0), 1.0) * 100)
    if shown >= 100:
        return f">{numbers.percent(0.99, 0)}"
    return f"<{numbers.percent(0.01, 0)}" if shown <= 0 else numbers.percent(shown / 100, 0)
