"""An index of the few entries with membership rules, in all revisions: what they name decides the mapping of past days."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("policies", "0002_tree_guards")]

    operations = [
        migrations.RunSQL(
            "CREATE INDEX policies_entry_members ON policies_entry (policy_id) WHERE members <> '[]'::jsonb",
            "DROP INDEX policies_entry_members",
        ),
    ]
