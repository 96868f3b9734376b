"""The log is append-only for everybody: the database refuses to change it."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION accounts_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only: % refused', TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER accounts_audit_append_only BEFORE UPDATE OR DELETE ON accounts_auditevent
    FOR EACH ROW EXECUTE FUNCTION accounts_audit_refuse();
CREATE TRIGGER accounts_audit_no_truncate BEFORE TRUNCATE ON accounts_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION accounts_audit_refuse();
"""
BACKWARD = """
DROP TRIGGER accounts_audit_no_truncate ON accounts_auditevent;
DROP TRIGGER accounts_audit_append_only ON accounts_auditevent;
DROP FUNCTION accounts_audit_refuse();
"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_tables")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
