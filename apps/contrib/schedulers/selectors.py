"""Queries for schedulers: state, orders, passes, queue, agreement and shares, limited to what the actor may read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import numpy as np
from django.db.models import QuerySet, Sum

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.contrib.schedulers.agreement import entries_of
from apps.contrib.schedulers.limit_orders import limit_order_of, order_tag
from apps.contrib.schedulers.models import AgentPass, Agreement, QueueListing, Scheduler, SchedulerValues, ShareOrder
from apps.contrib.schedulers.orders import orders_of, share_order_of, tag_of
from apps.contrib.schedulers.own_values import load_values
from apps.contrib.schedulers.permissions import (
    READ,
    find_scheduler,
    may_read,
    no_scheduler,
    require_agent,
    require_reach,
    require_read,
)
from apps.contrib.schedulers.queue_table import STATES, TERMS, JobState, QueueTable, Term, load_queue
from apps.contrib.schedulers.records import AgreementDays, AgreementPoint
from apps.contrib.schedulers.shadow_differences import Comparison, Ours, compare
from apps.contrib.schedulers.share_difference import ShareDifference, compare_shares
from apps.contrib.schedulers.share_listing import ListedShares, load_listing
from apps.core.errors import NotFound, Unavailable
from apps.mapping.permissions import own_keys
from apps.policies.access.managers import manages
from apps.policies.selectors import get_policy, list_policies
from apps.policies.tree.columns import Mask
from apps.policies.tree.difference import number_or_none
from apps.policies.tree.stored import load_tree
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery, Readable
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visible_entries import readable_now, visible_in
from apps.usage.parsers.base import instant

SILENT_INTERVALS = 3
State = Literal["off", "new", "silent", "frozen", "resetting", "reset", "paused", "failing", "running"]
MOST_LISTED_JOBS = 1_000
MOST_HISTORY_POINTS = 2_000
_AGREEMENT_AGE = timedelta(days=1)
MOST_ORDERS = 100


@dataclass(frozen=True)
class SchedulerView:
    """A scheduler with the last pass of its agent, and the state derived from both."""

    scheduler: Scheduler
    last: AgentPass | None
    at: datetime

    @property
    def age_s(self) -> float | None:
        """Seconds since the last report was received; None if there was none."""
        return None if self.last is None else max((self.at - self.last.received_at) / timedelta(seconds=1), 0.0)

    @property
    def has_begun(self) -> bool:
        """Whether its agent has ever reported: before, nothing about it is news to users."""
        return self.last is not None

    @property
    def is_silent(self) -> bool:
        """Whether no report was received for three intervals; never for a scheduler that is off."""
        if self.scheduler.mode == Scheduler.Mode.OFF:
            return False
        since_at = self.last.received_at if self.last else self.scheduler.changed_at
        return self.at - since_at > SILENT_INTERVALS * timedelta(seconds=self.scheduler.every_s)

    @property
    def lists_queue(self) -> bool:
        """Whether its agent lists the queue now; also for one that is off or hasn't reported for less than that."""
        return not self.is_silent and (self.last is None or self.last.frozen_code != "scheduler_unreadable")

    @property
    def state(self) -> State:
        scheduler, last = self.scheduler, self.last
        if scheduler.mode == Scheduler.Mode.OFF and not scheduler.is_reset_requested:
            return "off"
        if last is None:
            return "new"
        if self.is_silent:
            return "silent"
        if scheduler.is_reset_requested:
            is_done = last.orders_revision >= scheduler.revision and not last.failed
            return "reset" if is_done else "resetting"
        if scheduler.is_paused:
            return "paused"
        if last.frozen_code:
            return "frozen"
        return "failing" if last.failed else "running"


def list_schedulers(*, at: datetime, actor: Actor) -> list[SchedulerView]:
    """Schedulers of the policies that the actor manages, by name."""
    managed = [policy for policy in list_policies(actor=actor) if manages(policy, actor, at)]
    schedulers = Scheduler.objects.select_related("policy").filter(policy__in=managed)
    return views_of([scheduler for scheduler in schedulers if may_read(scheduler, actor, at)], at)


def views_of(schedulers: Iterable[Scheduler], at: datetime) -> list[SchedulerView]:
    """Views of schedulers, loading the last passes with one query."""
    chosen = list(schedulers)
    newest = AgentPass.objects.filter(scheduler__in=chosen).order_by("scheduler_id", "-id").distinct("scheduler_id")
    last = {agent_pass.scheduler_id: agent_pass for agent_pass in newest}
    return [SchedulerView(scheduler, last.get(scheduler.pk), at) for scheduler in chosen]


