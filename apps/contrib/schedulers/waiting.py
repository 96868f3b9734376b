"""Explain why a job waits: the scheduler's reason, the terms of its priority, the effect of fair share, and jobs
ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.accounts.actor import Actor
from apps.contrib.schedulers.job_starts import load_starts
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_table import STATES, TERMS, Term
from apps.contrib.schedulers.rank_use import RankUse, is_in_subtree, rank_use_message, use_of_rank
from apps.contrib.schedulers.selectors import QueuedJob, VisibleQueue, open_queue, views_of
from apps.contrib.schedulers.wait_reasons import Reason, competes, reason_of, with_place
from apps.core.errors import Conflict, FieldProblem, NotFound
from apps.explain.job_starts import JobStart
from apps.policies.selectors import list_policies
from apps.priorities.serving.lookup import AccountQuery

# Reasons for which an agent freezes.
FROZEN = {
    "snapshot_too_old": gettext_lazy("The priorities are too old."),
    "too_many_unmapped": gettext_lazy("Too many jobs are unmapped."),
    "too_many_changes": gettext_lazy("Too many jobs would change, and nothing explains it."),
    "order_lost": gettext_lazy("Most jobs would get the same value."),
    "scheduler_unreadable": gettext_lazy("The scheduler’s answer can’t be read."),
    "server_unreachable": gettext_lazy("This site didn’t answer the agent."),
}
_PENDING = STATES.index("pending")
Flags = npt.NDArray[np.bool_]
F8 = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class QueuedJobStart(QueuedJob):
    """A waiting job of a listing, and its start."""

    start: Annotated[JobStart | None, "When it starts, with a probability; null: not known"] = None


@dataclass(frozen=True, slots=True)
class TermPart:
    """A term of a priority. share: null for a term that lowers it or adds nothing."""

    name: Term
    value: Annotated[float, "Added to the priority; below 0 where it lowers it"]
    share: Annotated[float | None, "Of all that raises the priority"]
    is_fairshare: bool  # from the policy's priorities or the scheduler's own fair share


@dataclass(frozen=True, slots=True)
class GroupAhead:
    """Number of jobs ahead from one group."""

    path: Annotated[str, "Empty: groups that are not shown one by one"]
    jobs: int
    cpus: float


@dataclass(frozen=True, slots=True)
class PriorityPlace:
    """One of a job's priorities and its place by it. Empty names: the scheduler doesn't print them."""

    partition: str
    qos: str
    priority: float
    ahead: Annotated[int | None, "Jobs ahead in this partition by this priority; null: it is held"]
    is_best: Annotated[bool, "Whether it is the best, by which the jobs ahead are counted"]


@dataclass(frozen=True)
class Waiting:
    """A job and the jobs ahead of it; `ahead` is null if the scheduler reports no priority."""

    scheduler: str
    kind: str
    policy: str
    knob: str
    mode: str
    taken_at: datetime
    job: QueuedJob
    reason: Reason
    terms: tuple[TermPart, ...]
    priorities: Annotated[tuple[PriorityPlace, ...], "Best first, where the scheduler lists several; else empty"]
    priorities_text: Annotated[str, "Which of several priorities counts, as a sentence; empty: it has one"]
    counted_in: Annotated[str, "Partitions in which the jobs ahead are counted: those of its best priority"]
    ahead: Annotated[int | None, "Jobs that start before it by priority; null: it is held, or has no priority"]
    competing: Annotated[int | None, "Jobs that compete with it in its partition, itself included; null as `ahead`"]
    by_fairshare: Annotated[int | None, "Of these, ahead only because of fair share"]
    kept_behind: Annotated[int | None, "Jobs behind it only because of fair share"]
    ahead_text: Annotated[str, "The numbers of jobs ahead as a sentence; empty without them"]
    groups: tuple[GroupAhead, ...]
    fairshare_decides: bool
    factor: float | None
    rank: int | None
    of: int | None
    snapshot: int | None
    is_carried: Annotated[bool | None, "Whether the scheduler has the agent's value; null: not known"]
    rank_use: Annotated[RankUse, "Whether the scheduler orders this job by the policy's rank"]
    rank_use_text: Annotated[str, "The same as a sentence; empty: it does"]
    start: Annotated[JobStart | None, "When it starts, with a probability; null: not known"] = None


def find_waiting(*, job: str, at: datetime, actor: Actor, policy_slug: str = "", scheduler: str = "") -> Waiting:
    """Find a waiting job by its number, in the schedulers of one policy or of all.

    Raises:
        NotFound: no listing has it, or the actor may not see it.
        Conflict: several schedulers have a job with this number (`several_schedulers`); `fields` name them.
    """
    places = find_in_queues(job=job, at=at, actor=actor, policy_slug=policy_slug, scheduler=scheduler)
    if not places:
        raise NotFound(_("No listing has a waiting job %(job)s that you may see.") % {"job": job[:40]})
    if len(places) > 1:
        fields = [FieldProblem("scheduler", queue.scheduler.name) for queue, _i in places]
        names = ", ".join(each.message for each in fields)
        message = _("Several schedulers have a job of this number: name one of %(names)s.") % {"names": names}
        raise Conflict(message, code="several_schedulers", fields=fields)
    queue, i = places[0]
    waiting = explain_waiting(queue, i)
    number = waiting.job.number
    return replace(waiting, start=load_starts(queue.scheduler, [number], at=at).get(number))


def with_starts(queue: VisibleQueue, rows: Sequence[int], at: datetime) -> list[QueuedJobStart]:
    """Jobs of a listing by their indices, all of which the reader may see."""
    jobs = [queue.job(i) for i in rows]
    starts = load_starts(queue.scheduler, list(dict.fromkeys(job.number for job in jobs)), at=at)
    return [QueuedJobStart(**vars(job), start=starts.get(job.number)) for job in jobs]


def find_in_queues(
    *, job: str, at: datetime, actor: Actor, policy_slug: str = "", scheduler: str = ""
) -> list[tuple[VisibleQueue, int]]:
    """The listings with a job of this number that the actor may see, each with its index.

    What the actor may see is computed before the number is looked up: a hidden job takes as long as a missing one.
    """
    slugs = [policy.slug for policy in list_policies(actor=actor) if policy_slug in ("", policy.slug)]
    known = Scheduler.objects.select_related("policy").filter(policy__slug__in=slugs)
    places: list[tuple[VisibleQueue, int]] = []
    for each in known.filter(name=scheduler) if scheduler else known:
        try:
            queue = open_queue(each, at=at, actor=actor)
        except NotFound:
            continue
        i = None if queue is None else queue.table.index_of(job)
        if queue is not None and i is not None and queue.seen[i]:
            places.append((queue, i))
    return places


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A waiting job of a queue, with what holds it."""

    scheduler: str
    job: QueuedJob
    reason: Reason


