"""Store reports of agents once each, with the queue, values, shares and checks that they contain."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.clock_watch import believed
from apps.contrib.schedulers.agreement import store_agreement
from apps.contrib.schedulers.going_back import remember_lines
from apps.contrib.schedulers.limit_reports import store_limits
from apps.contrib.schedulers.models import AgentPass, Agreement, QueueListing, RunningListing, Scheduler
from apps.contrib.schedulers.own_values import read_values, store_values
from apps.contrib.schedulers.permissions import find_scheduler, require_agent
from apps.contrib.schedulers.queue_changes import announce, is_followed
from apps.contrib.schedulers.queue_state import load_queue_state, state_of
from apps.contrib.schedulers.queue_table import QueueTable, pack_queue, read_queue
from apps.contrib.schedulers.running_table import RunningTable, pack_running, read_running
from apps.contrib.schedulers.selectors import newest_pass
from apps.contrib.schedulers.share_listing import read_listing
from apps.contrib.schedulers.share_reports import store_outcomes, store_restored, store_shares
from apps.core.errors import Conflict, Invalid

_AHEAD = timedelta(minutes=5)  # by which an agent's clock may be fast
_KEEP_PASSES = timedelta(days=14)  # enough to see what an agent did before a change; the audit log keeps the changes
_KEEP_AGREEMENTS = timedelta(days=400)  # a year of shadow mode with the month before it, at one row an instant
COUNTS = ("pending", "mapped", "unmapped", "due", "sent", "failed", "calls")


def record_pass(
    *, name: str, report: Mapping[str, Any], body_sha256: str, at: datetime, actor: Actor
) -> tuple[Scheduler, AgentPass]:
    """Store one report whose plain fields the caller has validated. A repeated report changes nothing.

    Queue and values are replaced as a whole, unless the report is older than the last one.

    Raises:
        Malformed: queue, values or shares are invalid; names the first invalid field.
        Invalid: `clock_ahead`: the agent's clock is fast.
        Conflict: `pass_reported`: another report with this id is stored.
    """
    scheduler = find_scheduler(name)
    require_agent(scheduler, actor, at)
    if max(report["started_at"], report["ended_at"]) > at + _AHEAD:
        raise Invalid("The pass ended in the future: correct the clock of the agent’s host.", code="clock_ahead")
    queue = None if report.get("queue") is None else read_queue(report["queue"])
    running = None if report.get("queue_state") is None else read_running(report["queue_state"])
    values = None if report.get("values") is None else read_values(report["values"])
    shares = None if report.get("shares") is None else read_listing(report["shares"])
    with transaction.atomic():
        scheduler = (
            Scheduler.objects.select_for_update(of=["self"], no_key=True).select_related("policy").get(pk=scheduler.pk)
        )
        before = AgentPass.objects.filter(scheduler=scheduler, uid=report["pass"]).first()
        if before is not None:
            if before.body_sha256 != body_sha256:
                raise Conflict("Another report with this id was stored: use a new id.", code="pass_reported")
            return scheduler, before
        last = newest_pass(scheduler)
        stored = _store_pass(scheduler, report, body_sha256, at)
        taken_at = report["started_at"]
        is_newest = last is None or last.started_at <= taken_at
        if queue is not None and is_newest:
            _store_queue(scheduler, queue, running, taken_at)
        if values is not None and is_newest:
            store_values(scheduler, values, taken_at)
            store_agreement(scheduler, values, taken_at)
        if report.get("checks") is not None and is_newest:
            scheduler.checks, scheduler.checked_at = report["checks"], taken_at
            remember_lines(scheduler, report["checks"], taken_at)
            scheduler.save(update_fields=["checks", "checked_at", "former_lines"])
        were_set = store_outcomes(scheduler, report.get("share_order"), at, actor)
        were_set |= store_restored(scheduler, report.get("restored_shares") or [], at, actor)
        store_shares(scheduler, shares if is_newest else None, were_set, taken_at)
        of_limits = report.get("account_limits"), report.get("restored_limits") or []
        store_limits(scheduler, *of_limits, taken_at, at, actor, is_newest=is_newest)
        if is_newest:
            _log_change(scheduler, last, stored, at, actor)
    return scheduler, stored


def _store_queue(scheduler: Scheduler, queue: QueueTable, running: RunningTable | None, taken_at: datetime) -> None:
    before = load_queue_state(scheduler) if is_followed() else None
    data, digest = pack_queue(queue)
    listing = {"taken_at": taken_at, "n_jobs": len(queue), "data": data, "digest": digest}
    QueueListing.objects.update_or_create(scheduler=scheduler, defaults=listing)
    if running is None:  # of an agent that lists none: those of an earlier one would be out of date
        RunningListing.objects.filter(scheduler=scheduler).delete()
    else:
        data, digest = pack_running(running)
        listing = {"taken_at": taken_at, "n_jobs": len(running), "data": data, "digest": digest}
        RunningListing.objects.update_or_create(scheduler=scheduler, defaults=listing)
    if is_followed():
        announce(scheduler, before, state_of(queue, running, taken_at))


def _store_pass(scheduler: Scheduler, report: Mapping[str, Any], body_sha256: str, at: datetime) -> AgentPass:
    frozen = report.get("frozen") or {}
    uid: UUID = report["pass"]
    return AgentPass.objects.create(
        scheduler=scheduler,
        uid=uid,
        body_sha256=body_sha256,
        received_at=at,
        started_at=report["started_at"],
        ended_at=report["ended_at"],
        agent=report["agent"],
        host=report["host"],
        scheduler_version=report.get("scheduler_version") or "",
        orders_revision=report["orders_revision"],
        mode=report["mode"],
        snapshot=report.get("snapshot"),
        snapshot_age_s=report.get("snapshot_age_s"),
        **{name: report["jobs"][name] for name in COUNTS},
        frozen_code=frozen.get("code", ""),
        frozen_detail=frozen.get("detail", "")[:1_000],
        errors=report.get("errors", []),
        unmapped_names=report.get("unmapped", []),
    )


def _log_change(scheduler: Scheduler, last: AgentPass | None, stored: AgentPass, at: datetime, actor: Actor) -> None:
    """Write to the audit log when an agent starts, freezes or resumes; the passes contain the rest."""
    was, is_now = (last.frozen_code if last else None), stored.frozen_code
    if was == is_now:
        return
    verb = "scheduler.agent_frozen" if is_now else "scheduler.agent_began" if was is None else "scheduler.agent_went_on"
    details = {"host": stored.host, "agent": stored.agent, "code": is_now, "detail": stored.frozen_detail}
    slug = scheduler.policy.slug
    audit.record(actor=actor, verb=verb, at=at, policy_slug=slug, subject=scheduler.name, details=details)


def prune_passes(*, at: datetime) -> int:
    """Delete passes and agreements past their retention, except each scheduler's last pass; returns the number of
    passes.
    """
    at = believed(at)
    oldest = at - _KEEP_PASSES
    last = AgentPass.objects.order_by("scheduler_id", "-id").distinct("scheduler_id").values("pk")
    gone, _each = (
        AgentPass.objects.filter(received_at__lt=oldest)
        .exclude(pk__in=list(last.values_list("pk", flat=True)))
        .delete()
    )
    Agreement.objects.filter(at__lt=at - _KEEP_AGREEMENTS).delete()
    return gone
