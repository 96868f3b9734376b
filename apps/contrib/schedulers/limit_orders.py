"""Limits of accounts for an agent: which accounts of the scheduler belong to entries that are limited now, and why.

The account of an entry is the one that the export of shares names (`shares_for_slurm`). Limits are ordered by a
revision of the policy; what bounds them is in the scheduler's settings, and kept by the agent, too.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from cachetools import LRUCache

from agent.limits import FORMAT, is_valid_line
from apps.contrib.schedulers.models import LimitListing, LimitSettings, Scheduler, ShareListing
from apps.contrib.schedulers.share_listing import load_listing
from apps.core.derived_state import in_memory
from apps.policies.files.exports import ListedAssociation, shares_for_slurm
from apps.policies.ordered_limits import AccountLimit, account_limits
from apps.policies.tree.stored import load_tree

DERIVED_STATE = (
    in_memory(
        "_entries",
        holds="the entry of each account of a scheduler",
        key="policy, head revision, digest of the listed shares",
        inputs="tree, accounts that the agent listed",
        range="one tree",
        ends="100 others",
    ),
)

_entries: LRUCache[tuple[int, int, str], dict[str, UUID]] = LRUCache(100)
_lock = threading.Lock()


@dataclass(frozen=True)
class WantedLimit:
    """The limit that an account should have. problem: why the agent doesn't get it: "", invalid, other_scheduler,
    or not_approved."""

    account: str
    entry_uid: UUID
    path: str
    limit: AccountLimit
    problem: str

    @property
    def line(self) -> dict[str, Any]:
        limit = self.limit
        return {
            "account": self.account,
            "grp_tres_mins": dict(limit.grp_tres_mins or {}),
            "qos": limit.qos or None,
            "reason": limit.reason[:300],
            "since": limit.since.isoformat(),
        }


def settings_of(scheduler: Scheduler) -> LimitSettings:
    """The bounds of a scheduler; the defaults, unsaved, before the first change."""
    return LimitSettings.objects.filter(scheduler=scheduler).first() or LimitSettings(scheduler=scheduler)


def effective_accounts(scheduler: Scheduler, settings: LimitSettings) -> list[str]:
    """Accounts whose limits the agent gets: those named; outside shadow mode, those that a second person approved."""
    if scheduler.mode not in (Scheduler.Mode.CANARY, Scheduler.Mode.ON):
        return list(settings.accounts)
    approved = set(settings.approved_accounts)
    return [name for name in settings.accounts if name in approved]


def effective_bounds(scheduler: Scheduler, settings: LimitSettings) -> tuple[int, int]:
    """Percent a day and seconds to the lapse for the agent: outside shadow mode, not wider than was approved."""
    approved = settings.approved_percent_a_day, settings.approved_lapse_s
    if scheduler.mode not in (Scheduler.Mode.CANARY, Scheduler.Mode.ON) or None in approved:
        return settings.percent_a_day, settings.lapse_s
    return min(settings.percent_a_day, approved[0] or 0), min(settings.lapse_s, approved[1] or 0)


def has_wider_bounds(settings: LimitSettings) -> bool:
    """Whether the owner gave wider bounds than a second person approved."""
    percent, lapse_s = settings.approved_percent_a_day, settings.approved_lapse_s
    return percent is None or lapse_s is None or settings.percent_a_day > percent or settings.lapse_s > lapse_s


def limit_order_of(scheduler: Scheduler, at: datetime) -> dict[str, Any] | None:
    """The order for the agent; None if the scheduler doesn't carry limits.

    as_of is the minute, so that an agent without newer orders knows it.
    """
    if scheduler.carries != Scheduler.Carries.LIMITS:
        return None
    settings = settings_of(scheduler)
    wanted = list_wanted_limits(scheduler, settings, at)
    return _order(scheduler, settings, at, [each.line for each in wanted if not each.problem])


def order_tag(order: Mapping[str, Any] | None) -> str:
    """Part of the tag of orders that changes with the limits, and each minute."""
    if order is None:
        return ""
    return "-" + hashlib.sha256(json.dumps(order, sort_keys=True).encode()).hexdigest()[:12]


def list_wanted_limits(scheduler: Scheduler, settings: LimitSettings, at: datetime) -> list[WantedLimit]:
    """Limits of named accounts by name, also those that the agent doesn't get."""
    limits = {each.entry_uid: each for each in account_limits(scheduler.policy, at)}
    if not limits or not settings.accounts:
        return []
    tree, of_others = load_tree(scheduler.policy), _named_by_others(scheduler)
    entries, effective = entries_of_accounts(scheduler), set(effective_accounts(scheduler, settings))
    within = None
    if scheduler.subtree_uid is not None:
        top = tree.index_of_uid(scheduler.subtree_uid)
        within = tree.subtree_mask(top) if top is not None else tree.subtree_mask(0) & False
    wanted = []
    for account in sorted(settings.accounts):
        uid = entries.get(account)
        i = None if uid is None else tree.index_of_uid(uid)
        if uid is None or i is None or uid not in limits or (within is not None and not within[i]):
            continue
        each = WantedLimit(account, uid, tree.path(i), limits[uid], "")
        if not each.limit.qos and not each.limit.grp_tres_mins:
            continue
        wanted.append(replace(each, problem=_problem(each, effective, of_others)))
    return wanted


def entries_of_accounts(scheduler: Scheduler) -> dict[str, UUID]:
    """The entry of each account of the scheduler, by name."""
    digest = ShareListing.objects.filter(scheduler=scheduler).values_list("digest", flat=True).first() or ""
    key = (scheduler.policy_id, scheduler.policy.head_number, digest)
    with _lock:
        known = _entries.get(key)
    if known is None:
        listing = load_listing(scheduler) if digest else None
        rows = [] if listing is None else listing.rows
        tree = load_tree(scheduler.policy)
        listed = [ListedAssociation(row.group, row.user, row.partition, row.parent, row.shares) for row in rows]
        shares = shares_for_slurm(tree, "" if listing is None else listing.cluster, listed).shares
        known = {group: tree.uuid(row) for (group, user), (_shares, row) in shares.items() if not user}
        with _lock:
            _entries[key] = known
    return known


def _problem(each: WantedLimit, effective: set[str], of_others: set[str]) -> str:
    if not is_valid_line(each.line):
        return "invalid"  # one bad line must not keep the agent from all others
    if each.account in of_others:
        return "other_scheduler"
    return "" if each.account in effective else "not_approved"


def _named_by_others(scheduler: Scheduler) -> set[str]:
    """Accounts that an older scheduler of the same cluster names: one agent alone sets a limit."""
    cluster = LimitListing.objects.filter(scheduler=scheduler).values_list("cluster", flat=True).first()
    if not cluster:
        return set()
    older = LimitSettings.objects.filter(
        scheduler__carries=Scheduler.Carries.LIMITS,
        scheduler__limit_listing__cluster=cluster,
        scheduler__pk__lt=scheduler.pk,
    ).exclude(scheduler__mode=Scheduler.Mode.OFF)
    return {name for each in older for name in each.accounts}


def _order(
    scheduler: Scheduler, settings: LimitSettings, at: datetime, lines: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    percent_a_day, lapse_s = effective_bounds(scheduler, settings)
    return {
        "format": FORMAT,
        "as_of": at.replace(second=0, microsecond=0).isoformat().replace("+00:00", "Z"),
        "lapse_s": lapse_s,
        "percent_a_day": percent_a_day,
        "canary": settings.canary_account or None,
        "accounts": effective_accounts(scheduler, settings),
        "lines": list(lines),
    }
