"""Answers about the start of jobs that wait, and of one like them: promises as they were made, never fresher numbers.

Who may see a job's answer is for the caller to decide: nobody sees the promise of a job that they may not see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from django.db.models import Q

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_table import STATES, QueueTable, load_queue
from apps.contrib.schedulers.selectors import SILENT_INTERVALS
from apps.contrib.schedulers.wait_reasons import reason_of
from apps.contrib.starts.answer import Before, FirstOutcome, FirstPromise, HeldRecord, StartAnswer, StartNote
from apps.contrib.starts.learned import predictor_of
from apps.contrib.starts.models import Cause, Outcome, StartPromise, StartState
from apps.contrib.starts.prediction.bases import is_learned
from apps.contrib.starts.prediction.promises import FLOOR_S, LEVELS, MORE_THAN_S, Kind, WaitingJob
from apps.contrib.starts.prediction.soon import counter_of
from apps.contrib.starts.promise_rows import deadline
from apps.core.blobs import CorruptBlob

AT_80 = LEVELS.index(0.80)
LEAST_RECENT_PROMISES = 100
DAYS_OF_RECORD = 90
_NO_PROMISE = {
    "held": StartNote.HELD,
    "error": StartNote.HELD,
    "dependency": StartNote.DEPENDENCY,
    "time": StartNote.BEGIN_TIME,
    "partition": StartNote.NEVER,
}
_OUTCOMES = {
    Outcome.KEPT: FirstOutcome.KEPT,
    Outcome.KEPT_APART: FirstOutcome.KEPT,
    Outcome.BROKEN: FirstOutcome.BROKEN,
    Outcome.BROKEN_APART: FirstOutcome.BROKEN,
}


def start_answers(scheduler: Scheduler, jobs: Sequence[str], *, at: datetime) -> dict[str, StartAnswer]:
    """Answers by job, of waiting jobs by their numbers (of a task `12_3`: that of its array), in two queries.

    Left out are jobs without a promise, unless it is known why they have none.
    """
    state = StartState.objects.filter(scheduler=scheduler).defer("data", "opening").first()
    if state is None or state.taken_at is None or not jobs:
        return {}
    rows = StartPromise.objects.filter(
        Q(is_first=True) | Q(next_at__isnull=False),
        scheduler=scheduler,
        job__in=list({_key(job) for job in jobs}),
        left_at=None,
    ).order_by("made_in")
    first: dict[str, StartPromise] = {}
    newest: dict[str, StartPromise] = {}
    for row in rows:
        newest[row.job] = row
        if row.is_first:
            first[row.job] = row
    table = load_queue(scheduler.pk)
    is_stale = _is_stale(scheduler, state.taken_at, at)
    answers = {}
    for job in jobs:
        key = _key(job)
        note = None if table is None else _why_none(scheduler, table, job)
        if (newest_row := newest.get(key)) is not None:
            first_row = first.get(key, newest_row)
            answers[job] = _answer(newest_row, first_row, state, note, is_stale=is_stale)
        elif note is not None:
            answers[job] = StartAnswer(None, None, state.taken_at, False, "", None, held_record(state, True), note)
    if any(answer.note is StartNote.LEARNING for answer in answers.values()):
        n_seen = _n_seen(state)
        for job, answer in answers.items():
            if answer.note is StartNote.LEARNING:
                answers[job] = answer._replace(n_seen=n_seen(newest[_key(job)].age_s))
    return answers


def start_answer_for_new(scheduler: Scheduler, job: WaitingJob, *, at: datetime) -> StartAnswer | None:
    """The answer about a job that is submitted now; None without a report of now. It makes no promise.

    It is that of jobs that a report sees waiting: those that start at once wait less.
    """
    state = StartState.objects.filter(scheduler=scheduler).first()
    if state is None or state.taken_at is None or _is_stale(scheduler, state.taken_at, at):
        return None
    record = held_record(state, True)
    try:
        predictor = predictor_of(state)
    except CorruptBlob:  # the next report makes it again
        return learning(state.taken_at, record, None)
    waits = StartPromise.objects.filter(scheduler=scheduler, next_at__isnull=False, partition=job.queue)
    estimated = predictor.estimate(job, state.taken_at.timestamp(), 0.0)
    if not is_learned(estimated.basis, estimated.offers):
        return learning(state.taken_at, record, predictor.waits.n_known(0.0))
    before = Before(*(before_at(state.taken_at, bound_s) for bound_s in estimated.bounds_s))
    soon = predictor.soon.probability(counter_of(job, others_wait=waits.exists()))
    return StartAnswer(soon, before, state.taken_at, True, estimated.basis, None, record, None)


def _is_stale(scheduler: Scheduler, taken_at: datetime, at: datetime) -> bool:
    """Whether the last report is old: the agent of a scheduler that is off may have been stopped long ago."""
    return at - taken_at > SILENT_INTERVALS * timedelta(seconds=scheduler.every_s)


def learning(at: datetime, held: HeldRecord, n_seen: int | None) -> StartAnswer:
    """No promise, since too few waits are known."""
    return StartAnswer(None, None, at, True, "", None, held, StartNote.LEARNING, n_seen)


def held_record(state: StartState, at_submit: bool) -> HeldRecord:
    """Of promises of 80 % made at submission, or of those made later. Few of them have no recent share yet."""
    kind = Kind.SUBMIT if at_submit else Kind.WAITING
    kept, n = state.held.get(kind, (0, 0))
    recent_kept, n_recent = state.recent.get(kind, (0, 0))
    recent_share = recent_kept / n_recent if n_recent >= LEAST_RECENT_PROMISES else None
    return HeldRecord(kept / n if n else None, n, DAYS_OF_RECORD, recent_share)


def _answer(
    row: StartPromise, first: StartPromise, state: StartState, note: StartNote | None, *, is_stale: bool
) -> StartAnswer:
    if note is None and not is_learned(row.basis, row.offers):
        note = StartNote.LEARNING
    at_submit = row.submit_at is not None and row.made_at - row.submit_at <= timedelta(seconds=FLOOR_S)
    before = None if note is not None else Before(*(before_at(row.made_at, bound_s) for bound_s in row.bounds_s))
    if note is None and row.cause in (Cause.DRAINED, Cause.RESERVED):
        note = StartNote.CAPACITY
    if note is None and is_stale:
        note = StartNote.STALE
    outcome = _OUTCOMES.get(Outcome(first.outcomes[AT_80]), FirstOutcome.OPEN)
    ends_at = deadline(first, AT_80)
    promised = (
        None
        if not is_learned(first.basis, first.offers)
        else FirstPromise(
            first.made_at,
            before_at(first.made_at, first.bounds_s[AT_80]),
            outcome,
            None if outcome is FirstOutcome.OPEN else min(ends_at, first.left_at or ends_at),
        )
    )
    soon = None if note is StartNote.LEARNING else row.soon
    return StartAnswer(
        soon, before, row.made_at, at_submit, row.basis, promised, held_record(state, row.age_s == 0), note
    )


def _n_seen(state: StartState) -> Callable[[float], int | None]:
    """By age of the promise, how many waits are known; None if what was learned can't be read."""
    try:
        predictor = predictor_of(state)
    except CorruptBlob:
        return lambda _age_s: None
    return predictor.waits.n_known


def before_at(made_at: datetime, bound_s: float) -> datetime | None:
    return None if bound_s >= MORE_THAN_S else made_at + timedelta(seconds=bound_s)


def _why_none(scheduler: Scheduler, table: QueueTable, job: str) -> StartNote | None:
    i = table.index_of(job)
    if i is None:
        return None
    is_held = STATES[int(table.state[i])] == "held"
    return _NO_PROMISE.get(reason_of(scheduler.kind, table.reason[i], is_held=is_held).key)


def _key(job: str) -> str:
    return job.partition("_")[0].partition("[")[0]
