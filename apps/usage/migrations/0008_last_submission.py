from django.db import migrations, models

_SEED = """
UPDATE usage_source AS source SET last_submit_at = found.submit_at
FROM (SELECT source_id, max(submit_at) AS submit_at FROM usage_record GROUP BY 1) AS found
WHERE found.source_id = source.id
"""


class Migration(migrations.Migration):
    dependencies = [("usage", "0007_changed_hours")]

    operations = [
        migrations.AddField("source", "last_submit_at", models.DateTimeField(blank=True, null=True)),
        migrations.RunSQL(_SEED, migrations.RunSQL.noop),
    ]
