"""Records lie in partitions by the time of submission, with small integers for states and runs, and no index of ids.

Stored records are copied into the new table piece by piece, and the tables change places at the end: an interrupted
migration goes on behind the last piece. The former table stays complete until then.
"""

from typing import Any

import django.db.models.deletion
from django.db import connection, migrations, transaction

import apps.usage.columns

AT_A_TIME = 100_000
_STATES = ("pending", "running", "finished", "withdrawn")
_STATE_NUMBER = f"array_position(ARRAY{list(_STATES)}, state::text)::int2 - 1"

_MAKE_PARTITION = """
CREATE OR REPLACE FUNCTION usage_make_partition(parent regclass, leaf text, from_at timestamptz, to_at timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- One at a time; readers and writers of other partitions go on.
    EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', parent);
    IF to_regclass(quote_ident(leaf)) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %s INCLUDING DEFAULTS)', leaf, parent);
    -- Equal keys are of one submission, and so in one partition: the key needs no time.
    EXECUTE format('CREATE UNIQUE INDEX %I ON %I (source_id, job_number, key_hash)', leaf || '_key', leaf);
    EXECUTE format('CREATE INDEX %I ON %I (account_id)', leaf || '_account', leaf);
    EXECUTE format('CREATE INDEX %I ON %I (source_id) WHERE state <> 2', leaf || '_open', leaf);
    -- Records come in the order of ids and time, more or less: a few kilobytes find those of a day or a span of ids.
    EXECUTE format('CREATE INDEX %I ON %I USING brin (id, submit_at, start_at, end_at)'
        ' WITH (pages_per_range = 32, autosummarize = on)', leaf || '_order', leaf);
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', parent, leaf,
        COALESCE(quote_literal(from_at), 'MINVALUE'), COALESCE(quote_literal(to_at), 'MAXVALUE'));
END $$
"""

# Wide columns first, so that none is padded.
_TABLE = """
CREATE SEQUENCE IF NOT EXISTS usage_record_ids AS bigint CACHE 1000;
CREATE TABLE IF NOT EXISTS usage_record_parted (
    id bigint NOT NULL DEFAULT nextval('usage_record_ids'),
    key_hash bigint NOT NULL,
    submit_at timestamptz NOT NULL,
    start_at timestamptz,
    end_at timestamptz,
    revision bigint NOT NULL,
    cpus double precision NOT NULL,
    gpus double precision NOT NULL,
    nodes double precision NOT NULL,
    mem_mb double precision NOT NULL,
    billing double precision NOT NULL,
    requested_s double precision,
    seen_at timestamptz,
    source_id integer NOT NULL,
    account_id integer NOT NULL,
    job_class_id integer NOT NULL,
    job_number integer NOT NULL,
    restart integer NOT NULL,
    run_id integer,
    state smallint NOT NULL,
    is_charge boolean NOT NULL DEFAULT false,
    cluster varchar(128) NOT NULL,
    job varchar(128) NOT NULL,
    array_task varchar(64) NOT NULL,
    site varchar(128) NOT NULL,
    note varchar(64) NOT NULL DEFAULT ''
) PARTITION BY RANGE (submit_at);
ALTER SEQUENCE usage_record_ids OWNED BY usage_record_parted.id;
"""
_COLUMNS = (
    "id, key_hash, submit_at, start_at, end_at, revision, cpus, gpus, nodes, mem_mb, billing, requested_s, seen_at,"
    " source_id, account_id, job_class_id, job_number, restart, run_id, is_charge, cluster, job, array_task, site, note"
)
_COPY = f"""
INSERT INTO usage_record_parted ({_COLUMNS}, state) SELECT {_COLUMNS}, {_STATE_NUMBER} FROM usage_record
WHERE id > %s AND id <= %s
"""  # noqa: S608 - constants only
_PARTITIONS = """
SELECT usage_make_partition('usage_record_parted', leaf, from_at, to_at) FROM (
    SELECT DISTINCT
        CASE WHEN year < 2000 THEN 'usage_record_before' WHEN year >= 2100 THEN 'usage_record_after'
            WHEN year < 2020 THEN 'usage_record_' || year ELSE to_char(month, '"usage_record_"YYYY_MM') END AS leaf,
        CASE WHEN year < 2000 THEN NULL WHEN year >= 2100 THEN timestamptz '2100-01-01Z'
            WHEN year < 2020 THEN date_trunc('year', month) AT TIME ZONE 'UTC' ELSE month AT TIME ZONE 'UTC' END AS from_at,
        CASE WHEN year < 2000 THEN timestamptz '2000-01-01Z' WHEN year >= 2100 THEN NULL
            WHEN year < 2020 THEN (date_trunc('year', month) + interval '1 year') AT TIME ZONE 'UTC'
            ELSE (month + interval '1 month') AT TIME ZONE 'UTC' END AS to_at
    FROM (
        SELECT DISTINCT date_trunc('month', submit_at AT TIME ZONE 'UTC') AS month,
            extract(year FROM submit_at AT TIME ZONE 'UTC')::int AS year
        FROM usage_record WHERE id > %s AND id <= %s) AS months) AS parts
"""
_DIGEST = """
SELECT count(*), COALESCE(sum(id::numeric), 0), COALESCE(sum(key_hash::numeric * (id %% 65537)), 0),
    COALESCE(sum(revision::numeric), 0), COALESCE(sum(({state})::int8 * (id %% 65537)), 0),
    COALESCE(sum(extract(epoch FROM end_at)::numeric), 0), COALESCE(sum(cpus::numeric), 0)
FROM {table}
"""
_SWAP = """
SELECT setval('usage_record_ids', GREATEST((SELECT COALESCE(max(id), 1) FROM usage_record_parted), (
    SELECT last_value FROM usage_record_id_seq)));
DROP TABLE usage_record;
ALTER TABLE usage_record_parted RENAME TO usage_record;
"""


