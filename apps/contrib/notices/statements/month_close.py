"""Closes complete months: their statements are stored, and later findings are shown as corrections.

Until then a statement is computed on each request. A month of a policy is closed a week after its end, if the daily
series has all of its days and none has to be rebuilt; all groups in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import numpy as np
from django.db import connection, transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import SYSTEM
from apps.contrib.notices.models import Statement
from apps.contrib.notices.statements.selectors import compute_statement
from apps.policies.models import Policy, Revision
from apps.policies.tree.stored import load_tree
from apps.series.daily_series import SeriesState
from apps.series.days import site_zone
from apps.series.months import Month, month_of
from apps.series.stored_series import load_series, series_state

GRACE = timedelta(days=7)  # usage of the last days arrives late
MOST_CLOSED_MONTHS = 24  # closed in one run, and how far back
_BATCH = 1_000  # entries read at once
_LOCK = 0x73746D74  # "stmt"


def close_months(*, at: datetime) -> int:
    """Returns how many statements were stored. Safe to run twice or concurrently, and to be killed."""
    n_kept = 0
    for policy in Policy.objects.filter(head_number__gt=0).order_by("pk"):
        state = series_state(policy)
        for month in _due(policy, state, at):
            n_kept += _close(policy, month, at)
    return n_kept


def _due(policy: Policy, state: SeriesState, at: datetime) -> Iterator[Month]:
    """Complete months, built and up to date, in which there was a published revision; oldest first."""
    if state.through_on is None or state.first_on is None:
        return
    today = at.astimezone(site_zone()).date()
    latest = min(today - GRACE, state.through_on)
    if state.stale_from_on is not None:
        latest = min(latest, state.stale_from_on - timedelta(days=1))
    first_at = Revision.objects.filter(policy=policy).earliest("number").published_at
    first = max(
        month_of(first_at.astimezone(site_zone()).date()), month_of(state.first_on), key=lambda each: each.first_on
    )
    done = set(Statement.objects.filter(policy=policy).values_list("month_on", flat=True).distinct())
    for n in range(MOST_CLOSED_MONTHS, 0, -1):
        month = month_of(today).before(n)
        if first.first_on <= month.first_on and month.last_on <= latest and month.first_on not in done:
            yield month


def _close(policy: Policy, month: Month, at: datetime) -> int:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_LOCK, policy.pk])
        if Statement.objects.filter(policy=policy, month_on=month.first_on).exists():
            return 0
        groups = _groups(policy, month)
        n_kept = sum(
            _keep(policy, groups[start : start + _BATCH], month, at) for start in range(0, len(groups), _BATCH)
        )
        if n_kept:
            details = {"month": month.text, "n_statements": n_kept}
            audit.record(
                actor=SYSTEM,
                verb="statement.closed",
                at=at,
                policy_slug=policy.slug,
                subject=f"{policy.slug} {month.text}",
                details=details,
            )
    return n_kept


def _groups(policy: Policy, month: Month) -> list[UUID]:
    """Groups in the tree at the start or end of the month, or now."""
    days = load_series(policy, (), from_on=month.first_on, to_on=month.last_on).days
    revisions = {policy.head_number, *(np.unique(days.revision)[[0, -1]].tolist() if len(days.on) else ())}
    groups: dict[UUID, None] = {}
    for number in sorted(revisions):
        tree = load_tree(policy, number)
        groups |= dict.fromkeys(tree.uuid(i) for i in np.flatnonzero(tree.is_group).tolist() if i)
    return list(groups)


def _keep(policy: Policy, uids: Sequence[UUID], month: Month, at: datetime) -> int:
    series = load_series(policy, uids, from_on=month.first_on, to_on=month.last_on)
    rows = []
    for row, uid in enumerate(uids):
        figures = compute_statement(series, row, month)
        if figures.n_days:
            rows.append(
                Statement(
                    policy=policy, entry_uid=uid, month_on=month.first_on, figures=figures.to_json(), closed_at=at
                )
            )
    Statement.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)
