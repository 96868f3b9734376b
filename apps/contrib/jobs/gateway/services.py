"""Decide, start, finish and cancel jobs of SAM's queue, and set the rules of its ledger.

Each step of a job is one transaction and safe to repeat. A repeated request with the same content gets the same answer
and books nothing; with different content it is rejected. A gateway that was killed, or a scheduler without an answer,
sends the step again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, FloatField, Value
from django.db.models.functions import Greatest

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.accounts.clock_watch import believed
from apps.contrib.jobs.algorithms.sam import NO_AGING
from apps.contrib.jobs.gateway.permissions import lock_ledger, policy_to_manage, policy_to_use
from apps.contrib.jobs.gateway.shares import Groups, is_held, load_groups, solve
from apps.contrib.jobs.models import OPEN, Job, Ledger, Received
from apps.core.clock import SKEW
from apps.core.column_bounds import most_characters
from apps.core.errors import Conflict, FieldProblem, Invalid, NotFound
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.priorities.serving.lookup import AccountQuery
from apps.runs.fault_points import fault_point

KEPT_DAYS = 90  # days for which an ended job is stored; its benefit stays booked
MOST_BENEFIT = 1e18  # per job, so that sums stay finite
_AT_ONCE = 500  # number of lost or expired jobs that one step cleans up
ARRIVAL_ORDER = (
    "A queue that serves its front class in the order of arrival lets groups overshoot their shares in turn and doesn't"
    " settle: start the newest job of the front class first."
)
NOTES = (NO_AGING, ARRIVAL_ORDER)
_Work = Callable[[Ledger, Job | None], dict[str, Any]]

_ALLOWED = {
    "started": (Job.State.DECIDED, Job.State.LOST),
    "finished": (Job.State.DECIDED, Job.State.STARTED, Job.State.LOST),
    "cancelled": (Job.State.DECIDED, Job.State.STARTED, Job.State.LOST),
}

# Every step books or reverses a job's benefit by this rule.
_FROM = {Ledger.BookedAt.SUBMIT: (Job.State.DECIDED, Job.State.STARTED), Ledger.BookedAt.START: (Job.State.STARTED,)}
MOST_LOST_HOURS = 100_000


@dataclass(frozen=True)
class JobReport:
    """A job in a request, with its benefit or the quantities from which the benefit function computes it."""

    job: str
    benefit: float | None = None
    quantities: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        amounts = {"benefit": self.benefit, **(self.quantities or {})}
        for name, amount in amounts.items():
            if amount is not None and not 0 <= amount <= MOST_BENEFIT:  # also rejects NaN
                raise _wrong(name[:100], f"must be a number from 0 to {MOST_BENEFIT:g}")

    def measured(self) -> dict[str, Any]:
        return {} if self.benefit is None else {"benefit": self.benefit}


def decide(
    *,
    policy_slug: str,
    report: JobReport,
    group: str = "",
    account: AccountQuery | None = None,
    at: datetime,
    actor: Actor,
) -> dict[str, Any]:
    """Decide a job: front, back, or the class of a priority group, by the current bookings.

    Raises:
        Conflict: the job was decided with different content.
        Invalid: an unknown group or account, or a benefit that can't be computed.
    """
    request = {"group": group, "account": account and account._asdict(), **_request_content(report)}

    def work(ledger: Ledger, known: Job | None) -> dict[str, Any]:
        if known is not None:
            return _repeated_answer(known, "decide", request)
        if bool(group) == (account is not None):
            raise _wrong("group", "or account is required, not both")
        groups = load_groups(ledger, policy_slug)
        name = groups.of_name(group) if group else groups.of_account(account)  # type: ignore[arg-type]
        return _decide(ledger, groups, name, report, request, at)

    return _step(policy_slug, report.job, at, actor, work)


def start(*, policy_slug: str, report: JobReport, at: datetime, actor: Actor) -> dict[str, Any]:
    """Record that the queue started the job.

    Raises:
        NotFound: the job was never decided.
        Conflict: the job was cancelled.
    """
    return _change_state("started", policy_slug, report, at, actor)


def finish(*, policy_slug: str, report: JobReport, at: datetime, actor: Actor) -> dict[str, Any]:
    """Record that the job ended, with the measured benefit, or else the estimated one."""
    return _change_state("finished", policy_slug, report, at, actor)


def cancel(*, policy_slug: str, report: JobReport, at: datetime, actor: Actor) -> dict[str, Any]:
    """Record that the job will not run, and reverse its booking. A job that ran is finished instead."""
    return _change_state("cancelled", policy_slug, report, at, actor)


def _step(policy_slug: str, job: str, at: datetime, actor: Actor, work: _Work) -> dict[str, Any]:
    most = most_characters(Job, "job")
    if not 1 <= len(job) <= most or not job.isprintable():
        raise _wrong("job", f"must have 1 to {most} printable characters")
    policy = policy_to_use(actor, policy_slug)
    with transaction.atomic():
        ledger = lock_ledger(policy)
        fault_point("gateway.sam.after_lock")
        _reopen_found(ledger, at)
        _clean_up(ledger, at)
        answer = work(ledger, Job.objects.filter(ledger=ledger, job=job).first())
        fault_point("gateway.sam.before_commit")
    fault_point("gateway.sam.after_commit")
    return answer


def _decide(
    ledger: Ledger, groups: Groups, name: str, report: JobReport, request: dict[str, Any], at: datetime
) -> dict[str, Any]:
    case_job = {"id": report.job, "group": name, **(report.quantities or {}), **report.measured()}
    decision = solve(groups, groups.received(), [case_job])["jobs"][report.job]
    _refuse_huge(decision["benefit"])
    uid = None if decision["queue"] == "priority" else groups.uids[name]
    row = Job(
        ledger=ledger,
        job=report.job,
        group=name,
        entry_uid=uid,
        queue=decision["queue"],
        state=Job.State.DECIDED,
        benefit=decision["benefit"] or 0.0,
        decided_at=at,
    )
    amount = _amount(row, ledger)
    answer = {
        "job": report.job,
        "group": name,
        "queue": decision["queue"],
        "priority": decision["priority"],
        "fraction_after": decision["fraction_after"],
        "share": None if uid is None else _share(groups, name),
        "benefit": decision["benefit"],
        "booked": amount,
        "snapshot": groups.snapshot.snapshot_id,
        "explain": decision["explain"][:2] if amount else [*decision["explain"][:2], *_unbooked(ledger, uid)],
        "notes": list(NOTES),
    }
    row.steps = {"decide": [_digest(request), json.dumps(answer)]}
    row.save(force_insert=True)
    fault_point("gateway.sam.after_job")
    _book(row, ledger, amount)
    return answer


def _unbooked(ledger: Ledger, uid: UUID | None) -> list[str]:
    when = {Ledger.BookedAt.START: "starts", Ledger.BookedAt.END: "ends"}.get(Ledger.BookedAt(ledger.booked_at))
    return [f"booked when the job {when}"] if uid is not None and when else []


def _share(groups: Groups, name: str) -> float:
    """Share of a group among the groups that aren't priority groups, as the engine normalises it."""
    shares = {each: share for each, share in groups.shares.items() if each not in groups.ledger.priority_groups}
    whole = sum(shares.values())
    return shares[name] / whole if whole > 0 else 0.0


