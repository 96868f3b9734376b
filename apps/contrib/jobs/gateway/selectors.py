"""Read a ledger: rules, received benefit and share of each group, and open jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Count

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.contrib.jobs.gateway.permissions import may_use, no_ledger
from apps.contrib.jobs.gateway.services import NOTES
from apps.contrib.jobs.gateway.shares import Groups, books, load_groups, unknown_benefits
from apps.contrib.jobs.models import OPEN, Job, Ledger
from apps.core.errors import NotFound
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.priorities.visible_entries import numbers_visible_in

MOST_OPEN_JOBS = 200
_SCOPES = (Token.Scope.SCHEDULERS, Token.Scope.PRIORITIES_READ, Token.Scope.POLICIES_READ)


def get_ledger(*, policy_slug: str, at: datetime, actor: Actor) -> dict[str, Any]:
    """The ledger of a policy, for actors who may have jobs decided or see the usage of all its groups.

    Raises:
        NotFound: there is none, or the usage of a group is hidden from the actor.
    """
    scope = next((scope for scope in _SCOPES if actor.has_scope(scope)), Token.Scope.POLICIES_READ)
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    ledger = Ledger.objects.filter(policy=policy).first()
    if ledger is None and may_use(actor):
        raise no_ledger(policy.slug)
    if ledger is None:
        raise _hidden(policy)
    groups = load_groups(ledger, policy.slug)
    if not may_use(actor) and not _sees_all(policy, groups, at, actor):
        raise _hidden(policy)
    counted = Job.objects.filter(ledger=ledger).values_list("state").annotate(n=Count("pk")).order_by()
    # The oldest open jobs.
    jobs = Job.objects.filter(ledger=ledger, state__in=OPEN).order_by("decided_at", "pk")
    return {
        "policy": policy.slug,
        "snapshot": groups.snapshot.snapshot_id,
        "rules": _rules(ledger, groups),
        "ledger": books(groups),
        "jobs": {**dict.fromkeys(Job.State.values, 0), **dict(counted)},
        "open": [_open(row) for row in jobs[:MOST_OPEN_JOBS]],
        "notes": [*_unknown_benefit_notes(ledger), *NOTES],
    }


def _unknown_benefit_notes(ledger: Ledger) -> list[str]:
    """A sentence for each function of the rules that isn't built in."""
    return [
        f"The benefit function {name} isn't built in: reports of jobs are refused until the rules name another one, "
        "and the ledger stays as it is."
        for name in unknown_benefits(ledger)
    ]


def has_ledger(policy_slug: str) -> bool:
    """Whether the policy has a ledger, to decide whether to link to its page; that checks permissions."""
    return Ledger.objects.filter(policy__slug=policy_slug).exists()


def _sees_all(policy: Policy, groups: Groups, at: datetime, actor: Actor) -> bool:
    visible = numbers_visible_in(policy=policy, snapshot=groups.snapshot, at=at, actor=actor)
    return bool(visible[list(groups.names)].all())


def _hidden(policy: Policy) -> NotFound:
    return NotFound(f"The policy {policy.slug} has no SAM ledger that you may read.")


def _rules(ledger: Ledger, groups: Groups) -> dict[str, Any]:
    return {
        "entry": groups.path,
        "benefit": ledger.benefit,
        "booked_at": ledger.booked_at,
        "p_back": ledger.p_back,
        "p_front": ledger.p_front,
        "priority_groups": ledger.priority_groups,
        "lost_after_h": None if ledger.lost_after_s is None else ledger.lost_after_s / 3600,
        "revision": ledger.revision,
        "changed_at": ledger.changed_at,
    }


def _open(row: Job) -> dict[str, Any]:
    return {
        "job": row.job,
        "group": row.group,
        "queue": row.queue,
        "state": row.state,
        "benefit": row.benefit,
        "booked": row.booked,
        "decided_at": row.decided_at,
        "started_at": row.started_at,
    }
