"""The dictionary of kinds of resources that records name, and the sums by kind beside the buckets. `buckets` writes
them.

A site has at most MOST_RESOURCE_KINDS. What a record holds of a further kind isn't stored by kind: it counts in its
sum alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from apps.core.resource_kinds import NO_KINDS, KindColumn
from apps.usage.bucket_deltas import HOUR_US, QUANTA, RESOURCES, Delta, KindDelta
from apps.usage.models import Kind
from apps.usage.parsers.base import F8, I8, RecordBatch
from apps.usage.pgbinary import cursor, float8_array, int8_array, text_array, timestamptz_array

MOST_RESOURCE_KINDS = 500
TOO_MANY = "kinds_too_many"  # note of records with a kind beyond them

_KEY = "account_id, site, job_class_id, hour_at, kind_id"
_ADD = f"""
INSERT INTO usage_kindhour (source_id, {_KEY}, amount)
SELECT %s::int4, account_id, site, job_class_id, hour_at, kind_id, amount
FROM unnest(%s::int8[], %s::text[], %s::int8[], %s::timestamptz[], %s::int8[], %s::float8[])
    AS given({_KEY}, amount)
ON CONFLICT (hour_at, source_id, account_id, job_class_id, site, kind_id)
DO UPDATE SET amount = usage_kindhour.amount + EXCLUDED.amount
"""  # noqa: S608 - constants only
_DELETE_EMPTY = f"""
DELETE FROM usage_kindhour AS stored USING unnest(%s::int8[], %s::text[], %s::int8[], %s::timestamptz[], %s::int8[])
    AS given({_KEY})
WHERE stored.source_id = %s::int4 AND stored.hour_at = given.hour_at AND stored.account_id = given.account_id
    AND stored.job_class_id = given.job_class_id AND stored.site = given.site AND stored.kind_id = given.kind_id
    AND stored.amount = 0
"""  # noqa: S608 - constants only
_ADD_SEALED = """
INSERT INTO usage_sealedkind (source_id, hour_at, kind_id, amount)
SELECT %s::int8, given.* FROM unnest(%s::timestamptz[], %s::int8[], %s::float8[]) AS given
ON CONFLICT (source_id, hour_at, kind_id) DO UPDATE SET amount = usage_sealedkind.amount + EXCLUDED.amount
"""
# One kind beside the buckets: joined by names that no other table of a query has.
_JOIN = """
LEFT JOIN (SELECT hour_at AS hour_of_{id}, source_id AS source_of_{id}, account_id AS account_of_{id},
        job_class_id AS class_of_{id}, site AS site_of_{id}, amount AS kind_{id}
    FROM usage_kindhour WHERE kind_id = {id} AND hour_at >= '{from_at}'::timestamptz
        AND hour_at < '{to_at}'::timestamptz) AS of_{id}
ON hour_of_{id} = hour_at AND source_of_{id} = source_id AND account_of_{id} = account_id
    AND class_of_{id} = job_class_id AND site_of_{id} = site
"""


def load_kind_ids(names: Iterable[str] | None = None) -> dict[str, int]:
    """Ids of known kinds by name: of these names, or of all."""
    kinds = Kind.objects.order_by("name")
    return dict((kinds if names is None else kinds.filter(name__in=list(names))).values_list("name", "id"))


def register_kinds(names: Iterable[str], *, at: datetime) -> dict[str, int]:
    """Ids of these kinds, of which new ones are stored while there is room. Those without an id have found none."""
    wanted = sorted(set(names))
    known = load_kind_ids(wanted)
    missing = [name for name in wanted if name not in known]
    if not missing:
        return known
    room = max(MOST_RESOURCE_KINDS - Kind.objects.count(), 0)
    new = [Kind(name=name, first_at=at) for name in missing[:room]]
    Kind.objects.bulk_create(new, ignore_conflicts=True)
    return load_kind_ids(wanted)


def with_known_kinds(batch: RecordBatch, *, at: datetime) -> tuple[RecordBatch, int]:
    """Records with the kinds that have an id, and the number of records that lost one."""
    used = np.unique(batch.kind[batch.kind > 0]).tolist()
    if not used:
        return batch, 0
    known = register_kinds((name for code in used for name, _amount in batch.kinds[code]), at=at)
    column, code_of, loses = KindColumn(), np.zeros(len(batch.kinds), np.int64), np.zeros(len(batch.kinds), np.bool_)
    for code in used:
        kinds = batch.kinds[code]
        stored = tuple(pair for pair in kinds if pair[0] in known)
        code_of[code], loses[code] = column.place_of(stored or NO_KINDS), len(stored) < len(kinds)
    n_losing = int(loses[batch.kind].sum())
    if not n_losing:
        return batch, 0
    return replace(batch, kind=code_of[batch.kind], kinds=column.distinct), n_losing


def apply_kinds(source_id: int, delta: Delta) -> None:
    """Add changes by kind to the stored sums, in the caller's transaction and under its lock of the source."""
    changes = delta.kinds
    if not len(changes.at):
        return
    ids = load_kind_ids(np.char.decode(np.unique(changes.kind)).tolist())
    keys, amounts = _parameters(delta, changes, ids)
    with cursor() as db_cursor:
        db_cursor.execute(_ADD, [source_id, *keys, float8_array(amounts)])
        if (amounts < 0).any():
            db_cursor.execute(_DELETE_EMPTY, [*keys, source_id])


def add_sealed_kinds(source_id: int, delta: Delta) -> None:
    """Add amounts by kind of removed records to the sealed hours of their source. The delta has one key an hour."""
    changes = delta.kinds
    if not len(changes.at):
        return
    ids = load_kind_ids(np.char.decode(np.unique(changes.kind)).tolist())
    with cursor() as db_cursor:
        hours = timestamptz_array(delta.hour[changes.at] * HOUR_US)
        kind_ids = int8_array(kind_id_column(changes.kind, ids))
        db_cursor.execute(_ADD_SEALED, [source_id, hours, kind_ids, float8_array(changes.amount / QUANTA)])


def kind_id_column(kind: np.ndarray, ids: Mapping[str, int]) -> I8:
    """The id of each kind."""
    names, code = np.unique(kind, return_inverse=True)
    return np.array([ids[name.decode()] for name in names.tolist()], np.int64)[code]


def _parameters(delta: Delta, changes: KindDelta, ids: Mapping[str, int]) -> tuple[list[object], F8]:
    at = changes.at
    keys: list[object] = [
        int8_array(delta.account_id[at]),
        text_array(delta.site[at]),
        int8_array(delta.job_class_id[at]),
        timestamptz_array(delta.hour[at] * HOUR_US),
        int8_array(kind_id_column(changes.kind, ids)),
    ]
    return keys, changes.amount / QUANTA


def join_kinds(resources: Sequence[str], *, from_at: datetime, to_at: datetime) -> tuple[dict[str, str], str]:
    """What a query of buckets adds to its FROM, so that each row has the amounts of these kinds; and by resource the
    expression of its column: a column of a bucket, of a kind, or 0 for a kind that no record has named.
    """
    kinds = [name for name in resources if name not in RESOURCES]
    if not kinds:
        return {name: name for name in resources}, ""
    ids = load_kind_ids(kinds)
    columns = {name: name if name in RESOURCES else "0::float8" for name in resources}
    columns |= {name: f"COALESCE(kind_{kind_id}, 0)" for name, kind_id in ids.items()}
    span = {"from_at": from_at.isoformat(), "to_at": to_at.isoformat()}
    return columns, "".join(_JOIN.format(id=kind_id, **span) for kind_id in ids.values())
