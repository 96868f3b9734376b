"""What an agent reports about shares: the listing, and what became of the lines of an order."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.schedulers.models import Scheduler, ShareOrder
from apps.schedulers.shares.listing import Key, ListedShare, Listing, agreed_now, keep_listing, load_listing
from apps.schedulers.shares.selectors import difference_with

SET = ("done", "already")  # outcomes of lines that the scheduler has now


def store_shares(
    scheduler: Scheduler,
    listed: tuple[str, list[ListedShare]] | None,
    outcomes: Mapping[str, Any] | None,
    taken_at: datetime,
    at: datetime,
    actor: Actor,
) -> None:
    """In the caller's transaction, which has the scheduler locked."""
    were_set = {} if outcomes is None else _store_outcomes(scheduler, outcomes, at, actor)
    before = load_listing(scheduler)
    if listed is None and (before is None or not were_set):
        return
    cluster, rows = (before.cluster, before.rows) if listed is None and before is not None else listed or ("", [])
    same_cluster = before is not None and before.cluster == cluster
    wanted = difference_with(scheduler, Listing(cluster, taken_at, rows, "")).wanted
    known = before.by_key if before is not None and same_cluster else {}
    agreed = agreed_now(rows, known, {key: shares for key, (shares, _row) in wanted.items()}, were_set)
    keep_listing(scheduler, cluster, agreed, taken_at)


def _store_outcomes(scheduler: Scheduler, given: Mapping[str, Any], at: datetime, actor: Actor) -> dict[Key, str]:
    """The shares that were set. An order that was cancelled meanwhile stays so, with what was done of it."""
    order = ShareOrder.objects.select_for_update().filter(scheduler=scheduler, pk=given["id"]).first()
    if order is None:
        return {}
    were_set = {}
    for each in given["outcomes"]:
        if 0 <= each["line"] < len(order.lines):
            line = order.lines[each["line"]]
            line["outcome"], line["detail"] = each["code"], each["detail"]
            if each["code"] in SET:
                were_set[Key(line["group"], line["user"])] = line["after"]
    if order.state == ShareOrder.State.OPEN and all(line["outcome"] for line in order.lines):
        is_done = all(line["outcome"] in SET for line in order.lines)
        order.state = ShareOrder.State.DONE if is_done else ShareOrder.State.FAILED
        order.ended_at = at
        _log_end(scheduler, order, at, actor)
    order.save()
    return were_set


def _log_end(scheduler: Scheduler, order: ShareOrder, at: datetime, actor: Actor) -> None:
    n_set = sum(line["outcome"] in SET for line in order.lines)
    audit.record(
        actor=actor,
        verb="scheduler.shares_set",
        at=at,
        policy_slug=scheduler.policy.slug,
        subject=scheduler.name,
        details={"order": order.pk, "state": order.state, "lines": len(order.lines), "set": n_set},
    )
