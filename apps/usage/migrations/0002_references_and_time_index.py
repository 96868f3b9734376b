"""How usage refers to other rows, and how records of a day are found: by triggers a statement and a small index."""

from django.db import migrations

# A foreign key looks its row up once for every row that comes in: half the time of an import. These triggers look each
# distinct value up once a statement, hold the row as a foreign key does, and refuse with the same error.
_GUARDS = """
CREATE FUNCTION usage_references_exist() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    sources bigint[]; accounts bigint[]; classes bigint[]; missing text;
BEGIN
    SELECT array_agg(source_id), array_agg(account_id), array_agg(job_class_id) INTO sources, accounts, classes
    FROM (SELECT DISTINCT source_id, account_id, job_class_id FROM added) AS seen;
    PERFORM 1 FROM usage_source WHERE id = ANY(sources) FOR KEY SHARE;
    PERFORM 1 FROM accounts_account WHERE id = ANY(accounts) FOR KEY SHARE;
    PERFORM 1 FROM usage_jobclass WHERE id = ANY(classes) FOR KEY SHARE;
    SELECT 'source ' || id INTO missing FROM unnest(sources) AS given(id)
        WHERE NOT EXISTS (SELECT FROM usage_source AS known WHERE known.id = given.id) LIMIT 1;
    IF missing IS NULL THEN
        SELECT 'account ' || id INTO missing FROM unnest(accounts) AS given(id)
            WHERE NOT EXISTS (SELECT FROM accounts_account AS known WHERE known.id = given.id) LIMIT 1;
    END IF;
    IF missing IS NULL THEN
        SELECT 'job class ' || id INTO missing FROM unnest(classes) AS given(id)
            WHERE NOT EXISTS (SELECT FROM usage_jobclass AS known WHERE known.id = given.id) LIMIT 1;
    END IF;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'There is no %.', missing
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_record_references_exist AFTER INSERT ON usage_record
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION usage_references_exist();
CREATE TRIGGER usage_bucket_references_exist AFTER INSERT ON usage_bucket
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION usage_references_exist();

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
DROP TRIGGER usage_record_references_exist ON usage_record;
DROP TRIGGER usage_bucket_references_exist ON usage_bucket;
DROP FUNCTION usage_keep_referenced();
DROP FUNCTION usage_references_exist();
"""

# Records come in the order of time, more or less: a few kilobytes find those of a day, and cost an import nothing.
_BY_TIME = """
CREATE INDEX usage_record_by_time ON usage_record USING brin (submit_at, start_at, end_at)
WITH (pages_per_range = 32, autosummarize = on)
"""


class Migration(migrations.Migration):
    dependencies = [("usage", "0001_tables"), ("accounts", "0001_tables")]

    operations = [
        migrations.RunSQL(_GUARDS, _NO_GUARDS),
        migrations.RunSQL(_BY_TIME, "DROP INDEX usage_record_by_time"),
    ]
