"""Advice: asked for by people or once a month, computed in a run, and stored until the next one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.contrib.lab.advisor.advise import advise
from apps.contrib.lab.advisor.measuring import measure_policy
from apps.contrib.lab.advisor.records import Advice, Evidence
from apps.contrib.lab.experiments.permissions import may_manage, sees_all_numbers
from apps.contrib.lab.models import PolicyAdvice
from apps.core.errors import Invalid, NotAllowed
from apps.engine.errors import BadParameter, BadTree
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run, work_other_runs
from apps.runs.waiting import RunWaiting, waiting_of
from apps.series.days import day_at, site_zone
from apps.series.inputs import holds, read_inputs

KIND = "advice"
_ATTEMPTS = 3
State = Literal["ready", "stale", "asked", "failed", "absent"]
STATES = ("ready", "stale", "asked", "failed", "absent")


@dataclass(frozen=True)
class StoredAdvice:
    """The advice about a policy, and its state."""

    policy: Annotated[str, "Slug of the policy"]
    state: Annotated[
        State,
        "absent: not computed, request it by POST; asked: a run waits or is at work; stale: of an earlier revision or "
        "month, or the usage or mapping of its days has changed since",
    ]
    problem: Annotated[str, "Why the last run failed, or why the stored advice can't be read"]
    computed_at: Annotated[datetime | None, "When it was computed"]
    revision: Annotated[int | None, "The revision that it is about"]
    n_done: Annotated[int, "Finished replays of the run at work"]
    n_steps: Annotated[int | None, "The most steps that it takes; null before it knows them"]
    advice: Annotated[Advice | None, "The newest one; empty if there is none"]
    waiting: Annotated[RunWaiting | None, "Behind what the run waits; null: it doesn't"] = None


def get_advice(*, policy_slug: str, at: datetime, actor: Actor) -> StoredAdvice:
    """The newest advice. Raises NotAllowed for readers who don't see all numbers of the policy."""
    policy = get_policy(slug=policy_slug, actor=actor)
    if not sees_all_numbers(policy, at=at, actor=actor):
        raise NotAllowed(_("Advice is measured on all entries of the policy: it is for readers of all numbers."))
    return stored_advice(policy, at)


def advice_sentence(*, policy_slug: str, at: datetime, actor: Actor) -> str:
    """The newest advice in one sentence; empty where there is none, and for readers who may not read it."""
    policy = get_policy(slug=policy_slug, actor=actor)
    advice = stored_advice(policy, at).advice if sees_all_numbers(policy, at=at, actor=actor) else None
    return "" if advice is None else advice.sentence


def stored_advice(policy: Policy, at: datetime) -> StoredAdvice:
    run = Run.objects.filter(kind=KIND, subject=_subject(policy)).order_by("-pk").first()
    waits = run is not None and run.state in (Run.State.QUEUED, Run.State.RUNNING)
    failed = run is not None and run.state == Run.State.FAILED
    stored = StoredAdvice(
        policy=policy.slug,
        state="asked" if waits else "failed" if failed else "absent",
        problem=run.error if run is not None and failed else "",
        computed_at=None,
        revision=None,
        n_done=run.progress_done if run is not None and waits else 0,
        n_steps=run.progress_total if run is not None and waits else None,
        advice=None,
        waiting=waiting_of(run, at=at),
    )
    row = PolicyAdvice.objects.filter(policy=policy).first()
    if row is None:
        return stored
    stored = replace(stored, computed_at=row.computed_at, revision=row.head_number)
    try:
        if digest_of(row.evidence) != row.digest:
            raise ValueError("The stored evidence differs from what was written.")
        advice = advise(Evidence.from_json(row.evidence))
    except (ValueError, KeyError, TypeError, StopIteration):
        problem = stored.problem or _("The stored advice is damaged, or another version wrote it: compute it again.")
        return replace(stored, state="asked" if waits else "failed", problem=problem)
    days_end_at = day_at(row.computed_at, site_zone()).from_at
    is_current = month_of(row.computed_at) == month_of(at) and holds(policy, row.inputs, until=days_end_at)
    state: State = "asked" if waits else "failed" if failed else "ready" if is_current else "stale"
    return replace(stored, state=state, advice=advice)


@transaction.atomic
def request_advice(*, policy_slug: str, at: datetime, actor: Actor) -> Run:
    """Enqueue a run that computes it; joins a waiting run. Raises NotAllowed for all but managers of the policy."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=Token.Scope.POLICIES_WRITE)
    if not may_manage(policy, at=at, actor=actor):
        raise NotAllowed(_("Only managers of the whole policy have it measured again."))
    return _enqueue(policy, at, owner=actor.user)


def request_monthly(*, at: datetime) -> int:
    """Enqueue a run for each policy with shares that has no advice of this month; safe to run at any time."""
    computed = dict(PolicyAdvice.objects.values_list("policy_id", "computed_at"))
    n_asked = 0
    for policy in Policy.objects.filter(head_number__gt=0).order_by("pk"):
        last_at = computed.get(policy.pk)
        if last_at is None or month_of(last_at) < month_of(at):
            key = f"{policy.pk}:{month_of(at)}"
            n_asked += not Run.objects.filter(kind=KIND, idempotency_key=key).exists()
            _enqueue(policy, at, key=key)
    return n_asked


def _enqueue(policy: Policy, at: datetime, *, owner: Any = None, key: str | None = None) -> Run:
    return enqueue_run(
        kind=KIND,
        subject=_subject(policy),
        arguments={"policy": policy.slug},
        owner=owner,
        idempotency_key=key,
        at=at,
        max_attempts=_ATTEMPTS,
    )


def run_advice(run: Run, lease: Lease) -> dict[str, Any]:
    """Measure the policy, and store what was measured in place of the previous evidence."""
    policy = Policy.objects.get(pk=int(run.subject.partition(":")[2]))
    at = lease.clock()
    head_number = policy.head_number
    inputs = read_inputs(policy, site_zone())
    try:
        evidence = measure_policy(policy, at=at, done=_between_steps(lease), most=lambda n: lease.report(total=n))
    except (BadTree, BadParameter) as error:
        raise Invalid(f"{error.message}.", code="bad_settings") from None
    data = orjson.loads(orjson.dumps(evidence.to_json()))
    recommended = advise(evidence).recommended
    with lease.fenced():
        row = PolicyAdvice.objects.select_for_update().filter(policy=policy).first()
        changes = {}
        if row is not None and row.recommended != recommended:
            changes = {"before_change": row.recommended, "changed_at": at}
        PolicyAdvice.objects.update_or_create(
            policy=policy,
            defaults={
                "head_number": head_number,
                "inputs": inputs,
                "computed_at": at,
                "evidence": data,
                "digest": digest_of(data),
                "recommended": recommended,
                **changes,
            },
        )
        summary = {"policy": policy.slug, "recommended": recommended}
        lease.finish(summary, at)
    return summary


def _between_steps(lease: Lease) -> Callable[[int, str], None]:
    """Store progress, and let other runs through."""

    def done(n: int, what: str) -> None:
        lease.report(n, message=what)
        work_other_runs(lease)

    return done


def digest_of(evidence: Any) -> str:
    return hashlib.sha256(orjson.dumps(evidence, option=orjson.OPT_SORT_KEYS)).hexdigest()


def month_of(at: datetime) -> str:
    """Month in the site's time zone, such as 2026-03."""
    return f"{timezone.localdate(at):%Y-%m}"


def _subject(policy: Policy) -> str:
    return f"policy:{policy.pk}"
