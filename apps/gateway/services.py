"""Jobs of SAM's queue (decided, started, finished, cancelled) and the rules of its ledger.

Each step of a job is one transaction, and safe to repeat. A repeat with the same content gets the same answer and
books nothing; with another content it is refused. So a gateway that was killed, or a scheduler that got no answer,
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
from apps.core.errors import Conflict, FieldProblem, Invalid, NotFound
from apps.engine.jobs.sam import NO_AGING
from apps.gateway.models import OPEN, Job, Ledger, Received
from apps.gateway.permissions import lock_ledger, policy_to_manage, policy_to_use
from apps.gateway.shares import Groups, is_held, load_groups, solve
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.priorities.serving.lookup import AccountQuery
from apps.runs.fault_points import fault_point

KEPT_DAYS = 90  # a job that ended is known for so long; its benefit stays in the books
MOST_BENEFIT = 1e18  # of one job, so that sums stay finite
_AT_ONCE = 500  # jobs that one step closes or forgets on the side
ARRIVAL_ORDER = (
    "A queue that serves its front class in the order of arrival lets groups overshoot their shares in turn and doesn't"
    " settle: start the newest job of the front class first."
)
NOTES = (NO_AGING, ARRIVAL_ORDER)


@dataclass(frozen=True)
class Asked:
    """What a step says about a job. quantities: fields that the benefit function needs."""

    job: str
    benefit: float | None = None
    quantities: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        given = {"benefit": self.benefit, **(self.quantities or {})}
        for name, amount in given.items():
            if amount is not None and not 0 <= amount <= MOST_BENEFIT:  # NaN, too
                raise _wrong(name[:100], f"must be a number from 0 to {MOST_BENEFIT:g}")

    def measured(self) -> dict[str, Any]:
        return {} if self.benefit is None else {"benefit": self.benefit}


# --- Steps ------------------------------------------------------------------------------------------------------------
def decide(
    *, policy_slug: str, asked: Asked, group: str = "", account: AccountQuery | None = None, at: datetime, actor: Actor
) -> dict[str, Any]:
    """Front, back, or the class of a priority group, by the books as they are.

    Raises:
        Conflict: the job was decided with another content.
        Invalid: an unknown group or account, or a benefit that can't be computed.
    """
    request = {"group": group, "account": account and account._asdict(), **_content(asked)}

    def work(ledger: Ledger, known: Job | None) -> dict[str, Any]:
        if known is not None:
            return _repeated(known, "decide", request)
        if bool(group) == (account is not None):
            raise _wrong("group", "is needed, or account: one of both")
        groups = load_groups(ledger, policy_slug)
        name = groups.of_name(group) if group else groups.of_account(account)  # type: ignore[arg-type]
        return _decided(ledger, groups, name, asked, request, at)

    return _step(policy_slug, asked.job, at, actor, work)


def start(*, policy_slug: str, asked: Asked, at: datetime, actor: Actor) -> dict[str, Any]:
    """The queue started the job.

    Raises:
        NotFound: it was never decided.
        Conflict: it was cancelled.
    """
    return _later("started", policy_slug, asked, at, actor)


def finish(*, policy_slug: str, asked: Asked, at: datetime, actor: Actor) -> dict[str, Any]:
    """The job ended, with the benefit that was measured; without one the estimate stands."""
    return _later("finished", policy_slug, asked, at, actor)


def cancel(*, policy_slug: str, asked: Asked, at: datetime, actor: Actor) -> dict[str, Any]:
    """The job will not run: what was booked for it is taken back. One that ran is finished instead."""
    return _later("cancelled", policy_slug, asked, at, actor)


_Work = Callable[[Ledger, Job | None], dict[str, Any]]


def _step(policy_slug: str, job: str, at: datetime, actor: Actor, work: _Work) -> dict[str, Any]:
    if not 1 <= len(job) <= 256 or not job.isprintable():
        raise _wrong("job", "must have 1 to 256 printable characters")
    policy = policy_to_use(actor, policy_slug)
    with transaction.atomic():
        ledger = lock_ledger(policy)
        fault_point("gateway.sam.after_lock")
        _close_lost(ledger, at)
        _forget_ended(ledger, at)
        answer = work(ledger, Job.objects.filter(ledger=ledger, job=job).first())
        fault_point("gateway.sam.before_commit")
    fault_point("gateway.sam.after_commit")
    return answer


def _decided(
    ledger: Ledger, groups: Groups, name: str, asked: Asked, request: dict[str, Any], at: datetime
) -> dict[str, Any]:
    case_job = {"id": asked.job, "group": name, **(asked.quantities or {}), **asked.measured()}
    found = solve(groups, groups.received(), [case_job])["jobs"][asked.job]
    _refuse_huge(found["benefit"])
    uid = None if found["queue"] == "priority" else groups.uids[name]
    row = Job(
        ledger=ledger,
        job=asked.job,
        group=name,
        entry_uid=uid,
        queue=found["queue"],
        state=Job.State.DECIDED,
        benefit=found["benefit"] or 0.0,
        decided_at=at,
    )
    amount = _amount(row, ledger)
    answer = {
        "job": asked.job,
        "group": name,
        "queue": found["queue"],
        "priority": found["priority"],
        "fraction_after": found["fraction_after"],
        "share": None if uid is None else _share(groups, name),
        "benefit": found["benefit"],
        "booked": amount,
        "snapshot": groups.snapshot.snapshot_id,
        "explain": found["explain"][:2] if amount else [*found["explain"][:2], *_unbooked(ledger, uid)],
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
    """As the engine divides: among the groups that aren't priority groups."""
    shares = {each: share for each, share in groups.shares.items() if each not in groups.ledger.priority_groups}
    whole = sum(shares.values())
    return shares[name] / whole if whole > 0 else 0.0