def _change_state(step: str, policy_slug: str, report: JobReport, at: datetime, actor: Actor) -> dict[str, Any]:
    request = _request_content(report)

    def work(ledger: Ledger, row: Job | None) -> dict[str, Any]:
        if row is None:
            raise NotFound(f"There is no decided job {report.job[:100]!r}.")
        if step in row.steps:
            return _repeated_answer(row, step, request)
        is_late = step == "started" and row.state == Job.State.FINISHED  # the reports arrived in another order
        if not is_late and row.state not in _ALLOWED[step]:
            raise _contradiction(f"The job {row.job} is {row.state}: it can't be {step} .")
        if step == "finished":
            row.benefit = _measured(ledger, row, report, policy_slug)
        if not is_late:
            row.state = step
        if step != "started":
            row.ended_at = at
        else:
            row.started_at, row.ended_at = at, row.ended_at if is_late else None
        amount = _amount(row, ledger)
        answer = {"job": row.job, "group": row.group, "state": row.state, "benefit": row.benefit, "booked": amount}
        row.steps = {**row.steps, step: [_digest(request), json.dumps(answer)]}
        row.save()
        fault_point("gateway.sam.after_job")
        _book(row, ledger, amount)
        return answer

    return _step(policy_slug, report.job, at, actor, work)