def get_scheduler(*, name: str, at: datetime, actor: Actor) -> SchedulerView:
    """A scheduler of a policy that the actor manages.

    Raises:
        NotFound: there is none, or the actor doesn't manage its policy.
        Archived: its policy is archived.
    """
    scheduler = find_scheduler(name)
    require_read(scheduler, actor, at)
    _refuse_archived(scheduler, actor)
    return views_of([scheduler], at)[0]


def newest_pass(scheduler: Scheduler) -> AgentPass | None:
    return AgentPass.objects.filter(scheduler=scheduler).order_by("-id").first()


def get_orders(*, name: str, at: datetime, actor: Actor) -> tuple[dict[str, Any], str]:
    """Orders for the agent, and their version tag."""
    scheduler = find_scheduler(name)
    require_agent(scheduler, actor, at)
    _refuse_archived(scheduler, actor)
    share_order, of_shares = share_order_of(scheduler)
    limit_order = limit_order_of(scheduler, at)
    orders = {**orders_of(scheduler), "share_order": share_order, "limit_order": limit_order}
    return orders, tag_of(scheduler) + of_shares + order_tag(limit_order)


def list_passes(*, name: str, at: datetime, actor: Actor, before_id: int | None = None, limit: int) -> list[AgentPass]:
    """Passes of a scheduler, newest first."""
    view = get_scheduler(name=name, at=at, actor=actor)
    passes: QuerySet[AgentPass] = AgentPass.objects.filter(scheduler=view.scheduler).order_by("-id")
    if before_id is not None:
        passes = passes.filter(pk__lt=before_id)
    return list(passes[: min(limit, 500)])


@dataclass(frozen=True)
class QueuedJob:
    """A waiting job. Numbers are null if the scheduler reports none."""

    job: str
    array_task: str | None
    user: str
    group: str
    partition: str
    qos: str
    cpus: float | None
    submit_at: datetime | None
    eligible_at: datetime | None
    state: JobState
    reason: str
    priority: float | None
    terms: dict[Term, float] | None
    value: Annotated[float | None, "Computed by the agent"]
    entry: Annotated[str, "Path; empty while unmapped"]

    @property
    def number(self) -> str:
        """With the tasks that are listed together: `12_4-9`."""
        return f"{self.job}_{self.array_task}" if self.array_task else self.job


@dataclass(frozen=True, eq=False)
class VisibleQueue:
    """A scheduler's last listing with the visibility for one reader. seen: jobs that the reader may see."""

    scheduler: Scheduler
    table: QueueTable
    snapshot: ServedSnapshot | None
    entry: np.ndarray[Any, np.dtype[np.int64]]  # entry of each account of the table; -1: unmapped or ambiguous
    seen: Mask  # per job
    readable: Mask | None  # entries whose current numbers the reader may see; None: all
    names: Mask | None  # entries that the reader may see at all; None: all

    def job(self, i: int) -> QueuedJob:
        table, account = self.table, int(self.table.account[i])
        user, group = table.accounts[account]
        terms = table.terms[i]
        return QueuedJob(
            job=table.job[i],
            array_task=table.array_task[i] or None,
            user=user,
            group=group,
            partition=table.partition[i],
            qos=table.qos[i],
            cpus=number_or_none(table.cpus[i]),
            submit_at=instant(int(table.submit_us[i])),
            eligible_at=instant(int(table.eligible_us[i])),
            state=STATES[int(table.state[i])],
            reason=table.reason[i],
            priority=number_or_none(table.priority[i]),
            terms=None if np.isnan(terms).all() else dict(zip(TERMS, np.nan_to_num(terms).tolist(), strict=True)),
            value=number_or_none(table.value[i]),
            entry=self.path(account),
        )

    def path(self, account: int) -> str:
        entry = int(self.entry[account])
        return "" if entry < 0 or self.snapshot is None else self.snapshot.index.path(entry)


