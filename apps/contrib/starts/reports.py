"""Promises made and settled with each accepted report of an agent, in its transaction, in bounded work.

What became of a promise follows from when the job started, never from when that was seen: an agent that was away for a
day settles as one that never was. A deadline counts as passed CLOCK_SLACK after it, since the agent's clock may differ
from the scheduler's. What a report leaves undone, the next one does.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, F, Q, Value
from django.db.models.functions import Concat

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_state import QueueJob, QueueState
from apps.contrib.schedulers.wait_reasons import competes
from apps.contrib.starts.ends import End, ends_of
from apps.contrib.starts.learned import locked_state, readable_predictor
from apps.contrib.starts.learned_trees import readable_trees
from apps.contrib.starts.listed_facts import AskedJob, listed_facts
from apps.contrib.starts.models import Cause, Outcome, StartPromise, StartState
from apps.contrib.starts.planned_starts import PlannedJob, planned_starts
from apps.contrib.starts.prediction import saved
from apps.contrib.starts.prediction.bases import PLAN, TREES, Bounds, same_at_all_levels
from apps.contrib.starts.prediction.predictor import Predictor
from apps.contrib.starts.prediction.promises import FLOOR_S, LEVELS, WaitingJob, next_age_s
from apps.contrib.starts.prediction.queue_facts import FACTS, UNKNOWN_WAITS_S, Numbers, as_kept, packed
from apps.contrib.starts.prediction.soon import counter_of
from apps.contrib.starts.prediction.trees import waits_s
from apps.contrib.starts.promise_rows import events_of, learn, promise_of, settle_promise

MOST_MADE_OF_REPORT = 2_000
MOST_SETTLED_OF_REPORT = 5_000
CLOCK_SLACK = timedelta(minutes=2)
UNSEEN_AFTER = timedelta(hours=24)  # since a job was first missing: its record may come late
LEAST_OUT_SHARE = 0.10  # of a partition's nodes, drained or down since its promises were made
_UNKNOWN_CPUS = 1.0
_FLOOR = timedelta(seconds=FLOOR_S)
_CHANGED = (
    *("outcomes", "settled_in", "planned_outcome", "planned_in", "was_soon", "soon_in", "cause", "withdrawn_at"),
    *("left_at", "left_in", "has_started", "next_at", "due_at", "seen_at", "missed_at"),
)
_OPEN_COLUMNS = (
    *("pk", "job", "partition", "cpus", "limit_s", "submit_at", "since_at", "cause", "next_at", "seen_at"),
    "missed_at",
)


class _Open(NamedTuple):
    """The newest promise of a job that waits, as far as each report needs it."""

    pk: int
    job: str
    partition: str
    cpus: float
    limit_s: float | None
    submit_at: datetime | None
    since_at: datetime
    cause: str
    next_at: datetime
    seen_at: datetime | None
    missed_at: datetime | None


class _New(NamedTuple):
    """A promise that is due. listed, asked: its job as the agent lists it, and as promises know it."""

    key: str
    listed: QueueJob
    asked: WaitingJob
    since_at: datetime
    waited_s: float
    age_s: float
    is_first: bool


def take_queue(scheduler: Scheduler, before: QueueState | None, now: QueueState) -> None:
    """Settle what a listing shows to be settled, learn from it, and promise for jobs that are due.

    before: the listing before it, by which is known what has waited without competing. The caller holds the scheduler's
    row. A listing that isn't newer than the last one changes nothing.
    """
    state = locked_state(scheduler)
    if state.taken_at is None or now.taken_at > state.taken_at:
        _Report(scheduler, state, before, now).take()


def key_of(job: QueueJob) -> str:
    """Its number; tasks of an array have that of the array, since those that wait together are one job."""
    return (job.array or job.job)[:64]


@dataclass
class _Report:
    scheduler: Scheduler
    state: StartState
    before: QueueState | None
    now: QueueState
    waiting: dict[str, QueueJob] = field(default_factory=dict)
    starts: defaultdict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    submits: dict[str, datetime | None] = field(default_factory=dict)  # of running jobs
    arrays: set[str] = field(default_factory=set)
    cancelled: dict[str, datetime] = field(default_factory=dict)  # without a start; of arrays the last task

    def take(self) -> None:
        self.seq = self.state.seq + 1
        self.at = self.now.taken_at
        predictor = readable_predictor(self.state)
        for job in self.now.jobs:
            key = key_of(job)
            if job.array:
                self.arrays.add(key)
            if job.state != "waiting" and job.start_at is not None:
                self.starts[key].append(job.start_at)
                self.submits[key] = job.submit_at
        self.waiting = self._waiting_in(self.now.jobs)
        for ended in self.now.ended:
            key = (ended.array or ended.job)[:64]
            if ended.array:
                self.arrays.add(key)
            if ended.start_at is not None:
                self.starts[key].append(ended.start_at)
            elif ended.is_cancelled:
                self.cancelled[key] = max(ended.end_at, self.cancelled.get(key, ended.end_at))
        rows = StartPromise.objects.filter(scheduler=self.scheduler, next_at__isnull=False).values_list(*_OPEN_COLUMNS)
        is_open = {each.job: each for each in map(_Open._make, rows)}
        touched = self._ended(is_open)
        touched |= {row.pk: row for row in self._due(touched)}
        self._withdraw_altered(is_open, touched)
        events = sorted(event for row in touched.values() for event in events_of(row, after=self.seq - 1))
        for event in events:
            learn(predictor, event, touched[event.row])
        _store(touched.values())
        self._withdraw_for_nodes()
        self._promise(predictor, is_open)
        self.state.seq, self.state.taken_at = self.seq, self.at
        self.state.recent = {kind: [sum(recent), len(recent)] for kind, recent in predictor.recent.items()}
        self.state.data, self.state.digest = saved.save(predictor)
        self.state.save()

    def _ended(self, is_open: dict[str, _Open]) -> dict[int, StartPromise]:
        """Rows of jobs that left the queue, by how they left. Those of jobs in no list are marked."""
        ends: dict[str, End] = {}
        missing: list[_Open] = []
        back: list[str] = []
        for key, each in is_open.items():
            if (start_at := self._start_of(key, each)) is not None:
                ends[key] = End(start_at, has_started=True)
            elif key in self.waiting and not _is_same(each, self.waiting[key]):
                ends[key] = End(each.seen_at or self.state.taken_at or self.at, has_started=False, cause=Cause.UNSEEN)
            elif key in self.waiting:
                if each.seen_at is not None:
                    back.append(key)
            else:
                missing.append(each)
        self._mark(missing, back)
        last_seen = {each.job: (each.seen_at or self.state.taken_at or self.at) - CLOCK_SLACK for each in missing}
        since = {each.job: each.since_at for each in missing if each.job not in self.arrays}
        looked_up = ends_of(self.scheduler, since, last_seen)
        for each in missing:
            cancelled_at = self.cancelled.get(each.job)
            if (end := looked_up.get(each.job)) is not None:
                ends[each.job] = end
            elif cancelled_at is not None and cancelled_at >= each.since_at and self._lists_all(each.job):
                ends[each.job] = End(cancelled_at, has_started=False, cause=Cause.CANCELLED)
            elif not self.now.n_omitted and each.missed_at is not None and self.at - each.missed_at > UNSEEN_AFTER:
                ends[each.job] = End(last_seen[each.job], has_started=False, cause=Cause.UNSEEN)
        chosen = dict(sorted(ends.items())[:MOST_SETTLED_OF_REPORT])
        rows = StartPromise.objects.filter(scheduler=self.scheduler, job__in=list(chosen), left_at=None)
        touched = {row.pk: row for row in rows.order_by("pk")}
        for row in touched.values():
            end = chosen[row.job]
            row.left_at, row.has_started, row.left_in = max(end.at, row.since_at), end.has_started, self.seq
            row.next_at = None
            if end.cause and not row.cause and row.due_at is not None:
                settle_promise(row, self.seq, waited_until=end.at)
                row.cause, row.withdrawn_at = end.cause, self.at
            settle_promise(row, self.seq, waited_until=None)
        for key in {row.job for row in touched.values()}:
            del is_open[key]
        return touched

    def _lists_all(self, key: str) -> bool:
        """Whether what isn't listed doesn't wait: of an array of which a task was cancelled, others may be omitted."""
        return key not in self.arrays or not self.now.n_omitted

    def _start_of(self, key: str, each: _Open) -> datetime | None:
        """When it started; of an array, when its first task since this wait began did.

        A running job that was submitted later was queued again, or is another one with its number.
        """
        starts = self.starts.get(key)
        if not starts:
            return None
        if key in self.arrays:
            return min((start_at for start_at in starts if start_at >= each.since_at), default=None)
        submit_at = self.submits.get(key)
        if submit_at is not None and each.submit_at is not None and submit_at > each.submit_at + CLOCK_SLACK:
            return None
        is_of_earlier = max(starts) < each.since_at - CLOCK_SLACK  # before it was queued again
        return None if key in self.waiting or is_of_earlier else max(starts)

    def _mark(self, missing: Iterable[_Open], back: list[str]) -> None:
        gone = [each.job for each in missing if each.seen_at is None]
        waits = StartPromise.objects.filter(scheduler=self.scheduler, left_at=None)
        if gone:
            waits.filter(job__in=gone).update(seen_at=self.state.taken_at or self.at, missed_at=self.at)
        if back:
            waits.filter(job__in=back).update(seen_at=None, missed_at=None)

    def _due(self, touched: Mapping[int, StartPromise]) -> list[StartPromise]:
        """Rows of which a deadline has passed while the job waited for certain, settled."""
        until = self.at - CLOCK_SLACK
        rows = StartPromise.objects.filter(
            Q(seen_at=None, due_at__lte=until) | Q(due_at__lte=F("seen_at") - CLOCK_SLACK),
            scheduler=self.scheduler,
            due_at__lte=until,
        ).order_by("due_at", "pk")[:MOST_SETTLED_OF_REPORT]
        settled = []
        for row in rows:
            if row.pk not in touched and (row.seen_at is not None or row.job in self.waiting):
                settle_promise(row, self.seq, waited_until=until if row.seen_at is None else row.seen_at - CLOCK_SLACK)
                settled.append(row)
        return settled

    def _withdraw_altered(self, is_open: dict[str, _Open], touched: dict[int, StartPromise]) -> None:
        """Withdraw promises of jobs that changed or no longer compete; it is settled all the same, apart."""
        causes: dict[str, Cause] = {}
        for key, each in is_open.items():
            job = self.waiting.get(key)
            if job is None or each.cause:
                continue
            if self._is_held(job):
                causes[key] = Cause.HELD
            elif self._is_altered(job, each):
                causes[key] = Cause.ALTERED
            if len(causes) == MOST_SETTLED_OF_REPORT:
                break
        if not causes:
            return
        rows = StartPromise.objects.filter(scheduler=self.scheduler, job__in=list(causes), left_at=None, cause="")
        for stored in rows.order_by("pk"):
            row = touched.setdefault(stored.pk, stored)
            settle_promise(row, self.seq, waited_until=self.at - CLOCK_SLACK)
            if row.due_at is not None or row.next_at is not None:
                row.cause, row.withdrawn_at = causes[row.job], self.at
        for key, cause in causes.items():
            is_open[key] = is_open[key]._replace(cause=cause)

    def _withdraw_for_nodes(self) -> None:
        """Withdraw promises of partitions whose nodes were drained, went down, or were reserved since."""
        out, known = dict(self.state.nodes_out), set(self.state.reservations)
        for each in self.now.partitions:
            n_out = each.nodes_down + each.nodes_drained
            if each.name in out and n_out - out[each.name] >= max(LEAST_OUT_SHARE * each.nodes, 1):
                self._withdraw(Cause.DRAINED, each.name, self.at)
                out[each.name] = n_out
            out[each.name] = min(out.get(each.name, n_out), n_out)
        for reservation in self.now.reservations:
            if self.state.seq and reservation.name not in known and reservation.end_at > self.at:
                self._withdraw(Cause.RESERVED, reservation.partition, reservation.begin_at)
        self.state.nodes_out = out
        if self.now.has_reservations:
            self.state.reservations = sorted(each.name for each in self.now.reservations)

    def _withdraw(self, cause: Cause, partition: str, from_at: datetime) -> None:
        """Withdraw promises whose last deadline is behind an instant; partition: empty for all."""
        rows = StartPromise.objects.filter(scheduler=self.scheduler, left_at=None, cause="", due_at__isnull=False)
        if partition:  # a job may name several
            named = Concat(Value(","), F("partition"), Value(","))
            rows = rows.alias(named=named).filter(named__contains=f",{partition},")
        longest = ExpressionWrapper(F("bounds_s__2") * timedelta(seconds=1), output_field=DurationField())
        ends = ExpressionWrapper(F("made_at") + longest, output_field=DateTimeField())
        rows.filter(made_at__lt=self.at).alias(ends=ends).filter(ends__gt=from_at).update(
            cause=cause, withdrawn_at=self.at
        )

    def _promise(self, predictor: Predictor, is_open: Mapping[str, _Open]) -> None:
        first, again = [], []
        for key, job in self.waiting.items():
            if not self._may_start(job):
                continue
            each = is_open.get(key)
            if each is None:
                first.append((job.submit_at or self.at, key))
            elif each.cause or each.next_at <= self.at:
                again.append((each.next_at, key))
        due = [key for _at, key in (*sorted(first), *sorted(again))]
        if not due:
            return
        planned = planned_starts(self.now)
        chosen = [key for key in due if planned[self.waiting[key].job].never is None][:MOST_MADE_OF_REPORT]
        since = self._since([key for key in chosen if key not in is_open])
        made = []
        for key in chosen:
            each = is_open.get(key)
            made.append(self._asked(key, since[key] if each is None else each.since_at, is_first=each is None))
        facts = self._facts(predictor, planned, made)
        trees = readable_trees(self.scheduler, self.at) if made else None
        by_trees = None if trees is None else waits_s(trees, as_kept(facts)).tolist()
        n_waiting = Counter(job.partition for job in self.waiting.values())
        rows = []
        for place, new in enumerate(made):
            offered = same_at_all_levels(planned[new.listed.job].planned_s)
            if by_trees is not None:
                offered[TREES] = tuple(by_trees[place])
            row = self._row(predictor, new, n_waiting[new.listed.partition] > 1, offered)
            row.plan_s = planned[new.listed.job].planned_s.get(PLAN)
            row.facts = packed(facts[place])
            rows.append(row)
        StartPromise.objects.filter(pk__in=[is_open[key].pk for key in chosen if key in is_open]).update(next_at=None)
        for row in StartPromise.objects.bulk_create(rows, batch_size=1_000):
            predictor.count(promise_of(row))

    def _asked(self, key: str, since_at: datetime, *, is_first: bool) -> _New:
        job = self.waiting[key]
        waited_s = max((self.at - since_at).total_seconds(), 0.0)
        asked = WaitingJob(job.user, self._cpus(job), self._limit_s(job), job.partition)
        return _New(key, job, asked, since_at, waited_s, promise_age_s(waited_s), is_first)

    def _facts(self, predictor: Predictor, planned: Mapping[str, PlannedJob], made: list[_New]) -> Numbers:
        """Facts of the queue as each promise is made, (promises, facts)."""
        if not made:
            return np.empty((0, len(FACTS)))
        recent = (predictor.waits.quantiles(new.asked, new.age_s) or UNKNOWN_WAITS_S for new in made)
        asked = [AskedJob(new.listed, new.waited_s, recent_s) for new, recent_s in zip(made, recent, strict=True)]
        return listed_facts(self.now, planned, asked)

    def _row(self, predictor: Predictor, new: _New, others_wait: bool, offered: Mapping[str, Bounds]) -> StartPromise:
        job, asked, since_at = new.listed, new.asked, new.since_at
        estimated = predictor.estimate(asked, self.at.timestamp(), new.age_s, offered)
        bounds_s = [to_the_minute_s(self.at, bound_s) for bound_s in estimated.bounds_s]
        planned_s = None
        if job.planned_at is not None and job.planned_at > self.at - CLOCK_SLACK:
            planned_s = max((job.planned_at - self.at).total_seconds(), FLOOR_S)
        soon = None
        if new.is_first and new.waited_s < FLOOR_S:
            soon = predictor.soon.probability(counter_of(asked, others_wait=others_wait))
        deadlines = [*bounds_s, *([] if planned_s is None else [planned_s]), *([] if soon is None else [FLOOR_S])]
        return StartPromise(
            scheduler=self.scheduler,
            job=new.key,
            user=job.user,
            partition=job.partition,
            cpus=asked.cpus,
            limit_s=asked.limit_s,
            size=asked.size,
            length=asked.length,
            since_at=since_at,
            submit_at=job.submit_at,
            is_first=new.is_first,
            made_at=self.at,
            made_in=self.seq,
            age_s=new.age_s,
            basis=estimated.basis,
            bounds_s=bounds_s,
            offers=[[base, list(offer_s)] for base, offer_s in estimated.offers],
            outcomes=[Outcome.OPEN] * len(LEVELS),
            settled_in=[None] * len(LEVELS),
            planned_s=planned_s,
            soon=soon,
            others_wait=others_wait,
            next_at=since_at + timedelta(seconds=next_age_s(new.age_s)),
            due_at=self.at + timedelta(seconds=min(deadlines)),
        )

    def _since(self, keys: list[str]) -> dict[str, datetime]:
        """When the waits of jobs began that have no promise: at submission, or now if they have waited before.

        So begins the wait of a job that is queued again, or that was held or waited for others until now, and that of
        an array of which tasks run.
        """
        ended = set(
            StartPromise.objects.filter(scheduler=self.scheduler, job__in=keys, is_first=True).values_list(
                "job", "submit_at"
            )
        )
        listed = () if self.before is None or not keys else self.before.jobs
        barred = {key for key, job in self._waiting_in(listed).items() if not self._may_start(job)}
        since = {}
        for key in keys:
            submit_at = self.waiting[key].submit_at
            is_new = submit_at is not None and (key, submit_at) not in ended and key not in barred
            is_new = is_new and key not in self.starts
            since[key] = min(submit_at, self.at) if is_new and submit_at is not None else self.at
        return since

    def _waiting_in(self, jobs: Iterable[QueueJob]) -> dict[str, QueueJob]:
        """By number. Of an array whose tasks are listed apart, such as a held one or one that was queued again, those
        that may start, the first submitted.
        """
        waiting: dict[str, QueueJob] = {}
        for job in jobs:
            if job.state == "waiting":
                listed = waiting.setdefault(key_of(job), job)
                if listed is not job:
                    waiting[key_of(job)] = min(listed, job, key=self._goes_after)
        return waiting

    def _goes_after(self, job: QueueJob) -> tuple[bool, datetime]:
        return not self._may_start(job), job.submit_at or self.at

    def _may_start(self, job: QueueJob) -> bool:
        return competes(self.scheduler.kind, job.reason, with_one_of="") and not self._is_held(job)

    def _is_held(self, job: QueueJob) -> bool:
        return job.is_held or job.dependency or (job.begin_at is not None and job.begin_at > self.at + CLOCK_SLACK)

    def _is_altered(self, job: QueueJob, each: _Open) -> bool:
        has_other_limit = job.limit_s is not None and job.limit_s != each.limit_s
        return has_other_limit or (self._cpus(job), job.partition) != (each.cpus, each.partition)

    def _cpus(self, job: QueueJob) -> float:
        return job.cpus if math.isfinite(job.cpus) and job.cpus > 0 else _UNKNOWN_CPUS

    def _limit_s(self, job: QueueJob) -> float | None:
        """What it asks for, else the longest time of its partitions."""
        return self.now.longest_s(job)


def promise_age_s(waited_s: float) -> float:
    """The age at which a promise is made for a job that has waited so long: 0, 1, 2, 4, 8 … hours."""
    age_s = 0.0
    while next_age_s(age_s) <= waited_s:
        age_s = next_age_s(age_s)
    return age_s


def to_the_minute_s(made_at: datetime, bound_s: float) -> float:
    """A bound whose deadline is a full minute, as pages show it; "within 5 minutes" stays."""
    if bound_s <= FLOOR_S:
        return FLOOR_S
    made_s = made_at.timestamp()
    return math.ceil((made_s + bound_s) / 60) * 60 - made_s


def _is_same(each: _Open, job: QueueJob) -> bool:
    """Whether a waiting job is the one that was promised, and not another with its number."""
    return each.submit_at is None or job.submit_at is None or each.submit_at == job.submit_at


def _store(rows: Iterable[StartPromise]) -> None:
    chosen = list(rows)
    if chosen:
        StartPromise.objects.bulk_create(
            chosen, batch_size=1_000, update_conflicts=True, unique_fields=["id"], update_fields=_CHANGED
        )