def _measured(ledger: Ledger, row: Job, report: JobReport, policy_slug: str) -> float:
    if row.entry_uid is None or (report.benefit is None and not report.quantities):
        return row.benefit
    if report.benefit is not None:
        return report.benefit
    groups = load_groups(ledger, policy_slug)
    name = row.group if row.group in groups.uids else next(iter(groups.uids))
    case_job = {"id": row.job, "group": name, **(report.quantities or {})}
    return _refuse_huge(solve(groups, {}, [case_job])["jobs"][row.job]["benefit"])


def _refuse_huge(benefit: float | None) -> float:
    if benefit is not None and benefit > MOST_BENEFIT:
        raise _wrong("benefit", f"is above {MOST_BENEFIT:g}")
    return float(benefit or 0.0)


def _amount(row: Job, ledger: Ledger) -> float:
    return booked_amount(
        state=row.state,
        benefit=row.benefit,
        before=row.booked,
        booked_at=ledger.booked_at,
        is_held=is_held(ledger),
        is_fair=row.entry_uid is not None,
    )


def _book(row: Job, ledger: Ledger, amount: float) -> None:
    """Change the group's B[g] and the job's booking to the amount, in the caller's transaction."""
    if amount == row.booked:
        return
    received, _ = Received.objects.get_or_create(ledger=ledger, entry_uid=row.entry_uid)
    more = Value(amount - row.booked, output_field=FloatField())
    Received.objects.filter(pk=received.pk).update(amount=Greatest(F("amount") + more, 0.0))
    fault_point("gateway.sam.after_booking")
    row.booked = amount
    row.save(update_fields=["booked"])


def _clean_up(ledger: Ledger, at: datetime) -> None:
    """Close jobs that never ended, and delete those that ended long ago, by the believed clock.

    The booking of a lost job that ran stays, that of others is reversed.
    """
    believed_at = believed(at)
    if ledger.lost_after_s is not None:
        since = believed_at - timedelta(seconds=ledger.lost_after_s)
        for row in Job.objects.filter(ledger=ledger, state__in=OPEN, decided_at__lt=since)[:_AT_ONCE]:
            did_run = row.state == Job.State.STARTED
            row.state, row.ended_at = Job.State.LOST, believed_at
            row.save(update_fields=["state", "ended_at"])
            _book(row, ledger, _amount(row, ledger) if did_run else 0.0)
    oldest = believed_at - timedelta(days=KEPT_DAYS)
    old = Job.objects.filter(ledger=ledger, ended_at__lt=oldest).values("pk")[:_AT_ONCE]
    Job.objects.filter(pk__in=list(old.values_list("pk", flat=True))).delete()


def _reopen_found(ledger: Ledger, at: datetime) -> None:
    """Reopen jobs that are lost since an instant that is still to come: a clock that was ahead closed them."""
    for row in Job.objects.filter(ledger=ledger, state=Job.State.LOST, ended_at__gt=at + SKEW)[:_AT_ONCE]:
        row.state = Job.State.STARTED if "started" in row.steps else Job.State.DECIDED
        row.ended_at = None
        row.save(update_fields=["state", "ended_at"])
        _book(row, ledger, _amount(row, ledger))


def _request_content(report: JobReport) -> dict[str, Any]:
    return {"benefit": report.benefit, "quantities": dict(report.quantities or {})}


