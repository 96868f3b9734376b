"""Audit buckets: compare the buckets of a source with sums of its records, and repair those that differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from django.db import connection, transaction
from django.db.models import F

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.core.errors import FieldProblem, Invalid
from apps.usage import bucket_deltas, buckets, pgbinary
from apps.usage.authority import require_create
from apps.usage.bucket_deltas import AMOUNTS
from apps.usage.models import Source
from apps.usage.parsers.base import FINISHED
from apps.usage.records import overlaps
from apps.usage.records.record_rows import FINISHED_COLUMNS, finished_from_columns
from apps.usage.records.stored_versions import lock_source

MOST_NAMED_BUCKETS = 10
_AT_A_TIME = 100_000
_EVER = (datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC))
_TABLES = f"""
CREATE TEMP TABLE usage_proof (account_id int8, site text, job_class_id int8, hour_at timestamptz,
    {", ".join(f"{name} float8" for name in AMOUNTS)}) ON COMMIT DROP;
CREATE TEMP TABLE usage_proof_sum ON COMMIT DROP AS SELECT * FROM usage_proof;
CREATE TEMP TABLE usage_proof_kind (account_id int8, site text, job_class_id int8, hour_at timestamptz, kind text,
    amount float8) ON COMMIT DROP;
CREATE TEMP TABLE usage_proof_kind_sum ON COMMIT DROP AS SELECT * FROM usage_proof_kind;
CREATE TEMP TABLE usage_proof_bad (account_id int8, site text, job_class_id int8, hour_at timestamptz, amount text,
    stored float8, expected float8, is_sealed bool) ON COMMIT DROP;
"""  # noqa: S608 - constants only
_PIECE = f"""
WITH chosen AS MATERIALIZED (
    SELECT * FROM usage_record WHERE id > %s AND id <= %s AND source_id = %s AND state = {FINISHED})
SELECT {FINISHED_COLUMNS} FROM chosen
"""  # noqa: S608 - constants only
_COPY = "COPY usage_proof FROM STDIN (FORMAT BINARY)"
_SUM = f"""
INSERT INTO usage_proof_sum SELECT account_id, site, job_class_id, hour_at,
    {", ".join(f"sum({name})" for name in AMOUNTS)} FROM usage_proof GROUP BY 1, 2, 3, 4
"""  # noqa: S608 - constants only
_KEY = "account_id, site, job_class_id, hour_at"
_COPY_KINDS = "COPY usage_proof_kind FROM STDIN (FORMAT BINARY)"
_SUM_KINDS = f"""
INSERT INTO usage_proof_kind_sum SELECT {_KEY}, kind, sum(amount) FROM usage_proof_kind GROUP BY {_KEY}, kind
"""  # noqa: S608 - constants only
_STORED_KINDS = "usage_kindhour AS stored JOIN usage_kind AS named ON named.id = kind_id"
# As _DIFFER, for the sums by kind.
_DIFFER_KINDS = f"""
INSERT INTO usage_proof_bad SELECT {_KEY}, kind, COALESCE(stored.amount, 0), COALESCE(proof.amount, 0), false
FROM (SELECT {_KEY}, name AS kind, amount FROM {_STORED_KINDS} WHERE source_id = %(source)s) AS stored
FULL JOIN usage_proof_kind_sum AS proof USING ({_KEY}, kind)
WHERE COALESCE(stored.amount, 0) <> COALESCE(proof.amount, 0)
    AND NOT EXISTS (SELECT FROM usage_sealedhour WHERE source_id = %(source)s AND hour_at = COALESCE(
        stored.hour_at, proof.hour_at));
INSERT INTO usage_proof_bad SELECT NULL, '', NULL, hour_at, kind, COALESCE(stored.n, 0), COALESCE(sealed.n, 0)
    + COALESCE(proof.n, 0), true
FROM (SELECT hour_at, name AS kind, amount AS n FROM usage_sealedkind JOIN usage_kind AS named ON named.id = kind_id
    WHERE source_id = %(source)s) AS sealed
FULL JOIN (SELECT hour_at, name AS kind, sum(amount) AS n FROM {_STORED_KINDS} WHERE source_id = %(source)s
    AND hour_at IN (SELECT hour_at FROM usage_sealedhour WHERE source_id = %(source)s) GROUP BY 1, 2) AS stored
    USING (hour_at, kind)
FULL JOIN (SELECT hour_at, kind, sum(amount) AS n FROM usage_proof_kind_sum
    WHERE hour_at IN (SELECT hour_at FROM usage_sealedhour WHERE source_id = %(source)s) GROUP BY 1, 2) AS proof
    USING (hour_at, kind)
WHERE COALESCE(stored.n, 0) <> COALESCE(sealed.n, 0) + COALESCE(proof.n, 0);
"""  # noqa: S608 - constants only
# Each bucket of open hours; an hour with a sealed part can only be reported as a whole.
_DIFFER = "".join(
    f"""
INSERT INTO usage_proof_bad SELECT {_KEY}, '{name}', COALESCE(stored.{name}, 0), COALESCE(proof.{name}, 0), false
FROM (SELECT * FROM usage_bucket WHERE source_id = %(source)s) AS stored
FULL JOIN usage_proof_sum AS proof USING ({_KEY})
WHERE COALESCE(stored.{name}, 0) <> COALESCE(proof.{name}, 0)
    AND NOT EXISTS (SELECT FROM usage_sealedhour WHERE source_id = %(source)s AND hour_at = COALESCE(
        stored.hour_at, proof.hour_at));
INSERT INTO usage_proof_bad SELECT NULL, '', NULL, hour_at, '{name}', COALESCE(stored.n, 0), sealed.n + COALESCE(
    proof.n, 0), true