@dataclass(frozen=True)
class PolicyQueue:
    """The waiting jobs of a policy's schedulers that a reader may see. n_jobs: of which `jobs` are the first.

    listed, unread: schedulers with the time of their last listing; an unread one's agent doesn't list it now.
    """

    jobs: Sequence[ListedJob]
    n_jobs: int
    listed: Sequence[tuple[str, datetime | None]]
    unread: Sequence[tuple[str, datetime | None]]


def list_waiting(*, policy_slug: str, at: datetime, actor: Actor, limit: int) -> PolicyQueue:
    """The first waiting jobs of a policy that the actor may see: by scheduler, in the order in which it starts them."""
    jobs: list[ListedJob] = []
    n_jobs = 0
    listed: list[tuple[str, datetime | None]] = []
    unread: list[tuple[str, datetime | None]] = []
    slugs = [policy.slug for policy in list_policies(actor=actor) if policy.slug == policy_slug]
    for view in views_of(Scheduler.objects.select_related("policy").filter(policy__slug__in=slugs), at):
        if not view.has_begun:
            continue
        try:
            queue = open_queue(view.scheduler, at=at, actor=actor)
        except NotFound:
            continue
        if queue is not None or not view.lists_queue:
            where = listed if view.lists_queue else unread
            where.append((view.scheduler.name, None if queue is None else queue.table.taken_at))
        if queue is not None:
            visible = starting_order(queue, np.flatnonzero(queue.seen), queue.table.priority)
            n_jobs += len(visible)
            jobs += [_listed_job(queue, i) for i in visible[: limit - len(jobs)].tolist()]
    return PolicyQueue(jobs, n_jobs, listed, unread)


