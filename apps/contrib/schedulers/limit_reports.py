"""What the agent reports about limits of accounts: stored, and each change written to the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.contrib.schedulers.models import LimitListing, Scheduler

MOST_LOGGED = 100


def store_limits(
    scheduler: Scheduler,
    report: Mapping[str, Any] | None,
    restored: Sequence[Mapping[str, Any]],
    taken_at: datetime,
    at: datetime,
    actor: Actor,
    *,
    is_newest: bool,
) -> None:
    """Store what the agent reports, in the caller's transaction, which locked the scheduler."""
    if restored:
        accounts = [{key: each[key] for key in ("account", "cause", "code", "detail")} for each in restored]
        _log("scheduler.limits_restored", scheduler, at, actor, accounts)
    if report is None or not is_newest:
        return
    before = LimitListing.objects.filter(scheduler=scheduler).first()
    was_set = {each["account"] for each in (before.accounts if before else []) if each["code"] == "set"}
    new = [each for each in report["accounts"] if each["code"] == "set" and each["account"] not in was_set]
    if new:
        named = [{key: each[key] for key in ("account", "before", "ours")} for each in new]
        _log("scheduler.limits_set", scheduler, at, actor, named)
    if report["ended_at"] is not None and (before is None or before.ended_at != report["ended_at"]):
        _log("scheduler.limits_ended", scheduler, at, actor, [{"by": report["ended_by"]}])
    accounts = [{**each, "set_at": each["set_at"] and each["set_at"].isoformat()} for each in report["accounts"]]
    columns = {key: report[key] for key in ("cluster", "lapses_at", "ended_at", "ended_by")}
    LimitListing.objects.update_or_create(
        scheduler=scheduler, defaults={"taken_at": taken_at, "accounts": accounts, **columns}
    )


def _log(verb: str, scheduler: Scheduler, at: datetime, actor: Actor, accounts: Sequence[Mapping[str, Any]]) -> None:
    audit.record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=scheduler.policy.slug,
        subject=scheduler.name,
        details={"accounts": list(accounts)[:MOST_LOGGED], "n_accounts": len(accounts)},
    )
