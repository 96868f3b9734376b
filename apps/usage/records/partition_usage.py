"""Usage of Slurm's associations of one partition: make their accounts, and move the usage that was stored before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from apps.accounts.account_ids import account_ids
from apps.accounts.account_keys import AccountKey
from apps.accounts.models import Account
from apps.accounts.partition_accounts import mark_of_partitions, plain_accounts
from apps.runs.fault_points import fault_point
from apps.usage import changed_hours
from apps.usage.bucket_deltas import AMOUNTS
from apps.usage.models import Source
from apps.usage.records.stored_versions import lock_source

_MOVES = """
unnest(%(before)s::int8[], %(after)s::int8[], %(partitions)s::text[]) AS move(before, after, partition)
JOIN usage_jobclass AS class ON lower(split_part(class.partition, ',', 1)) = move.partition
"""
_OF_ROW = "{table}.source_id = %(source)s AND {table}.account_id = move.before AND {table}.job_class_id = class.id"
_MOVE_RECORDS = f"""
WITH moved AS (
    UPDATE usage_record SET account_id = move.after FROM {_MOVES} WHERE {_OF_ROW.format(table="usage_record")}
    RETURNING LEAST(submit_at, start_at) AS since)
SELECT min(since) FROM moved
"""  # noqa: S608 - constants only
_MOVE_REPLACED = f"""
UPDATE usage_replacedrecord SET account_id = move.after FROM {_MOVES}
WHERE {_OF_ROW.format(table="usage_replacedrecord")}
"""  # noqa: S608 - constants only
_KEY = "hour_at, source_id, account_id, job_class_id, site"
_MOVE_BUCKETS = f"""
WITH moved AS (
    DELETE FROM usage_bucket USING {_MOVES} WHERE {_OF_ROW.format(table="usage_bucket")}
    RETURNING hour_at, source_id, move.after AS account_id, job_class_id, site, {", ".join(AMOUNTS)}),
added AS (
    INSERT INTO usage_bucket ({_KEY}, {", ".join(AMOUNTS)})
    SELECT {_KEY}, {", ".join(f"sum({name})" for name in AMOUNTS)} FROM moved GROUP BY {_KEY}
    ON CONFLICT (hour_at, source_id, account_id, job_class_id, site)
    DO UPDATE SET {", ".join(f"{name} = usage_bucket.{name} + EXCLUDED.{name}" for name in AMOUNTS)})
SELECT min(hour_at) FROM moved
"""  # noqa: S608 - constants only
_MOVE_KINDS = f"""
WITH moved AS (
    DELETE FROM usage_kindhour USING {_MOVES} WHERE {_OF_ROW.format(table="usage_kindhour")}
    RETURNING hour_at, source_id, move.after AS account_id, job_class_id, site, kind_id, amount)
INSERT INTO usage_kindhour ({_KEY}, kind_id, amount)
SELECT {_KEY}, kind_id, sum(amount) FROM moved GROUP BY {_KEY}, kind_id
ON CONFLICT (hour_at, source_id, account_id, job_class_id, site, kind_id)
DO UPDATE SET amount = usage_kindhour.amount + EXCLUDED.amount
"""  # noqa: S608 - constants only
_RAISE_WATERMARK = "UPDATE usage_source SET watermark = watermark + 1 WHERE id = %s"


def register_partition_accounts(keys: Iterable[AccountKey], *, at: datetime) -> int:
    """Let jobs of these users in these partitions (`project`) count for these accounts, also those that ran before.

    Returns the number of accounts that are new as such.
    """
    wanted = [key._replace(project=key.project.lower()) for key in keys]
    if not wanted:
        return 0
    registered = set(
        Account.objects.filter(is_of_partition=True, namespace__in={key.namespace for key in wanted}).values_list(
            *AccountKey._fields
        )
    )
    missing = [key for key in dict.fromkeys(wanted) if key not in registered]
    if not missing:
        return 0
    with transaction.atomic():
        ids = set(account_ids(missing, at=at).values())
        new = list(Account.objects.filter(pk__in=ids, is_of_partition=False).order_by("pk"))
        sources = Source.all_objects.filter(namespace__in={account.namespace for account in new}).order_by("pk")
        by_namespace = list(sources.values_list("pk", "namespace"))
        for source_id, _namespace in by_namespace:
            lock_source(source_id)
        mark_of_partitions([account.pk for account in new])
        for source_id, namespace in by_namespace:
            _move_usage(source_id, [account for account in new if account.namespace == namespace])
        fault_point("usage.partitions.before_commit")
    return len(new)


def _move_usage(source_id: int, accounts: Sequence[Account]) -> None:
    moves = [(plain.pk, account.pk, account.project) for account in accounts for plain in plain_accounts(account)]
    if not moves:
        return
    before, after, partitions = map(list, zip(*moves, strict=True))
    values: dict[str, Any] = {"source": source_id, "before": before, "after": after, "partitions": partitions}
    with connection.cursor() as cursor:
        since = []
        for statement in (_MOVE_RECORDS, _MOVE_BUCKETS):
            cursor.execute(statement, values)
            since.append(cursor.fetchone()[0])
        cursor.execute(_MOVE_REPLACED, values)
        cursor.execute(_MOVE_KINDS, values)
        if first := min(filter(None, since), default=None):
            changed_hours.note_change(source_id, first)
            cursor.execute(_RAISE_WATERMARK, [source_id])
