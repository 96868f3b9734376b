"""What is said about the priority of one account: heading, reason, date and advice, decided together.

Pages, REST and the terminal show this record and decide nothing themselves, so no two of its sentences contradict each
other: the standing chooses the side, the side chooses the level, and reason, date and advice are about that level.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from apps.engine.explain import Outcome
from apps.explain.my_priority import MyPriority
from apps.explain.path import WalkStep, tolerance_messages
from apps.priorities.projections import PaceDays
from apps.priorities.sentences import Message, build_message
from apps.priorities.sentences.numbers import date


@dataclass(frozen=True, slots=True)
class Outlook:
    """Forecast of when the deciding level is on target. at, earliest, latest: only for outcome `recovers`.

    usual, quiet: its fraction of the group's usage in the last days, and in the quietest seven consecutive days (for
    the user's own entry: no usage); None without usage. quiet_at: when it is on target at `quiet`; None if never.
    pace_days: from which the usual pace is; without usage on any of them the outcome is `never_if_nobody_runs`.
    """

    outcome: Outcome
    as_of: datetime
    at: datetime | None = None
    earliest: datetime | None = None
    latest: datetime | None = None
    usual: float | None = None
    quiet: float | None = None
    quiet_at: datetime | None = None
    pace_days: PaceDays | None = None


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What a scheduler's listing says of the user's waiting jobs and of those of others.

    schedulers: of the account's cluster, which list their queues. unread: the last listing of those that don't, by
    name; None if there was none. position, of: of the first job, among those that compete in its partition of
    `scheduler`; None for a job without one, such as a held one. group: of that job, if it isn't the account's.
    rank_use: where the rank doesn't decide, or only in part. n_by_fairshare: jobs ahead of it only because of fair
    share; None if unknown. new_position, new_of: of a job that is submitted now to this scheduler and partition; None
    if unknown.
    """

    schedulers: Sequence[str] = ()
    unread: Mapping[str, datetime | None] = field(default_factory=dict)
    scheduler: str = ""
    n_own: int = 0
    position: int | None = None
    of: int = 0
    partition: str = ""
    group: str = ""
    rank_use: Sequence[Message] = ()
    n_by_fairshare: int | None = None
    new_scheduler: str = ""
    new_partition: str = ""
    new_position: int | None = None
    new_of: int = 0


Leads = Callable[[], Mapping[UUID, Sequence[str]]]
Predicts = Callable[[], Outlook | None]


def unknown_outlook() -> None:
    """No prediction."""


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """outlook: predicts when the deciding level is on target. leads: loads the names of those who may be asked about
    the shares of an entry on the path, by its uid.
    """

    outlook: Predicts = unknown_outlook
    queue: QueueFacts | None = None
    leads: Leads = dict


@dataclass(frozen=True, slots=True)
class Verdict:
    """Messages in reading order. queue: the place of the user's first waiting job."""

    heading: Message
    reason: tuple[Message, ...]
    when: tuple[Message, ...]
    changes: tuple[Message, ...]
    queue: tuple[Message, ...] = ()


def decide(priority: MyPriority, others: Sequence[MyPriority] = (), facts: AccountFacts | None = None) -> Verdict:
    """Decide what is said about an account. others: further accounts of the same user."""
    facts = facts or AccountFacts()
    return Verdict(
        heading=_heading(priority),
        reason=(*_reason(priority), *_rank_use(priority, facts.queue)),
        when=tuple(when_of(priority, facts.outlook)),
        changes=tuple(_changes(priority, others, facts.leads)),
        queue=() if priority.moment or priority.error else tuple(queue_messages(facts.queue)),
    )


def _heading(priority: MyPriority) -> Message:
    if priority.error:
        is_not_kept = priority.moment and priority.error == "no_snapshot"
        return build_message(
            "verdict.nothing_kept" if is_not_kept else f"verdict.{priority.error}",
            policy=priority.policy_name,
            account=priority.name,
        )
    if priority.standing is None:
        return build_message("verdict.new_user" if priority.provisional else "verdict.unranked")
    return build_message(f"verdict.{priority.standing.band}", rank=priority.standing.rank, of=priority.standing.of)


def _reason(priority: MyPriority) -> list[Message]:
    if priority.error == "unmapped":
        return [build_message("rank.unmapped", factor=priority.factor)]
    if priority.error:  # in a view of the past the advice is sufficient
        return [] if priority.moment else [build_message("rank.no_snapshot", policy=priority.policy_name)]
    if priority.standing is None:
        return list(priority.why_unranked)
    if priority.provisional:
        return [build_message("reason.new_user", name=priority.entry_name)]
    if priority.standing.band == "only":
        return [build_message("reason.alone")]
    if priority.decisive is None:
        return [_without_level(priority)]
    if not priority.levels_decide:
        return _of_factor(priority, priority.decisive)
    if priority.decided_by == "component":
        return _of_level(priority, priority.decisive)
    return [_by_rule(priority, priority.decisive)]