_ALLOWED = {
    "started": (Job.State.DECIDED, Job.State.LOST),
    "finished": (Job.State.DECIDED, Job.State.STARTED, Job.State.LOST),
    "cancelled": (Job.State.DECIDED, Job.State.STARTED, Job.State.LOST),
}


def _later(step: str, policy_slug: str, asked: Asked, at: datetime, actor: Actor) -> dict[str, Any]:
    request = _content(asked)

    def work(ledger: Ledger, row: Job | None) -> dict[str, Any]:
        if row is None:
            raise NotFound(f"No job {asked.job[:100]!r} was decided here.")
        if step in row.steps:
            return _repeated(row, step, request)
        is_late = step == "started" and row.state == Job.State.FINISHED  # the news came in another order
        if not is_late and row.state not in _ALLOWED[step]:
            raise _contradiction(f"The job {row.job} is {row.state}: it can't be {step} any more.")
        if step == "finished":
            row.benefit = _measured(ledger, row, asked, policy_slug)
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

    return _step(policy_slug, asked.job, at, actor, work)


def _measured(ledger: Ledger, row: Job, asked: Asked, policy_slug: str) -> float:
    if row.entry_uid is None or (asked.benefit is None and not asked.quantities):
        return row.benefit
    if asked.benefit is not None:
        return asked.benefit
    groups = load_groups(ledger, policy_slug)
    name = row.group if row.group in groups.uids else next(iter(groups.uids))
    case_job = {"id": row.job, "group": name, **(asked.quantities or {})}
    return _refuse_huge(solve(groups, {}, [case_job])["jobs"][row.job]["benefit"])


def _refuse_huge(benefit: float | None) -> float:
    if benefit is not None and benefit > MOST_BENEFIT:
        raise _wrong("benefit", f"is above {MOST_BENEFIT:g}")
    return float(benefit or 0.0)


# --- Books ------------------------------------------------------------------------------------------------------------
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
    """Make the group's B[g] and the job's part of it agree with the amount, both in the caller's transaction."""
    if amount == row.booked:
        return
    received, _ = Received.objects.get_or_create(ledger=ledger, entry_uid=row.entry_uid)
    more = Value(amount - row.booked, output_field=FloatField())
    Received.objects.filter(pk=received.pk).update(amount=Greatest(F("amount") + more, 0.0))
    fault_point("gateway.sam.after_booking")
    row.booked = amount
    row.save(update_fields=["booked"])


def _close_lost(ledger: Ledger, at: datetime) -> None:
    """Jobs that never ended: one that ran keeps what is booked, one that didn't gives it back."""
    if ledger.lost_after_s is None:
        return
    since = at - timedelta(seconds=ledger.lost_after_s)
    for row in Job.objects.filter(ledger=ledger, state__in=OPEN, decided_at__lt=since)[:_AT_ONCE]:
        did_run = row.state == Job.State.STARTED
        row.state, row.ended_at = Job.State.LOST, at
        row.save(update_fields=["state", "ended_at"])
        _book(row, ledger, _amount(row, ledger) if did_run else 0.0)


