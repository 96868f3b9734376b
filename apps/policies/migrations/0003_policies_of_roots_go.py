"""A policy that has never had an entry below its root says nothing, and may be removed with its history."""

from django.db import migrations

_ROOTS_GO = """
CREATE OR REPLACE FUNCTION policies_history_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM policies_entry WHERE policy_id = OLD.policy_id AND parent_uid IS NOT NULL) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'what was published is never deleted: archive the entry by a change set'
        USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_history_stays';
END $$;
"""
_ALL_STAYS = """
CREATE OR REPLACE FUNCTION policies_history_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was published is never deleted: archive the entry by a change set'
        USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_history_stays';
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("policies", "0002_tree_guards")]

    operations = [migrations.RunSQL(_ROOTS_GO, _ALL_STAYS)]
