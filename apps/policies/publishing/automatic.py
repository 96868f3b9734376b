"""Change sets without an author: the effects of rules and dates, listed in the history like any other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from django.db import transaction

from apps.accounts.actor import SYSTEM
from apps.accounts.audit.log import record
from apps.core.errors import DomainError
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.operations.apply import work_out
from apps.policies.operations.tree_edits import Archived
from apps.policies.publishing.revisions import lock_policy
from apps.policies.services import new_change_set, publish_locked
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_archived, load_tree
from apps.policies.tree.terms import Dates

_MOST_LEFT_OUT = 20  # that the log names one by one
Operation = Mapping[str, Any]


def publish_automatic(
    *, policy_id: int, operations: Sequence[Mapping[str, Any]], origin: str, reason: str, at: datetime
) -> Revision | None:
    """Publish operations in the system's name, skipping those that fail; None when none is left.

    Skipped ones (a name used meanwhile, an entry archived meanwhile) are logged with the reason.
    """
    with transaction.atomic():
        policy = lock_policy(policy_id)
        tree, settings = load_tree(policy), settings_of(policy, policy.head_number)
        archived = partial(load_archived, policy)
        fitting, left_out = _fitting(tree, operations, settings, archived)
        for operation, error in left_out[:_MOST_LEFT_OUT]:
            record(
                actor=SYSTEM,
                verb="policy.automatic",
                at=at,
                policy_slug=policy.slug,
                outcome="failed",
                reason=error.message,
                details={"operation": dict(operation), "n_left_out": len(left_out)},
            )
        if not fitting:
            return None
        outcome = work_out(tree, fitting, settings=settings, archived=archived)
        if outcome.is_empty:
            return None
        change_set = new_change_set(
            policy, policy.head_number, outcome.operations, reason, None, SYSTEM, at, origin=origin
        )
        return publish_locked(change_set, SYSTEM, at)


def _fitting(
    tree: TreeColumns, operations: Sequence[Operation], settings: PolicySettings, archived: Archived
) -> tuple[list[Operation], list[tuple[Operation, DomainError]]]:
    """Those that can be done after one another, and the others with what is wrong with them.

    All are tried together, and halves where that fails: a thousand that fit are worked out once, not one by one.
    """
    fitting: list[Operation] = []
    left_out: list[tuple[Operation, DomainError]] = []
    waiting = [list(operations)]
    while waiting:
        some = waiting.pop()
        try:
            work_out(tree, [*fitting, *some], settings=settings, archived=archived)
            fitting += some
        except DomainError as error:
            if len(some) == 1:
                left_out.append((some[0], error))
            elif some:
                waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
    return fitting, left_out


def apply_dates(*, at: datetime, zone: ZoneInfo) -> list[Revision]:
    """What begins or ends today, in every policy, one change set each. A second run finds nothing left to do."""
    today = at.astimezone(zone).date()
    published = []
    for policy in Policy.objects.filter(head_number__gt=0).order_by("pk"):
        operations = list(_due(load_tree(policy), today))
        if not operations:
            continue
        revision = publish_automatic(
            policy_id=policy.pk,
            operations=operations,
            origin=ChangeSet.Origin.DATES,
            at=at,
            reason=f"Dates of shares reached on {today.isoformat()}.",
        )
        if revision is not None:
            published.append(revision)
    return published


def _due(tree: TreeColumns, today: date) -> Iterator[dict[str, Any]]:
    """Operations for every entry whose first day has come, or whose last day is over."""
    for i, dates in sorted(tree.dates.items()):
        uid = str(tree.uuid(i))
        if dates.ends_on is not None and dates.ends_on < today and dates.at_end != "keep":
            if dates.at_end == "archive":
                yield {"op": "archive", "entry": uid}
                continue
            yield {"op": "set_shares", "entry": uid, "shares": 0 if dates.at_end == "zero" else dates.at_end}
            yield {"op": "set_dates", "entry": uid, "dates": None}
        elif dates.shares is not None and dates.starts_on is not None and dates.starts_on <= today:
            yield {"op": "set_shares", "entry": uid, "shares": dates.shares}
            yield {"op": "set_dates", "entry": uid, "dates": replace(dates, shares=None).to_json()}


def is_over(dates: Dates, today: date) -> bool:
    """The last day has passed, and the entry has kept its shares."""
    return dates.ends_on is not None and dates.ends_on < today