def _rank_use(priority: MyPriority, queue: QueueFacts | None) -> Sequence[Message]:
    """Where a scheduler doesn't order by the rank that is explained."""
    is_rank = queue is not None and priority.standing is not None and priority.moment is None and not priority.error
    return queue.rank_use if queue is not None and is_rank else ()


def _without_level(priority: MyPriority) -> Message:
    standing = priority.standing
    assert standing is not None  # noqa: S101 - by the caller
    if priority.is_decided_above:
        return build_message("reason.above")
    if priority.explained_by == "number":
        return build_message("reason.number", algorithm=priority.algorithm)
    if standing.is_good and not standing.n_behind:
        return build_message("reason.tied" if standing.n_ahead else "reason.equal", n=standing.n_ahead)
    if all(step.target is None for step in priority.walk):
        return build_message("reason.no_level")
    if priority.levels_decide:
        return build_message("rank.place", rank=standing.rank, of=standing.of)
    if all(step.effect is None or step.effect.is_same for step in priority.walk):
        return build_message("reason.factor_same")
    if standing.is_good:
        return build_message("reason.factor_less", n=standing.n_behind)
    return build_message("reason.factor_more", n=standing.n_ahead)


def _whom(priority: MyPriority, step: WalkStep) -> Literal["you", "group"]:
    """Whether a level is the user's own. An account that counts at a group shares the group's usage with others."""
    return "you" if step is priority.walk[-1] and not step.is_group else "group"


def _of_level(priority: MyPriority, step: WalkStep) -> list[Message]:
    """Who goes before whom: in siblings of the entry if all are below some, else in accounts."""
    is_good, whom = priority.standing is not None and priority.standing.is_good, _whom(priority, step)
    side = "good" if is_good else "bad"
    state = step.state if step.state in ("over", "on") else "under"
    n = step.leaves_behind if is_good else step.leaves_ahead
    siblings = step.siblings_behind if is_good else step.siblings_ahead
    facts: dict[str, Any] = {
        "name": step.name,
        "parent": step.parent_name,
        "actual": step.actual,
        "target": step.target,
        "n": n,
    }
    if siblings is None or step.n_siblings == 1 or not _has_name(step, whom):
        return [build_message(f"reason.{whom}_{side}_{state}", **facts), *tolerance_messages(step)]
    facts |= {"siblings": siblings.n, "n_siblings": step.n_siblings, "kinds": step.siblings_kind}
    reason = build_message(f"reason.{whom}_{side}_of_{state}", **facts)
    if state == ("under" if is_good else "over") or siblings.used != ("more" if is_good else "less"):
        return [reason, *tolerance_messages(step)]
    used = build_message("reason.used_more" if is_good else "reason.used_less")
    return [reason, used, *tolerance_messages(step)]  # "they" are those of the reason


def _has_name(step: WalkStep, whom: Literal["you", "group"]) -> bool:
    """Whether one name fits all siblings: colleagues are single users, and users are below the others."""
    if whom == "group":
        return step.siblings_kind not in ("user", "service")
    n_single = (step.leaves_ahead or 0) + (step.leaves_behind or 0) + step.n_equal
    return step.siblings_kind == "user" and n_single == step.n_siblings


def _by_rule(priority: MyPriority, step: WalkStep) -> Message:
    """Others are equal at the level: the algorithm orders them, or they have levels that this entry lacks."""
    named = {"name": step.name, "parent": step.parent_name, "algorithm": priority.algorithm}
    if priority.standing is not None and priority.standing.is_good:
        return build_message("reason.good_rule", n=step.leaves_behind, **named)
    if priority.decided_by == "inherited":
        return build_message("reason.inherited", parent=step.parent_name, algorithm=priority.algorithm)
    whom = _whom(priority, step)
    if priority.compares == "ranks":
        return build_message(f"reason.{whom}_listed", **named)
    last = priority.walk[-1]
    if last.target is None:
        return build_message("reason.no_own_shares", parent=last.parent_name)
    return build_message(f"reason.{whom}_ended", name=step.name, parent=step.parent_name)