def list_queue(
    *,
    name: str,
    at: datetime,
    actor: Actor,
    user: str = "",
    partition: str = "",
    after: int = -1,
    limit: int = 100,
) -> tuple[VisibleQueue | None, list[int]]:
    """The last listing and indices of the jobs in it that the actor may see; None before the first listing."""
    queue = open_queue(find_scheduler(name), at=at, actor=actor)
    if queue is None:
        return None, []
    chosen = queue.seen.copy()
    if user:
        is_of_user = np.array([account[0] == user for account in queue.table.accounts], np.bool_)
        chosen &= is_of_user[queue.table.account] if len(is_of_user) else False
    if partition:
        chosen &= np.array([job_partition == partition for job_partition in queue.table.partition], np.bool_)
    rows = np.flatnonzero(chosen)
    return queue, rows[rows > after][: min(limit, MOST_LISTED_JOBS)].tolist()


def count_listed_jobs(visitor: Any) -> int:
    """Waiting jobs that the schedulers of the visitor's policy listed last, for its managers; 0 for others.

    visitor: with actor, at and policy.
    """
    policy = visitor.policy
    if policy is None or not (manages(policy, visitor.actor, visitor.at) and visitor.actor.has_scope(READ)):
        return 0
    jobs = QueueListing.objects.filter(scheduler__policy=policy).aggregate(n=Sum("n_jobs"))
    return int(jobs["n"] or 0)


def open_queue(scheduler: Scheduler, *, at: datetime, actor: Actor) -> VisibleQueue | None:
    """The last listing of a scheduler with its visibility for the actor; None before the first listing.

    Visible are jobs of entries whose current numbers the actor may see, as for look-ups; own jobs are among them. Jobs
    of unmapped accounts are visible to managers of the policy and to the owner of the account.

    Raises:
        NotFound: the actor may see no entry of the policy, or the token is bound to another scheduler.
    """
    require_reach(scheduler.name, actor)
    scope = READ if actor.has_scope(READ) else Token.Scope.SELF_READ.value
    policy = get_policy(slug=scheduler.policy.slug, actor=actor, scope=scope)
    rules = manages(policy, actor, at) and actor.has_scope(READ)
    try:
        snapshot: ServedSnapshot | None = store.newest(policy.slug)
    except (NotFound, Unavailable):
        snapshot = None
    readable, names = None, None
    if not rules:
        if snapshot is None:
            raise no_scheduler(scheduler.name)
        names = visible_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
        if not names.any():
            raise no_scheduler(scheduler.name)
        readable = readable_now(policy=policy, snapshot=snapshot, at=at, actor=actor)
    table = load_queue(scheduler.pk)
    if table is None:
        return None
    if snapshot is not None:
        table = table.by_partition(snapshot.index.named.partitions_of)
    entry = _entries(table, snapshot, scheduler.namespace)
    return VisibleQueue(
        scheduler,
        table,
        snapshot,
        entry,
        _seen(table, entry, readable, scheduler, actor),
        None if readable is None else readable.entries,
        names,
    )


