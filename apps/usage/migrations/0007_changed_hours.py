import django.db.models.deletion
from django.db import migrations, models

# Of what is there already the first hour of each source changed last, as far as anybody can tell.
_SEED = """
INSERT INTO usage_changedhour (source_id, watermark, from_hour_at)
SELECT bucket.source_id, source.watermark, min(bucket.hour_at)
FROM usage_bucket AS bucket JOIN usage_source AS source ON source.id = bucket.source_id GROUP BY 1, 2
"""
# Records come in the order of time, more or less: a few kilobytes find those of a day, and cost an import nothing.
_BY_TIME = """
CREATE INDEX usage_record_by_time ON usage_record USING brin (submit_at, start_at, end_at)
WITH (pages_per_range = 32, autosummarize = on)
"""


class Migration(migrations.Migration):
    dependencies = [("usage", "0006_sites_by_day_and_repetitions")]

    operations = [
        migrations.CreateModel(
            name="ChangedHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("watermark", models.BigIntegerField()),
                ("from_hour_at", models.DateTimeField()),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source", db_index=False
                    ),
                ),
            ],
            options={"indexes": [models.Index(fields=["source", "from_hour_at"], name="usage_changed_hour")]},
        ),
        migrations.RunSQL(_SEED, migrations.RunSQL.noop),
        migrations.RunSQL(_BY_TIME, "DROP INDEX usage_record_by_time"),
    ]