def _digest(request: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _repeated_answer(row: Job, step: str, request: dict[str, Any]) -> dict[str, Any]:
    """The stored answer of a repeated request.

    Raises:
        Conflict: the request has different content.
    """
    digest, text = row.steps[step]
    if digest != _digest(request):
        raise _contradiction(f"The job {row.job} was sent before with different content for {step}.")
    answer: dict[str, Any] = json.loads(text)
    return answer


def _contradiction(message: str) -> Conflict:
    return Conflict(message, code="contradicts")


def _wrong(where: str, message: str) -> Invalid:
    return Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])


def booked_amount(*, state: str, benefit: float, before: float, booked_at: str, is_held: bool, is_fair: bool) -> float:
    """The booked benefit of a job in this state.

    benefit: estimated until the job has finished, then measured. before: the current booking. is_held: the benefit
    counts while the job runs. is_fair: not of a priority group.
    """
    if not is_fair:
        return 0.0
    match state:
        case Job.State.FINISHED:
            return 0.0 if is_held else benefit
        case Job.State.CANCELLED:
            return 0.0
        case Job.State.LOST:  # the booking of a job that ran stays, since it will not be measured
            return 0.0 if is_held else before
    return benefit if state in _FROM.get(Ledger.BookedAt(booked_at), ()) else 0.0


@dataclass(frozen=True)
class Rules:
    """Rules of a ledger. entry: path or uid of the entry whose children are the groups. lost_after_h: hours; None:
    never.
    """

    entry: str = "/"
    benefit: str | dict[str, float] | None = None
    booked_at: str = Ledger.BookedAt.START.value
    p_back: float = 0.0
    p_front: float = 1.0
    priority_groups: Mapping[str, float] = field(default_factory=dict)
    lost_after_h: float | None = None


@transaction.atomic
def set_rules(
    *, policy_slug: str, rules: Rules, received: Mapping[str, float] | None, at: datetime, actor: Actor
) -> Ledger:
    """Create the ledger or replace its rules, by administrators; written to the audit log.

    received: new B[g] of these groups; others stay.

    Raises:
        Invalid: an unknown entry, benefit function or group, or priorities not in the order back < front < groups.
    """
    policy = policy_to_manage(actor, policy_slug)
    ledger = Ledger.objects.select_for_update(no_key=True).filter(policy=policy).first() or Ledger(
        policy=policy, revision=0
    )
    _fill(ledger, policy, rules)
    ledger.revision, ledger.changed_at = ledger.revision + 1, at
    groups = load_groups(ledger, policy.slug)
    solve(groups, {}, [])  # validates function and priorities
    if is_held(ledger) and ledger.booked_at == Ledger.BookedAt.END:
        raise _wrong("booked_at", "can't be end: this benefit counts while a job runs")
    ledger.save()
    for name, amount in (received or {}).items():
        if name not in groups.uids or name in ledger.priority_groups:
            raise _wrong(f"received.{name[:100]}", "is not a fair-share group of this ledger")
        Received.objects.update_or_create(ledger=ledger, entry_uid=groups.uids[name], defaults={"amount": amount})
    details = {**asdict(rules), "received": dict(received or {}), "revision": ledger.revision}
    verb = "policy.sam_rules_set"
    record(actor=actor, verb=verb, at=at, policy_slug=policy.slug, subject=policy.name, details=details)
    return ledger


def _fill(ledger: Ledger, policy: Policy, rules: Rules) -> None:
    tree = load_tree(policy)
    i = tree.index_of_path(rules.entry)
    if i is None:
        raise _wrong("entry", "is not a path of this policy")
    if rules.lost_after_h is not None and not 0 < rules.lost_after_h <= MOST_LOST_HOURS:
        raise _wrong("lost_after_h", f"must be above 0 and at most {MOST_LOST_HOURS}")
    ledger.parent_uid = tree.uuid(i)
    ledger.benefit, ledger.booked_at = rules.benefit, rules.booked_at
    ledger.p_back, ledger.p_front = rules.p_back, rules.p_front
    ledger.priority_groups = dict(rules.priority_groups)
    ledger.lost_after_s = None if rules.lost_after_h is None else max(round(rules.lost_after_h * 3600), 1)