def _entries(table: QueueTable, snapshot: ServedSnapshot | None, namespace: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Entry of each account, as look-ups return it: the best ranked of several; −1 if unmapped."""
    entries = np.full(len(table.accounts), -1, np.int64)
    if snapshot is None:
        return entries
    rank = np.where(snapshot.values.has_rank, snapshot.values.rank, np.inf)
    for i, (user, group) in enumerate(table.accounts):
        partition = table.partition_of_account.get(i, "")
        matches = snapshot.index.find_certain(AccountQuery(user, group, namespace, partition=partition))
        if matches:
            entries[i] = min(matches, key=lambda entry: (rank[entry], -snapshot.values.factor[entry]))
    return entries


def _seen(
    table: QueueTable,
    entry: np.ndarray[Any, np.dtype[np.int64]],
    readable: Readable | None,
    scheduler: Scheduler,
    actor: Actor,
) -> Mask:
    if readable is None:
        return np.ones(len(table), np.bool_)
    seen = np.zeros(len(table.accounts), np.bool_)
    mapped = entry >= 0
    seen[mapped] = readable.entries[entry[mapped]]
    names = readable.names
    for i in np.flatnonzero(seen).tolist() if names is not None else ():
        user, group = table.accounts[i]
        seen[i] = names is None or names.includes(AccountKey(scheduler.namespace, user, group), int(entry[i]))
    own = {
        key.user_name
        for key in own_keys(actor)
        if key.user_name and scheduler.namespace and key.namespace == scheduler.namespace
    }
    for i in np.flatnonzero(~mapped).tolist() if own and actor.has_scope(Token.Scope.SELF_READ) else ():
        seen[i] = table.accounts[i][0] in own
    return seen[table.account] if len(seen) else np.zeros(len(table), np.bool_)


def _refuse_archived(scheduler: Scheduler, actor: Actor) -> None:
    scopes = (READ, Token.Scope.POLICIES_WRITE.value, Token.Scope.SCHEDULERS.value)
    scope = next((scope for scope in scopes if actor.has_scope(scope)), READ)
    get_policy(slug=scheduler.policy.slug, actor=actor, scope=scope)


@dataclass(frozen=True)
class Shadow:
    """Result of shadow mode. comparison: None if the agent has not listed values, or without a snapshot."""

    scheduler: Scheduler
    taken_at: datetime | None
    comparison: Comparison | None


def get_shadow(*, name: str, at: datetime, actor: Actor) -> Shadow:
    """Compare the scheduler's last values with the newest snapshot; for managers of the policy."""
    scheduler = get_scheduler(name=name, at=at, actor=actor).scheduler
    taken_at = SchedulerValues.objects.filter(scheduler=scheduler).values_list("taken_at", flat=True).first()
    if taken_at is None:
        return Shadow(scheduler, None, None)
    try:
        snapshot = store.newest(scheduler.policy.slug)
    except (NotFound, Unavailable):
        return Shadow(scheduler, taken_at, None)
    rows, values = load_values(scheduler.pk), snapshot.values
    ours = Ours(
        snapshot.tree.engine_tree(),
        {key: value for key, value in snapshot.algorithm.items() if key != "factor_from"},
        np.asarray(values.factor, np.float64),
        np.asarray(values.has_factor, np.bool_),
        np.asarray(values.usage, np.float64),
    )
    return Shadow(scheduler, taken_at, compare(rows, ours, entries_of(rows, snapshot, scheduler.namespace)))


def newest_tau(scheduler: Scheduler, at: datetime) -> float | None:
    """Kendall's tau of the newest agreement of the last day; None without one, or undefined."""
    recent = Agreement.objects.filter(scheduler=scheduler, at__gt=at - _AGREEMENT_AGE).order_by("-at")
    tau: float | None = recent.values_list("kendall", flat=True).first()
    return tau


def list_agreement(*, name: str, n_days: int, at: datetime, actor: Actor) -> AgreementDays:
    """Agreement over the last days. Of more than 2,000 points, evenly spaced ones are returned, with the last."""
    scheduler = get_scheduler(name=name, at=at, actor=actor).scheduler
    agreements = Agreement.objects.filter(scheduler=scheduler, at__gt=at - timedelta(days=n_days)).order_by("at")
    rows = list(agreements.values_list("at", "compared", "kendall", "spearman", "top_overlap"))
    step = -(-len(rows) // MOST_HISTORY_POINTS) or 1
    points = [AgreementPoint(*row) for row in rows[::-1][::step][::-1]]
    return AgreementDays(scheduler.name, scheduler.policy.slug, points)


def list_partitions(scheduler: Scheduler) -> list[str]:
    """Partitions of the last listed waiting jobs and of the settings, by name."""
    table = load_queue(scheduler.pk)
    listed = {partition for names in (table.partition if table else ()) for partition in names.split(",") if partition}
    return sorted(listed | set(scheduler.partitions or ()))


def get_share_difference(*, name: str, at: datetime, actor: Actor) -> ShareDifference | None:
    """Current difference of shares; None before the agent listed shares."""
    return difference_of(get_scheduler(name=name, at=at, actor=actor).scheduler)


def difference_of(scheduler: Scheduler) -> ShareDifference | None:
    """Current difference of shares; the caller checks permission."""
    listing = load_listing(scheduler)
    return None if listing is None else difference_with(scheduler, listing)


def difference_with(scheduler: Scheduler, listing: ListedShares) -> ShareDifference:
    tree = load_tree(scheduler.policy)
    within = None
    if scheduler.subtree_uid is not None:
        i = tree.index_of_uid(scheduler.subtree_uid)
        within = tree.subtree_mask(i) if i is not None else tree.subtree_mask(0) & False
    return compare_shares(scheduler.kind, tree, listing, within)


def list_share_orders(*, name: str, at: datetime, actor: Actor, limit: int = MOST_ORDERS) -> list[ShareOrder]:
    """Share orders of a scheduler, newest first."""
    scheduler = get_scheduler(name=name, at=at, actor=actor).scheduler
    return list(ShareOrder.objects.filter(scheduler=scheduler).order_by("-id")[: min(limit, MOST_ORDERS)])
