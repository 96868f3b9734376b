"""Entries outside a subscription that entered the policy after its peer had reported usage of them.

A document that names such an entry is rejected. While the entry didn't exist, its reported usage waited unassigned: it
must not count once the entry appears, however the peer learned its uid.
"""

from __future__ import annotations

from datetime import datetime

import numpy as np
from django.db import connection, transaction
from django.db.models import F

from apps.accounts.actor import SYSTEM
from apps.accounts.audit.log import record
from apps.accounts.names.entry_names import ENTRY_NAMESPACE
from apps.federation.models import Subscription
from apps.policies.tree.stored import load_tree
from apps.usage.buckets.hourly import AMOUNTS
from apps.usage.models import Bucket, Record
from apps.usage.records.peer_sums import HourSums, Running, replace_running, replace_sums

_HOUR_S = 3_600
_REPORTED = """
SELECT account.id FROM accounts_account AS account
WHERE account.namespace = %(namespace)s AND account.user_name = ANY(%(names)s::text[])
    AND (EXISTS (SELECT FROM usage_bucket WHERE source_id = %(source)s AND account_id = account.id)
        OR EXISTS (SELECT FROM usage_record WHERE source_id = %(source)s AND account_id = account.id))
"""


def drop_out_of_scope_entries(at: datetime) -> int:
    """Check each subscription once after each new revision of its policy; returns how many had any."""
    n_had = 0
    moved_on = Subscription.objects.exclude(checked_number=F("policy__head_number"))
    for pk in moved_on.order_by("pk").values_list("pk", flat=True):
        with transaction.atomic():
            rows = Subscription.objects.select_for_update(of=("self",)).select_related("policy", "source")
            row = rows.filter(pk=pk).first()
            if row is None:
                continue
            strangers = _out_of_scope_entries(row)
            if strangers:
                _drop(row, strangers, at)
                n_had += 1
            row.checked_number = row.policy.head_number
            row.save(update_fields=["checked_number"])
    return n_had


def _out_of_scope_entries(row: Subscription) -> list[int]:
    """Accounts of entries outside the subscription for which its peer has reported usage."""
    tree = load_tree(row.policy)
    here = tree.index_of_uid(row.entry_uid)
    outside = np.ones(len(tree), dtype=np.bool_) if here is None else ~tree.subtree_mask(here)
    names = [str(tree.uuid(i)) for i in np.flatnonzero(outside).tolist()]
    with connection.cursor() as cursor:
        cursor.execute(_REPORTED, {"namespace": ENTRY_NAMESPACE, "names": names, "source": row.source_id})
        return [found for (found,) in cursor.fetchall()]


def _drop(row: Subscription, strangers: list[int], at: datetime) -> None:
    """Their hours again without them; running jobs come again with the next document."""
    mine = Bucket.objects.filter(source=row.source)
    hours = list(mine.filter(account_id__in=strangers).values_list("hour_at", flat=True).distinct())
    rest = list(
        mine.filter(hour_at__in=hours).exclude(account_id__in=strangers).values_list("hour_at", "account_id", *AMOUNTS)
    )
    sums = HourSums(
        np.array([_number(hour_at) for hour_at, *_ in rest], np.int64),
        np.array([account for _, account, *_ in rest], np.int64),
        np.array([amounts for _, _, *amounts in rest], np.float64).reshape(-1, len(AMOUNTS)),
    )
    replace_sums(row.source, told=np.array([_number(each) for each in hours], np.int64), rows=sums, at=at)
    if Record.objects.filter(source=row.source, account_id__in=strangers).exists():
        none, nothing = np.zeros(0, np.int64), np.zeros(0)
        replace_running(row.source, Running(none, none, *[nothing] * 6), at=at)
    record(
        actor=SYSTEM,
        verb="federation.out_of_scope_dropped",
        at=at,
        policy_slug=row.policy.slug,
        entry_uid=row.entry_uid,
        subject=str(row),
        details={"entries": len(strangers), "hours": len(hours)},
        outcome="failed",
    )


def _number(hour_at: datetime) -> int:
    return int(hour_at.timestamp()) // _HOUR_S