FROM (SELECT hour_at, {name} AS n FROM usage_sealedhour WHERE source_id = %(source)s) AS sealed
LEFT JOIN (SELECT hour_at, sum({name}) AS n FROM usage_bucket WHERE source_id = %(source)s GROUP BY 1) AS stored
    USING (hour_at)
LEFT JOIN (SELECT hour_at, sum({name}) AS n FROM usage_proof_sum GROUP BY 1) AS proof USING (hour_at)
WHERE COALESCE(stored.n, 0) <> sealed.n + COALESCE(proof.n, 0);
"""  # noqa: S608 - constants only
    for name in AMOUNTS
)
_BUCKETS = """
SELECT count(*), count(sealed.id) FROM usage_bucket AS stored
LEFT JOIN usage_sealedhour AS sealed ON sealed.source_id = stored.source_id AND sealed.hour_at = stored.hour_at
WHERE stored.source_id = %s
"""
_COUNT = """
SELECT count(DISTINCT (account_id, site, job_class_id, hour_at)) FROM usage_proof_bad
"""
_FIRST = """
SELECT hour_at, COALESCE(NULLIF(account.user_name, ''), account.dn, ''), site, amount, stored, expected
FROM usage_proof_bad LEFT JOIN accounts_account AS account ON account.id = account_id
ORDER BY hour_at, account_id, site, job_class_id, amount LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """A bucket, or a sealed hour of a source, whose stored amount differs from the sum of its records."""

    hour_at: datetime
    account: str  # empty for sealed hours, for which only sums are stored
    site: str
    amount: str
    stored: float
    expected: float


@dataclass(slots=True)
class BucketAudit:
    """Result of the audit of one source.

    n_records: stored finished records. n_sealed: buckets in hours with removed records; only their sum by hour is
    compared, including what the removed records had added.
    """

    source: str
    n_records: int = 0
    n_buckets: int = 0
    n_sealed: int = 0
    n_different: int = 0
    n_repaired: int = 0
    first: list[Difference] = field(default_factory=list)


def audit_buckets(source: Source) -> BucketAudit:
    """Sum all records of a source, in one snapshot of the database, and compare with its buckets; changes nothing."""
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        return _compare(source)


@transaction.atomic
def repair_buckets(source: Source, *, reason: str, at: datetime, actor: Actor) -> BucketAudit:
    """Compare, and rebuild differing buckets from their records; sealed hours can only be listed.

    Raises:
        NotAllowed: the actor is not an administrator.
        Invalid: the reason is missing.
    """
    require_create(actor, source.slug)
    if not reason.strip():
        message = "Enter a reason: a repair changes charged usage."
        raise Invalid(message, fields=[FieldProblem("reason", message)])
    lock_source(source.pk)
    comparison = _compare(source)
    if comparison.n_different:
        comparison.n_repaired = buckets.rewrite_wrong_buckets(source.pk)
        Source.all_objects.filter(pk=source.pk).update(watermark=F("watermark") + 1)
        overlaps.remove_presence(source.pk, from_at=_EVER[0], to_at=_EVER[1])
        details = {"reason": reason.strip(), "different": comparison.n_different, "repaired": comparison.n_repaired}
        audit.record(actor=actor, verb="usage.repaired", at=at, subject=source.slug, details=details)
    return comparison


def _compare(source: Source) -> BucketAudit:
    comparison = BucketAudit(source.slug)
    with connection.cursor() as cursor:
        cursor.execute(
            "DROP TABLE IF EXISTS usage_proof, usage_proof_sum, usage_proof_kind, usage_proof_kind_sum, usage_proof_bad"
        )
        cursor.execute(_TABLES)
        cursor.execute("SELECT min(id) - 1, max(id) FROM usage_record WHERE source_id = %s", [source.pk])
        before_id, last_id = (each or 0 for each in cursor.fetchone())
        for after_id in range(before_id, last_id, _AT_A_TIME):
            comparison.n_records += _add_piece(source.pk, after_id, min(after_id + _AT_A_TIME, last_id))
        cursor.execute(_SUM)
        cursor.execute("ANALYZE usage_proof_sum")
        cursor.execute(_DIFFER, {"source": source.pk})
        cursor.execute(_SUM_KINDS)
        cursor.execute(_DIFFER_KINDS, {"source": source.pk})
        cursor.execute(_BUCKETS, [source.pk])
        comparison.n_buckets, comparison.n_sealed = cursor.fetchone()
        cursor.execute(_COUNT)
        comparison.n_different = cursor.fetchone()[0]
        cursor.execute(_FIRST, [MOST_NAMED_BUCKETS])
        comparison.first = [Difference(*row) for row in cursor.fetchall()]
    return comparison


def _add_piece(source_id: int, after_id: int, last_id: int) -> int:
    records = finished_from_columns(pgbinary.fetch_columns(_PIECE, [after_id, last_id, source_id]), sign=1)
    if not len(records):
        return 0
    delta = bucket_deltas.compute_delta(records)
    amounts = bucket_deltas.delta_amounts(delta)
    columns = [
        pgbinary.int8(delta.account_id),
        pgbinary.text(delta.site),
        pgbinary.int8(delta.job_class_id),
        pgbinary.timestamptz(delta.hour * bucket_deltas.HOUR_US),
        *(pgbinary.float8(amounts[:, column].copy()) for column in range(len(AMOUNTS))),
    ]
    pgbinary.copy_in(_COPY, columns)
    at = delta.kinds.at
    if len(at):
        keys = [column.take(at) for column in columns[:4]]
        pgbinary.copy_in(
            _COPY_KINDS,
            [*keys, pgbinary.text(delta.kinds.kind), pgbinary.float8(delta.kinds.amount / bucket_deltas.QUANTA)],
        )
    return len(records)