def _listed_job(queue: VisibleQueue, i: int) -> ListedJob:
    job = queue.job(i)
    return ListedJob(
        queue.scheduler.name, job, reason_of(queue.scheduler.kind, job.reason, is_held=job.state == "held")
    )


def starting_order(queue: VisibleQueue, rows: Rows, priority: npt.NDArray[np.float64]) -> Rows:
    """These jobs as the scheduler starts them, held ones last. priority: of every job of the table.

    Of equal priority Slurm takes the lower job number first, Grid Engine the earlier submission.
    """
    table = queue.table
    ties: list[Any] = [rows, table.number[rows]]
    if queue.scheduler.kind == Scheduler.Kind.GRIDENGINE:
        ties.append(table.submit_us[rows])
    first = -np.nan_to_num(priority[rows], nan=-np.inf)
    return rows[np.lexsort((*ties, first, held_jobs(queue)[rows]))]


def explain_waiting(queue: VisibleQueue, i: int) -> Waiting:
    """Explain the job at an index of the listing, which the reader may see."""
    table, scheduler = queue.table, queue.scheduler
    job = queue.job(i)
    reason = reason_of(scheduler.kind, job.reason, is_held=job.state == "held")
    ahead = _jobs_ahead(queue, i)
    fair = fair_share_part(queue, i)
    by_fairshare = kept_behind = None
    rivals = _competing_jobs(queue, i)
    counted_in = table.best_partitions(i)
    if ahead is not None and fair is not None:
        without = _starts_before(queue, table.priority_in(counted_in.split(",")) - fair, i)
        by_fairshare = int((ahead & ~without).sum())
        kept_behind = int((rivals & ~ahead & without).sum())
    n_ahead = None if ahead is None else int(ahead.sum())
    shown = priority_of(queue, int(table.account[i]))
    is_inside = is_in_subtree(queue, int(queue.entry[table.account[i]]))
    use_message = rank_use_message(scheduler, job.partition, is_inside=is_inside)
    assert table.taken_at is not None  # noqa: S101 - it is stored
    return Waiting(
        scheduler=scheduler.name,
        kind=scheduler.kind,
        policy=scheduler.policy.slug,
        knob=scheduler.knob,
        mode=scheduler.mode,
        taken_at=table.taken_at,
        job=job,
        reason=with_place(reason, n_ahead),
        terms=_terms(job, scheduler.knob),
        priorities=tuple(_places(queue, i)),
        priorities_text=_priorities_text(queue, i),
        counted_in=counted_in,
        ahead=n_ahead,
        competing=None if ahead is None else int(rivals.sum()) + 1,
        by_fairshare=by_fairshare,
        kept_behind=kept_behind,
        ahead_text=_ahead_text(n_ahead, by_fairshare if reason.is_order else None, counted_in),
        groups=() if ahead is None else tuple(_groups(queue, ahead)),
        fairshare_decides=reason.is_order and bool(by_fairshare or kept_behind),
        **shown,
        is_carried=_is_carried(job, scheduler),
        rank_use=use_of_rank(scheduler, job.partition, is_inside=is_inside),
        rank_use_text="" if use_message is None else use_message.text,
    )


def _ahead_text(ahead: int | None, by_fairshare: int | None, partition: str) -> str:
    if ahead is None:
        return ""
    values = {"n": f"{ahead:,}", "partition": partition, "fair": f"{by_fairshare or 0:,}"}
    if not ahead:
        return _("No job is ahead of it.")
    text = ngettext("%(n)s job ahead in %(partition)s.", "%(n)s jobs ahead in %(partition)s.", ahead)
    if by_fairshare is not None:
        text = ngettext(
            "%(n)s job ahead in %(partition)s (%(fair)s because of fair share).",
            "%(n)s jobs ahead in %(partition)s (%(fair)s because of fair share).",
            ahead,
        )
    return text % values


def _competing_jobs(queue: VisibleQueue, i: int) -> Flags:
    """Mask of the jobs that compete with this one."""
    here = competing_jobs(queue, queue.table.best_partitions(i), queue.table.reason[i])
    here[i] = False
    return here


