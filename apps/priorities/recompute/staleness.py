"""Start recomputes of policies whose inputs changed, and do the work of such a run; one run at a time for a policy."""

from __future__ import annotations

import logging
import uuid
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core.errors import FieldProblem, Invalid, NotAllowed
from apps.mapping.partition_accounts import register_partitions_of
from apps.mapping.rules.placement import MOST_KEPT_PLACEMENTS
from apps.policies.access.scope import Rights, Verb, administers_within_bounds
from apps.policies.models import Policy
from apps.policies.recompute_runs import ATTEMPTS, KIND, queue_recompute, subject_of
from apps.policies.selectors import get_policy
from apps.priorities.models import Snapshot
from apps.priorities.recompute import pipeline
from apps.priorities.recompute.extension import extend, is_computed, newest_row
from apps.priorities.recompute.fingerprint import read_fingerprint, tick_of
from apps.priorities.recompute.inputs import refuse_before_first
from apps.runs.fault_points import fault_point
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run

logger = logging.getLogger(__name__)


def recompute_stale(*, at: datetime) -> list[int]:
    """Enqueue a run for each policy whose current inputs have no snapshot; return their ids."""
    as_of = tick_of(at)
    return [
        queue_recompute(policy, at=at).pk
        for policy in Policy.objects.filter(head_number__gte=1).order_by("id")
        if is_stale(policy, as_of=as_of)
    ]


def load_ahead(*, at: datetime) -> int:
    """Have in memory what the next recompute of each policy reads and computes with; return the number of policies.

    A worker does this before it takes messages, so that nobody waits for it. What fails here fails again, with its
    reason, in the run.
    """
    policies = list(Policy.objects.filter(head_number__gte=1, archived_at=None).order_by("id")[:MOST_KEPT_PLACEMENTS])
    for policy in policies:
        try:
            pipeline.compute(pipeline.load_inputs(policy, as_of=tick_of(at)))
        except Exception:
            logger.warning("Policy %s can't be loaded ahead of its recompute.", policy.slug, exc_info=True)
    return len(policies)


def is_stale(policy: Policy, *, as_of: datetime) -> bool:
    """Whether no live snapshot of the current inputs holds at the instant."""
    return _current(policy, as_of) is None


def _current(policy: Policy, as_of: datetime) -> Snapshot | None:
    """The live snapshot of the current inputs that holds at the instant."""
    fingerprint = read_fingerprint(policy, as_of=as_of)
    newest = newest_row(policy.pk)
    if newest is not None and newest.as_of <= as_of <= newest.valid_at and is_computed(newest, fingerprint):
        return newest
    same = Snapshot.objects.filter(policy=policy, fingerprint=fingerprint.digest, is_live=True)
    return same.defer("data").first()


@transaction.atomic
def request_recompute(*, policy_slug: str, as_of: datetime | None = None, at: datetime, actor: Actor) -> Run:
    """Enqueue a recompute now, or of a past instant, whose snapshot is never served as the newest.

    A past snapshot uses the revision, settings, adjustments and mapping of its instant. Raises Invalid `future` and
    `before_first_revision`.
    """
    policy = get_policy(slug=policy_slug, actor=actor)
    if not administers_within_bounds(actor, Token.Scope.ADMIN) and not _may_request(policy, actor, at):
        raise NotAllowed(_("Only authorities of this policy ask for a recompute; it is computed on a schedule anyway."))
    if as_of is None:
        run = queue_recompute(policy, at=at, owner=actor)
    else:
        if as_of > at:
            message = _("Priorities of the future aren't known: choose an instant up to now.")
            raise Invalid(message, code="future", fields=[FieldProblem("as_of", _("is in the future"))])
        refuse_before_first(policy, as_of)
        run = enqueue_run(
            kind=KIND,
            subject=subject_of(policy),
            arguments={"as_of": as_of.astimezone(UTC).isoformat()},
            owner=actor.user,
            idempotency_key=f"{policy.slug}@{uuid.uuid4().hex}",  # never joined with a run for another instant
            at=at,
            max_attempts=ATTEMPTS,
        )
    audit.record(actor=actor, verb="recompute.requested", at=at, policy_slug=policy.slug, subject=f"run {run.pk}")
    return run


def run_recompute(run: Run, lease: Lease) -> dict[str, Any]:
    """Load, compute and store; the snapshot and the end of the run are committed in one transaction."""
    policy = Policy.all_objects.get(slug=run.subject.removeprefix("policy:"))
    started_at = lease.clock()
    as_of_text = run.arguments.get("as_of")
    as_of = datetime.fromisoformat(as_of_text) if as_of_text else tick_of(started_at)
    if as_of_text is None:
        current = _current(policy, as_of)
        if current is not None:
            return pipeline.result_json(current)
    is_past = as_of_text is not None
    register_partitions_of(policy, at=started_at)
    inputs = pipeline.load_inputs(policy, as_of=as_of, is_past=is_past)
    fault_point("recompute.after_load")
    if not is_past:
        with lease.fenced() as row:
            extended = extend(inputs, at=lease.clock())
            if extended is not None:
                result = pipeline.result_json(extended)
                lease.finish(result, lease.clock())
                return result
    computed = pipeline.compute(inputs)
    fault_point("recompute.after_compute")
    with lease.fenced() as row:
        snapshot = pipeline.store_result(
            inputs,
            computed,
            is_live=as_of_text is None,
            started_at=started_at,
            computed_at=lease.clock(),
            run=row,
        )
        result = pipeline.result_json(snapshot)
        if inputs.known_later is not None:
            result["known_later"] = inputs.known_later
        fault_point("recompute.after_store")
        lease.finish(result, lease.clock())
        fault_point("recompute.before_commit")
    fault_point("recompute.after_commit")
    return result


def _may_request(policy: Policy, actor: Actor, at: datetime) -> bool:
    """Whether the user may edit some entry of the policy; a token needs `policies:write`."""
    if actor.user is None or not actor.has_scope(Token.Scope.POLICIES_WRITE):
        return False
    return bool(Rights(policy, actor, at).at(Verb.EDIT_SHARES, Verb.EDIT_STRUCTURE))