def _forget_ended(ledger: Ledger, at: datetime) -> None:
    old = Job.objects.filter(ledger=ledger, ended_at__lt=at - timedelta(days=KEPT_DAYS)).values("pk")[:_AT_ONCE]
    Job.objects.filter(pk__in=list(old.values_list("pk", flat=True))).delete()


# --- Repeats ----------------------------------------------------------------------------------------------------------
def _content(asked: Asked) -> dict[str, Any]:
    return {"benefit": asked.benefit, "quantities": dict(asked.quantities or {})}


def _digest(request: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _repeated(row: Job, step: str, request: dict[str, Any]) -> dict[str, Any]:
    """The first answer, word for word."""
    digest, text = row.steps[step]
    if digest != _digest(request):
        raise _contradiction(f"The job {row.job} was sent before with another content: {step} is known already.")
    found: dict[str, Any] = json.loads(text)
    return found


def _contradiction(message: str) -> Conflict:
    return Conflict(message, code="contradicts")


def _wrong(where: str, message: str) -> Invalid:
    return Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])


# --- Booking ----------------------------------------------------------------------------------------------------------
# The one rule by which every step books or takes back a job's benefit, by its state.
_FROM = {Ledger.BookedAt.SUBMIT: (Job.State.DECIDED, Job.State.STARTED), Ledger.BookedAt.START: (Job.State.STARTED,)}


def booked_amount(*, state: str, benefit: float, before: float, booked_at: str, is_held: bool, is_fair: bool) -> float:
    """The benefit that the books have of a job in this state.

    benefit: estimated until the job has finished, measured then. before: what is booked now. is_held: the benefit
    counts while the job runs. is_fair: not of a priority group.
    """
    if not is_fair:
        return 0.0
    match state:
        case Job.State.FINISHED:
            return 0.0 if is_held else benefit
        case Job.State.CANCELLED:
            return 0.0
        case Job.State.LOST:  # of one that ran, what was booked stays; nobody will measure it
            return 0.0 if is_held else before
    return benefit if state in _FROM.get(Ledger.BookedAt(booked_at), ()) else 0.0


# --- Rules of the ledger ----------------------------------------------------------------------------------------------
MOST_HOURS = 100_000


@dataclass(frozen=True)
class Rules:
    """entry: the path or uid of the entry whose children are the groups. lost_after_h: hours; None: never."""

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
    """Open the ledger, or replace its rules: by administrators, in the audit log.

    received: B[g] of these groups from now on; others stay.

    Raises:
        Invalid: an unknown entry, benefit function or group, or priorities in another order than back < front < groups.
    """
    policy = policy_to_manage(actor, policy_slug)
    ledger = Ledger.objects.select_for_update().filter(policy=policy).first() or Ledger(policy=policy, revision=0)
    _fill(ledger, policy, rules)
    ledger.revision, ledger.changed_at = ledger.revision + 1, at
    groups = load_groups(ledger, policy.slug)
    solve(groups, {}, [])  # names what is wrong with function and priorities
    if is_held(ledger) and ledger.booked_at == Ledger.BookedAt.END:
        raise _wrong("booked_at", "can't be end: this benefit counts while a job runs")
    ledger.save()
    for name, amount in (received or {}).items():
        if name not in groups.uids or name in ledger.priority_groups:
            raise _wrong(f"received.{name[:100]}", "is no fair-share group of this ledger")
        Received.objects.update_or_create(ledger=ledger, entry_uid=groups.uids[name], defaults={"amount": amount})
    details = {**asdict(rules), "received": dict(received or {}), "revision": ledger.revision}
    verb = "policy.sam_rules_set"
    record(actor=actor, verb=verb, at=at, policy_slug=policy.slug, subject=policy.name, details=details)
    return ledger


def _fill(ledger: Ledger, policy: Policy, rules: Rules) -> None:
    tree = load_tree(policy)
    i = tree.index_of_path(rules.entry)
    if i is None:
        raise _wrong("entry", "is no path of this policy")
    if rules.lost_after_h is not None and not 0 < rules.lost_after_h <= MOST_HOURS:
        raise _wrong("lost_after_h", f"must be above 0 and at most {MOST_HOURS}")
    ledger.parent_uid = tree.uuid(i)
    ledger.benefit, ledger.booked_at = rules.benefit, rules.booked_at
    ledger.p_back, ledger.p_front = rules.p_back, rules.p_front
    ledger.priority_groups = dict(rules.priority_groups)
    ledger.lost_after_s = None if rules.lost_after_h is None else max(round(rules.lost_after_h * 3600), 1)