def _of_factor(priority: MyPriority, step: WalkStep) -> list[Message]:
    """The level that changes the factor most, in the direction of the rank."""
    effect, whom = step.effect, _whom(priority, step)
    facts = {"name": step.name, "parent": step.parent_name, "actual": step.actual, "target": step.target}
    if effect is None or effect.ratio is None:
        return [build_message(f"factor.{whom}_no_shares", **facts, factor=0.0)]
    direction = "lowers" if effect.lowers else "raises"
    changes = {"factor": effect.factor, "other_factor": effect.factor_above}
    messages = [build_message(f"factor.{whom}_{direction}", **facts, **changes)]
    return [*messages, build_message("effect.adds")] if effect.lowers and effect.only_adds else messages


def needs_outlook(priority: MyPriority) -> bool:
    """Whether a prediction decides what is said about *when*."""
    asked: list[None] = []
    when_of(priority, lambda: asked.append(None))
    return bool(asked)


def when_of(priority: MyPriority, outlook: Predicts) -> list[Message]:
    """Now or when the deciding level is on target, or why there is no date; empty for the past."""
    if priority.moment is not None:
        return []
    if priority.error:
        return [build_message(f"when.{priority.error}")]
    if priority.standing is None:
        return [build_message("when.new_user")] if priority.provisional else []
    return [_now(priority, outlook)] if priority.standing.is_good else _later(priority, outlook)


def _now(priority: MyPriority, predict: Predicts) -> Message:
    step = priority.decisive
    is_lead = step is not None and step.state in ("under", "idle") and priority.decided_by == "component"
    outlook = predict() if is_lead else None
    if step is None or outlook is None:
        return build_message("when.now")
    if outlook.at is not None:
        return _named("when.lead", priority, step, on=outlook.at)
    if outlook.outcome in ("not_at_this_pace", "not_within_horizon"):
        return _named("when.stays_under", priority, step)
    return build_message("when.now")


def _later(priority: MyPriority, predict: Predicts) -> list[Message]:
    step = priority.decisive
    if priority.is_decided_above:
        return [build_message("when.above")]
    if step is not None and priority.levels_decide and priority.decided_by == "inherited":
        return [build_message("when.inherited", parent=step.parent_name, algorithm=priority.algorithm)]
    if step is None or (priority.levels_decide and priority.decided_by != "component"):
        return [build_message("when.equal")]
    if has_no_shares(step):
        return [build_message("when.no_shares", parent=step.parent_name)]
    if step.state != "over":
        outlook = predict() if step.state in ("under", "idle") else None
        if outlook is not None and outlook.at is not None:
            return [_named("when.under_until", priority, step, on=outlook.at)]
        return [build_message("when.not_over")]
    return [_date(priority, step, predict())]


def has_no_shares(step: WalkStep) -> bool:
    return step.target == 0 or (step.effect is not None and step.effect.ratio is None)


def _named(key: str, priority: MyPriority, step: WalkStep, **facts: Any) -> Message:
    """The message addressed to the user, or naming the group."""
    if _whom(priority, step) == "you":
        return build_message(f"{key}_you", **facts)
    return build_message(key, name=step.name, **facts)


def _date(priority: MyPriority, step: WalkStep, outlook: Outlook | None) -> Message:
    """The date for a level over its target: at the usual pace, or if that is too late at the quietest pace."""
    if outlook is None or outlook.outcome == "on_target":
        return build_message("when.unknown")
    if outlook.outcome == "never_if_nobody_runs" and outlook.pace_days is not None:
        days = outlook.pace_days
        return build_message("when.nobody_runs", parent=step.parent_name, n=days.n, at=days.until)
    if outlook.at is None:
        return _quiet_date(priority, step, outlook)
    earliest, latest = outlook.earliest, outlook.latest
    if earliest is None or latest is None or date(earliest) == date(latest):
        return _named("when.recovers", priority, step, on=outlook.at)
    return _named("when.recovers_between", priority, step, on=outlook.at, earliest=earliest, latest=latest)


def _quiet_date(priority: MyPriority, step: WalkStep, outlook: Outlook) -> Message:
    is_you = _whom(priority, step) == "you"
    if outlook.quiet_at is not None:
        return build_message("when.you_stop" if is_you else "when.quiet", name=step.name, on=outlook.quiet_at)
    if is_you:
        return build_message("when.you_later")
    return build_message("when.not_soon" if outlook.quiet is None else "when.later", name=step.name)