def _is_parted(cursor: Any) -> bool:
    cursor.execute("SELECT relkind = 'p' FROM pg_class WHERE oid = 'usage_record'::regclass")
    return bool(cursor.fetchone()[0])


def _copy(cursor: Any, after_id: int, last_id: int) -> None:
    cursor.execute(_PARTITIONS, [after_id, last_id])
    cursor.execute(_COPY, [after_id, last_id])


def _digest(cursor: Any, table: str, state: str) -> tuple[Any, ...]:
    cursor.execute(_DIGEST.format(table=table, state=state), [])
    row: tuple[Any, ...] = cursor.fetchone()
    return row


def convert_records(*_: Any, at_a_time: int = AT_A_TIME, copied: Any = lambda: None) -> None:
    """Copy all records behind those that are copied, then let the new table take the place of the former one.

    copied: called after each piece, for tests.
    """
    with connection.cursor() as cursor:
        if _is_parted(cursor):
            return
        cursor.execute(_TABLE)
        cursor.execute("SELECT COALESCE(max(id), 0) FROM usage_record_parted")
        (after_id,) = cursor.fetchone()
        cursor.execute("SELECT min(id), max(id) FROM usage_record WHERE id > %s", [after_id])
        first_id, last_id = cursor.fetchone()
        for start in range((first_id or 1) - 1, last_id or 0, at_a_time):
            with transaction.atomic():
                _copy(cursor, start, min(start + at_a_time, last_id))
            copied()
        with transaction.atomic():
            cursor.execute("LOCK TABLE usage_record IN ACCESS EXCLUSIVE MODE")
            if _digest(cursor, "usage_record", _STATE_NUMBER) != _digest(cursor, "usage_record_parted", "state"):
                # Records were written meanwhile: once more, while none can be.
                cursor.execute("TRUNCATE usage_record_parted")
                cursor.execute("SELECT COALESCE(max(id), 0) FROM usage_record")
                _copy(cursor, -1, cursor.fetchone()[0])
            cursor.execute(_SWAP)
        cursor.execute("ANALYZE usage_record")


def number_states(*_: Any) -> None:
    """Store the states of earlier versions and of late records as numbers, too."""
    with connection.cursor() as cursor:
        for table in ("usage_replacedrecord", "usage_toolaterecord"):
            cursor.execute(
                "SELECT data_type FROM information_schema.columns"
                " WHERE table_name = %s AND column_name = 'state' AND table_schema = current_schema()",
                [table],
            )
            if cursor.fetchone()[0] != "smallint":
                cursor.execute(f"ALTER TABLE {table} ALTER COLUMN state TYPE smallint USING {_STATE_NUMBER}")


_STATE = apps.usage.columns.StateField(
    choices=[
        ("pending", "Waiting to start"),
        ("running", "Running"),
        ("finished", "Finished"),
        ("withdrawn", "Withdrawn"),
    ]
)


class Migration(migrations.Migration):
    atomic = False  # in pieces; each step is done once
    copies = {"usage_record": "usage_record_parted"}  # room on the disk that it needs: see apps/cli/stack/migration.py

    dependencies = [("usage", "0003_billing_weights")]

    operations = [
        migrations.RunSQL(_MAKE_PARTITION),
        migrations.RunPython(convert_records, atomic=False),
        migrations.RunPython(number_states),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveConstraint("record", "usage_record_key"),
                migrations.RemoveIndex("record", "usage_record_open"),
                migrations.RemoveIndex("record", "usage_record_account"),
                migrations.AlterField("record", "state", _STATE),
                migrations.AlterField(
                    "record",
                    "run",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to="runs.run",
                    ),
                ),
                migrations.AlterField("replacedrecord", "state", _STATE),
                migrations.AlterField("toolaterecord", "state", _STATE),
            ]
        ),
    ]
