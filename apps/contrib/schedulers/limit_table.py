"""Limits of accounts of a scheduler side by side: named, what should be set and why, and what the agent reports."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from agent.limits import limit_argv
from apps.accounts.actor import Actor
from apps.contrib.schedulers.limit_orders import (
    WantedLimit,
    entries_of_accounts,
    list_wanted_limits,
    settings_of,
)
from apps.contrib.schedulers.limit_settings import limits_tag
from apps.contrib.schedulers.models import LimitListing, LimitSettings, Scheduler
from apps.contrib.schedulers.selectors import get_scheduler
from apps.policies.tree.stored import load_tree

ACTIVE = ("set", "changed_meanwhile")  # codes of accounts in the agent's journal


@dataclass(frozen=True)
class AccountLimitRow:
    """An account that was named, or that the agent limited before it was removed from the names."""

    account: str
    path: Annotated[str | None, "Of the entry; null if no entry has this account"]
    wanted: Annotated[str | None, "Settings that it should have, such as cpu=0; null: none"]
    reason: Annotated[str | None, "Why, as the rule gives it"]
    since: Annotated[str | None, "First day of the limit"]
    state: Annotated[str, "What holds now; empty before the agent reported"]
    detail: str
    now: Annotated[str, "Its own settings in the scheduler, as the agent read them"]
    set_at: Annotated[datetime | None, "When the agent set it"]
    restore_command: Annotated[str | None, "Command that restores what was before; null if nothing is set"]
    is_approved: Annotated[bool, "Whether a second person approved the account"]

    @property
    def is_set(self) -> bool:
        return self.state == "set"


@dataclass(frozen=True)
class LimitTable:
    """Limits of one scheduler, with the bounds that its owner gave and the last report of its agent."""

    scheduler: Scheduler
    settings: LimitSettings
    listing: LimitListing | None
    rows: list[AccountLimitRow]

    @property
    def tag(self) -> str:
        return limits_tag(self.settings)

    @property
    def n_set(self) -> int:
        return sum(row.is_set for row in self.rows)

    @property
    def n_wanted(self) -> int:
        return sum(row.wanted is not None for row in self.rows)


def get_limit_table(*, name: str, at: datetime, actor: Actor) -> LimitTable:
    """Limits of a scheduler whose policy the actor manages."""
    scheduler = get_scheduler(name=name, at=at, actor=actor).scheduler
    settings = settings_of(scheduler)
    listing = LimitListing.objects.filter(scheduler=scheduler).first()
    wanted = {each.account: each for each in list_wanted_limits(scheduler, settings, at)}
    reported = {each["account"]: each for each in (listing.accounts if listing else [])}
    active = [account for account, each in reported.items() if each["code"] in ACTIVE]
    left = [account for account in active if account not in settings.accounts]
    entries, tree = entries_of_accounts(scheduler) if settings.accounts else {}, load_tree(scheduler.policy)
    paths = {account: tree.path(i) for account, uid in entries.items() if (i := tree.index_of_uid(uid)) is not None}
    cluster = listing.cluster if listing else ""
    approved = set(settings.approved_accounts)
    rows = [
        _row(account, paths.get(account), wanted.get(account), reported.get(account, {}), cluster, account in approved)
        for account in (*settings.accounts, *left)
    ]
    return LimitTable(scheduler, settings, listing, rows)


def _row(
    account: str,
    path: str | None,
    wanted: WantedLimit | None,
    reported: Mapping[str, Any],
    cluster: str,
    is_approved: bool,
) -> AccountLimitRow:
    state, set_at = reported.get("code", ""), reported.get("set_at")
    if wanted is not None and wanted.problem and state not in ACTIVE:
        state = wanted.problem
    return AccountLimitRow(
        account=account,
        path=path,
        wanted=None if wanted is None else _text(wanted),
        reason=None if wanted is None else wanted.limit.reason,
        since=None if wanted is None else wanted.limit.since.isoformat(),
        state=state,
        detail=reported.get("detail", ""),
        now=", ".join(f"{key}={value}" for key, value in sorted(reported.get("now", {}).items())),
        set_at=None if set_at is None else datetime.fromisoformat(set_at),
        restore_command=_restore_command(cluster, account, reported.get("before", {})),
        is_approved=is_approved,
    )


def _text(wanted: WantedLimit) -> str:
    minutes = [f"{name}={value}" for name, value in sorted((wanted.limit.grp_tres_mins or {}).items())]
    return ", ".join([*minutes, *([f"qos={wanted.limit.qos}"] if wanted.limit.qos else [])])


def _restore_command(cluster: str, account: str, before: Mapping[str, str]) -> str | None:
    try:
        return shlex.join(limit_argv(cluster, account, dict(before))) if before else None
    except ValueError:
        return None  # the agent would reject it, too
