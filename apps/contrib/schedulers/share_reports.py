"""What the agent reports about orders of shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.contrib.schedulers.models import Scheduler, ShareOrder
from apps.contrib.schedulers.selectors import difference_with
from apps.contrib.schedulers.share_listing import (
    Key,
    ListedShare,
    ListedShares,
    load_listing,
    store_listing,
    with_agreed,
)

SET = ("done", "already")  # outcomes of lines whose shares the scheduler now has


def store_shares(
    scheduler: Scheduler, listed: tuple[str, list[ListedShare]] | None, were_set: Mapping[Key, str], taken_at: datetime
) -> None:
    """Store listed shares, and which ones the agent set, in the caller's transaction, which locked the scheduler."""
    before = load_listing(scheduler)
    if listed is None and (before is None or not were_set):
        return
    cluster, rows = (before.cluster, before.rows) if listed is None and before is not None else listed or ("", [])
    same_cluster = before is not None and before.cluster == cluster
    wanted = difference_with(scheduler, ListedShares(cluster, taken_at, rows, "")).wanted
    known = before.by_key if before is not None and same_cluster else {}
    agreed = with_agreed(rows, known, {key: shares for key, (shares, _row) in wanted.items()}, were_set)
    store_listing(scheduler, cluster, agreed, taken_at)


def store_outcomes(
    scheduler: Scheduler, report: Mapping[str, Any] | None, at: datetime, actor: Actor
) -> dict[Key, str]:
    """Store outcomes of an order; returns the shares that were set. A cancelled order stays cancelled."""
    if report is None:
        return {}
    order = ShareOrder.objects.select_for_update(no_key=True).filter(scheduler=scheduler, pk=report["id"]).first()
    if order is None:
        return {}
    for each in report["outcomes"]:
        if 0 <= each["line"] < len(order.lines):
            line = order.lines[each["line"]]
            line["outcome"], line["detail"] = each["code"], each["detail"]
    if order.state == ShareOrder.State.OPEN and all(line["outcome"] for line in order.lines):
        _end(order, at)
        _log_end("scheduler.shares_set", scheduler, order, at, actor)
    order.save()
    reported = {each["line"] for each in report["outcomes"]}
    return _were_set(line for i, line in enumerate(order.lines) if i in reported)


def store_restored(
    scheduler: Scheduler, restored_lines: Sequence[Mapping[str, str]], at: datetime, actor: Actor
) -> dict[Key, str]:
    """Store what a reset did with the shares as an order that has ended; returns the shares that were restored."""
    if not restored_lines:
        return {}
    known = load_listing(scheduler)
    names = ("group", "user", "before", "after", "detail")
    order = ShareOrder(
        scheduler=scheduler,
        cluster="" if known is None else known.cluster,
        revision_number=scheduler.policy.head_number,
        lines=[{**{name: each[name] for name in names}, "outcome": each["code"]} for each in restored_lines],
        created_at=at,
        created_by=actor.name,
    )
    _end(order, at)
    order.save()
    _log_end("scheduler.shares_restored", scheduler, order, at, actor)
    return _were_set(order.lines)


def _end(order: ShareOrder, at: datetime) -> None:
    is_done = all(line["outcome"] in SET for line in order.lines)
    order.state = ShareOrder.State.DONE if is_done else ShareOrder.State.FAILED
    order.ended_at = at


def _were_set(lines: Iterable[Mapping[str, str]]) -> dict[Key, str]:
    return {Key(line["group"], line["user"]): line["after"] for line in lines if line["outcome"] in SET}


def _log_end(verb: str, scheduler: Scheduler, order: ShareOrder, at: datetime, actor: Actor) -> None:
    n_set = sum(line["outcome"] in SET for line in order.lines)
    audit.record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=scheduler.policy.slug,
        subject=scheduler.name,
        details={"order": order.pk, "state": order.state, "lines": len(order.lines), "set": n_set},
    )
