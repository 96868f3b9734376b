"""An index of the few records that the page of data quality lists: without it, it reads all records of a month."""

from typing import Any

from django.db import connection, migrations

_ODD = "note = ''vanished'' OR (cpus = 0 AND gpus = 0)"  # as quoted inside of format()
_MAKE_PARTITION = f"""
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
    EXECUTE format('CREATE INDEX %I ON %I (end_at) WHERE {_ODD}', leaf || '_odd', leaf);
    -- Records come in the order of ids and time, more or less: a few kilobytes find those of a day or a span of ids.
    EXECUTE format('CREATE INDEX %I ON %I USING brin (id, submit_at, start_at, end_at)'
        ' WITH (pages_per_range = 32, autosummarize = on)', leaf || '_order', leaf);
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', parent, leaf,
        COALESCE(quote_literal(from_at), 'MINVALUE'), COALESCE(quote_literal(to_at), 'MAXVALUE'));
END $$
"""  # noqa: S608 - constants only
_LEAVES = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'usage_record'::regclass ORDER BY 1"


def index_present_records(*_: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_LEAVES)
        for (leaf,) in cursor.fetchall():
            condition = _ODD.replace("''", "'")
            cursor.execute(f"CREATE INDEX IF NOT EXISTS {leaf}_odd ON {leaf} (end_at) WHERE {condition}")


class Migration(migrations.Migration):
    atomic = False  # one partition after the other: the others can be written meanwhile

    dependencies = [("usage", "0004_partitions_of_records")]

    operations = [
        migrations.RunSQL(_MAKE_PARTITION),
        migrations.RunPython(index_present_records, migrations.RunPython.noop),
    ]