def competing_jobs(queue: VisibleQueue, partition: str, reason: str) -> Flags:
    """Mask of jobs in one of these partitions that take what a job with this reason waits for, by the order of jobs.

    Not among them: held jobs (also with Slurm's priority 0), jobs whose begin time is in the future, and jobs whose
    reason lets others pass (`wait_reasons`).
    """
    table, kind, own = queue.table, queue.scheduler.kind, set(partition.split(","))
    shares = {text: bool(own & set(text.split(","))) for text in set(table.partition)}
    rivals = {code: competes(kind, code, with_one_of=reason) for code in set(table.reason)}
    here: Flags = np.array([shares[text] for text in table.partition], np.bool_) & ~held_jobs(queue)
    here &= np.array([rivals[code] for code in table.reason], np.bool_)
    if table.taken_at is not None:
        here &= table.eligible_us <= round(table.taken_at.timestamp() * 1e6)
    return here


def held_jobs(queue: VisibleQueue) -> Flags:
    """Mask of the jobs that no order starts: held by user or operator, also with Slurm's priority 0."""
    held: Flags = queue.table.state != _PENDING
    return held | (queue.table.priority == 0) if queue.scheduler.kind == Scheduler.Kind.SLURM else held


def _jobs_ahead(queue: VisibleQueue, i: int) -> Flags | None:
    """Mask of the jobs ahead; None if this job is held, or the scheduler reports no priority for it."""
    if np.isnan(queue.table.priority[i]) or held_jobs(queue)[i]:
        return None
    values = queue.table.priority_in(queue.table.best_partitions(i).split(","))
    ahead: Flags = _competing_jobs(queue, i) & _starts_before(queue, values, i)
    return ahead


def _places(queue: VisibleQueue, i: int) -> Iterator[PriorityPlace]:
    """The job's place by each of its priorities: each partition has a queue of its own, in which others wait, too."""
    table, is_held = queue.table, bool(held_jobs(queue)[i])
    for each in table.priorities.get(i, ()):
        ahead = None
        if not is_held:
            partition = each.partition or table.partition[i]
            values = table.priority_in(partition.split(","))
            values[i] = each.priority
            rivals = competing_jobs(queue, partition, table.reason[i])
            rivals[i] = False
            ahead = int((rivals & _starts_before(queue, values, i)).sum())
        yield PriorityPlace(each.partition, each.qos, each.priority, ahead, each.priority == table.priority[i])


def _priorities_text(queue: VisibleQueue, i: int) -> str:
    table = queue.table
    listed = table.priorities.get(i, ())
    if not listed:
        asks_several = "," in table.partition[i] or "," in table.qos[i]
        if not asks_several or queue.scheduler.kind != Scheduler.Kind.SLURM or held_jobs(queue)[i]:
            return ""
        return _("It asks for several partitions or QOS, and the scheduler lists one priority for all.")
    n = {"n": f"{len(listed):,}"}
    best = [each for each in listed if each.priority == listed[0].priority]
    if len(best) == len(listed):
        return _("It has %(n)s priorities, all equal.") % n
    where = [_("%(partition)s with QOS %(qos)s") if each.qos else "%(partition)s" for each in best]
    names = [text % {"partition": each.partition, "qos": each.qos} for text, each in zip(where, best, strict=True)]
    return _("The best of its %(n)s priorities counts here: %(where)s.") % {**n, "where": ", ".join(names)}


def _starts_before(queue: VisibleQueue, values: npt.NDArray[np.float64], i: int) -> Flags:
    """Mask of jobs with a higher value, and of those of equal value that the scheduler takes first.

    Slurm takes the lower job number (job_scheduler.c, sort_job_queue2), Grid Engine the earlier submission.
    """
    table = queue.table
    before: Flags = table.number < table.number[i]
    if queue.scheduler.kind == Scheduler.Kind.GRIDENGINE:
        submitted = table.submit_us
        before = (submitted < submitted[i]) | ((submitted == submitted[i]) & before)
    first: Flags = (values > values[i]) | ((values == values[i]) & before)
    return first


def fair_share_part(queue: VisibleQueue, i: int) -> npt.NDArray[np.float64] | None:
    """The part of each job's priority that fair share contributes; None if the scheduler doesn't report this job's."""
    terms, knob = queue.table.terms, queue.scheduler.knob
    if knob in ("priority", "priority_factor"):
        return queue.table.priority
    if np.isnan(terms[i]).all():
        return None
    signs = np.array([(-1.0 if name == "nice" else 1.0) * (name in _fair_names(knob)) for name in TERMS])
    fair: npt.NDArray[np.float64] = np.nan_to_num(terms) @ signs
    return fair