def queue_messages(queue: QueueFacts | None) -> list[Message]:
    """The place of the user's first waiting job and the jobs ahead, or that none waits; the place that a new job would
    get; and which queue isn't read.
    """
    if queue is None:
        return []
    unread = [
        build_message("queue.unread" if at else "queue.never_read", scheduler=name, **({"at": at} if at else {}))
        for name, at in queue.unread.items()
    ]
    after = unread
    if queue.new_position is not None:
        place = {"position": queue.new_position, "of": queue.new_of, "scheduler": queue.new_scheduler}
        key = "queue.new_in_partition" if queue.new_partition else "queue.new"
        in_partition = {"partition": queue.new_partition} if queue.new_partition else {}
        after = [build_message(key, **place, **in_partition), *unread]
    if not queue.n_own:
        none = build_message("queue.none", schedulers=list(queue.schedulers))
        return [none, *after] if queue.schedulers else after
    if queue.position is None:
        return [build_message("queue.no_place", n=queue.n_own, scheduler=queue.scheduler), *after]
    place = {"n": queue.n_own, "position": queue.position, "of": queue.of, "scheduler": queue.scheduler}
    in_partition = {"partition": queue.partition} if queue.partition else {}
    messages = [
        build_message("queue.first_in_partition" if queue.partition else "queue.first", **place, **in_partition)
    ]
    if queue.group:
        messages.append(build_message("queue.of_group", group=queue.group))
    if queue.n_by_fairshare is not None:
        messages.append(build_message("queue.ahead", n=queue.position - 1, by_fairshare=queue.n_by_fairshare))
    return [*messages, *after]


def better_account(priority: MyPriority, others: Sequence[MyPriority]) -> MyPriority | None:
    """The user's best account with a better rank in the same cluster and policy; None without one."""
    able = [
        other
        for other in others
        if runs_where(priority, other)
        and (other.account, other.group) != (priority.account, priority.group)
        and other.rank is not None
        and (priority.rank is None or other.rank < priority.rank)
    ]
    return min(able, key=lambda other: other.rank or 0, default=None)


def runs_where(priority: MyPriority, other: MyPriority) -> bool:
    """Whether a job could run under the other account: the same policy and the same cluster."""
    return not other.error and other.policy_slug == priority.policy_slug and other.namespace == priority.namespace


def _changes(priority: MyPriority, others: Sequence[MyPriority], leads: Leads) -> list[Message]:
    """What the user can do, the most helpful first."""
    if priority.error == "unmapped":
        return [build_message("change.unmapped", account=priority.name), *_elsewhere(priority, others)]
    if priority.error:
        return [build_message("change.nothing_kept", policy=priority.policy_name)] if priority.moment else []
    if priority.moment is not None:
        return []
    elsewhere = _elsewhere(priority, others)
    if priority.standing is None:
        parent = priority.walk[-1].parent_name if priority.walk else priority.policy_name
        if priority.provisional:
            return elsewhere
        return [_ask("change.unranked", _leads_above(priority.walk[:-1], leads), parent=parent), *elsewhere]
    if priority.standing.is_good:
        return elsewhere or [build_message("change.nothing")]
    return [*elsewhere, *_by_usage(priority, leads)]


def _elsewhere(priority: MyPriority, others: Sequence[MyPriority]) -> list[Message]:
    better = better_account(priority, others)
    if better is None:
        return []
    account = f"{better.name} ({better.group})" if better.group else better.name
    facts = {"account": account, "entry": better.entry_path, "other_rank": better.rank, "of": better.of}
    if priority.error == "unmapped":
        return [build_message("change.until_mapped", **facts)]
    return [build_message("change.other_account", **facts, rank=priority.rank)]


def _leads_above(path: Sequence[WalkStep], leads: Leads) -> Sequence[str]:
    """Those of the last entry of the path, else of the nearest above it that has some."""
    known = leads()
    return next((known[step.uid] for step in reversed(path) if known.get(step.uid)), ())


def _ask(key: str, leads: Sequence[str], **facts: Any) -> Message:
    """The advice with the names of whom to ask, else with their role."""
    return build_message(f"{key}_of_lead", leads=list(leads), **facts) if leads else build_message(key, **facts)


def _by_usage(priority: MyPriority, leads: Leads) -> list[Message]:
    """Advice by whose usage or shares put the account behind."""
    step, last = priority.decisive, priority.walk[-1] if priority.walk else None
    if last is None or priority.is_decided_above:
        return []
    at = priority.walk.index(step) if step is not None else 0
    if priority.levels_decide and priority.decided_by != "component":
        step = None
    if step is not None and has_no_shares(step):
        return [_ask("change.shares", _leads_above(priority.walk[:at], leads), parent=step.parent_name)]
    messages = []
    if step is not None and step.state == "over" and _whom(priority, step) == "group":
        messages.append(_ask("change.group", _leads_above(priority.walk[: at + 1], leads), name=step.name))
    if last.state == "over" and not last.is_group:
        halves = priority.half_life_s is not None
        messages.append(
            build_message("change.own_use", half_life_s=priority.half_life_s)
            if halves
            else build_message("change.own_use_decays")
        )
    return messages or [build_message("change.nothing_yourself")]
