"""The unmapped accounts of a policy are one row: replacing hundreds of thousands of rows took hours without statistics."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

_FILL = """
INSERT INTO priorities_unmappedaccounts (policy_id, snapshot_id, account_ids, usage)
SELECT newest.policy_id, newest.id, coalesce(array_agg(old.account_id) FILTER (WHERE old.id IS NOT NULL), '{}'),
    coalesce(sum(old.usage), 0)
FROM (SELECT policy_id, max(id) AS id FROM priorities_snapshot WHERE is_live GROUP BY policy_id) AS newest
LEFT JOIN priorities_unmappedusage AS old ON old.snapshot_id = newest.id
GROUP BY newest.policy_id, newest.id
"""


class Migration(migrations.Migration):
    dependencies = [("policies", "0002_tree_guards"), ("priorities", "0001_tables")]

    operations = [
        migrations.CreateModel(
            name="UnmappedAccounts",
            fields=[
                (
                    "policy",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="policies.policy",
                    ),
                ),
                (
                    "account_ids",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                ("usage", models.FloatField()),
                (
                    "snapshot",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="priorities.snapshot"
                    ),
                ),
            ],
        ),
        migrations.RunSQL(_FILL, migrations.RunSQL.noop),
        migrations.DeleteModel(name="UnmappedUsage"),
    ]