def _fair_names(knob: str) -> set[str]:
    own = {"sitefactor": {"site"}, "override_tickets": {"site"}, "nice": {"nice"}}
    return {"fairshare"} | own.get(knob, set())


def _terms(job: QueuedJob, knob: str) -> tuple[TermPart, ...]:
    """Terms of a job's priority, largest first. A positive nice lowers the priority, a negative one raises it."""
    if job.terms is None:
        return ()
    signed = {name: -value if name == "nice" else value for name, value in job.terms.items()}
    total = sum(value for value in signed.values() if value > 0)
    parts = [
        TermPart(name, value + 0.0, value / total if value > 0 else None, name in _fair_names(knob))
        for name, value in signed.items()
    ]
    return tuple(sorted(parts, key=lambda part: -part.value))


def _groups(queue: VisibleQueue, ahead: Flags) -> Sequence[GroupAhead]:
    """Jobs ahead by the parent group of each job's entry.

    Groups with fewer users than the site shows are merged, and further ones until the rest is large enough, so that no
    difference of two counts concerns a single person.
    """
    users: dict[str, set[int]] = {}
    jobs: dict[str, list[float]] = {}
    for account, cpus in zip(
        queue.table.account[ahead].tolist(), np.nan_to_num(queue.table.cpus[ahead]).tolist(), strict=True
    ):
        path, is_open = _group_of(queue, account)
        key = path if is_open else f"?{path}"
        users.setdefault(key, set()).add(account)
        row = jobs.setdefault(key, [0, 0.0])
        row[0] += 1
        row[1] += cpus
    least = int(settings.FAIRSHARE_SMALLEST_GROUP)
    shut = {key for key in jobs if key in ("", "?") or (key.startswith("?") and len(users[key]) < least)}
    countable = sorted((key for key in jobs if key.startswith("?") and key not in shut), key=lambda key: jobs[key][0])
    while shut and sum(len(users[key]) for key in shut) < least and countable:
        shut.add(countable.pop(0))
    shown = [GroupAhead(key.lstrip("?"), int(row[0]), row[1]) for key, row in jobs.items() if key not in shut]
    shown.sort(key=lambda group: (-group.jobs, group.path))
    if shut:
        n, cpus = (sum(jobs[key][k] for key in shut) for k in (0, 1))
        shown.append(GroupAhead("", int(n), cpus))
    return shown


def _group_of(queue: VisibleQueue, account: int) -> tuple[str, bool]:
    """Path of a group, "" if the reader may not see the entry, and whether the reader may see its numbers."""
    entry = int(queue.entry[account])
    if entry < 0 or queue.snapshot is None:
        return "", queue.readable is None
    tree = queue.snapshot.tree
    group = entry if tree.is_group[entry] or not entry else int(tree.parent[entry])
    if queue.names is not None and not queue.names[group]:
        return "", False
    return queue.snapshot.index.path(group), queue.readable is None or bool(queue.readable[group])


def priority_of(queue: VisibleQueue, account: int) -> dict[str, Any]:
    """Factor and rank of an account's entry, which the reader may see along with its job; null if unmapped."""
    nothing = {"factor": None, "rank": None, "of": None, "snapshot": None}
    entry, snapshot = int(queue.entry[account]), queue.snapshot
    if entry < 0 or snapshot is None:
        return nothing
    user, group = queue.table.accounts[account]
    partition = queue.table.partition_of_account.get(account, "")
    query = AccountQuery(user, group, queue.scheduler.namespace, partition=partition)
    result = snapshot.lookup([query])[0]  # the best ranked first
    return {
        "factor": result["factor"],
        "rank": result.get("rank"),
        "of": result.get("of"),
        "snapshot": snapshot.snapshot_id,
    }


def _is_carried(job: QueuedJob, scheduler: Scheduler) -> bool | None:
    if job.value is None or job.terms is None or scheduler.knob not in ("sitefactor", "nice"):
        return None
    has = job.terms["site" if scheduler.knob == "sitefactor" else "nice"]
    return abs(has - job.value) < scheduler.step
