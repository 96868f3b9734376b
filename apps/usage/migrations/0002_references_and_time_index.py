"""Usage keeps the rows that it refers to, and records of a day are found by a small index."""

from django.db import migrations

# The other half of a foreign key: what comes in is checked by its writer, once a batch (see records/record_rows).
_GUARDS = """
CREATE FUNCTION usage_keep_referenced() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_used boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM usage_record WHERE %1$I = $1)'
        ' OR EXISTS (SELECT FROM usage_bucket WHERE %1$I = $1)', TG_ARGV[0]) INTO is_used USING OLD.id;
    IF is_used THEN
        RAISE EXCEPTION 'Usage refers to row % of %.', OLD.id, TG_TABLE_NAME
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER usage_keeps_source BEFORE DELETE ON usage_source
    FOR EACH ROW EXECUTE FUNCTION usage_keep_referenced('source_id');
CREATE TRIGGER usage_keeps_account BEFORE DELETE ON accounts_account
    FOR EACH ROW EXECUTE FUNCTION usage_keep_referenced('account_id');
CREATE TRIGGER usage_keeps_job_class BEFORE DELETE ON usage_jobclass
    FOR EACH ROW EXECUTE FUNCTION usage_keep_referenced('job_class_id');
"""

_NO_GUARDS = """
DROP TRIGGER usage_keeps_source ON usage_source;
DROP TRIGGER usage_keeps_account ON accounts_account;
DROP TRIGGER usage_keeps_job_class ON usage_jobclass;
DROP FUNCTION usage_keep_referenced();
"""

# Records come in the order of time, more or less: a few kilobytes find those of a day, and cost an import nothing.
_BY_TIME = """
CREATE INDEX usage_record_by_time ON usage_record USING brin (submit_at, start_at, end_at)
WITH (pages_per_range = 32, autosummarize = on)
"""

# Ids are taken a thousand at a time: one by one, they cost as much as writing the rows.
_IDS = "ALTER TABLE usage_record ALTER COLUMN id SET CACHE 1000"
_SINGLE_IDS = "ALTER TABLE usage_record ALTER COLUMN id SET CACHE 1"


class Migration(migrations.Migration):
    dependencies = [("usage", "0001_tables"), ("accounts", "0001_tables")]

    operations = [
        migrations.RunSQL(_GUARDS, _NO_GUARDS),
        migrations.RunSQL(_IDS, _SINGLE_IDS),
        migrations.RunSQL(_BY_TIME, "DROP INDEX usage_record_by_time"),
    ]
