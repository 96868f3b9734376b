"""Since when each source has had jobs, and since when it is known to report submit times: once for the records there are.

Of a source whose old records were removed, the sealed hours say since when it has had jobs.
"""

from django.db import migrations, models

_ADD = """
ALTER TABLE usage_source ADD COLUMN IF NOT EXISTS first_submit_at timestamptz,
    ADD COLUMN IF NOT EXISTS first_wait_at timestamptz
"""
_REMOVE = "ALTER TABLE usage_source DROP COLUMN first_submit_at, DROP COLUMN first_wait_at"
_READ = """
UPDATE usage_source AS source SET first_submit_at = LEAST(records.first_at, sealed.first_at),
    first_wait_at = records.first_wait_at
FROM usage_source AS same
LEFT JOIN (
    SELECT source_id, min(submit_at) AS first_at,
        min(submit_at) FILTER (WHERE submit_at < start_at OR state = 0) AS first_wait_at
    FROM usage_record GROUP BY source_id) AS records ON records.source_id = same.id
LEFT JOIN (SELECT source_id, min(hour_at) AS first_at FROM usage_sealedhour GROUP BY source_id) AS sealed
    ON sealed.source_id = same.id
WHERE source.id = same.id AND source.kind <> 'peer'
"""


class Migration(migrations.Migration):
    atomic = False  # all records are read: the sources can be used meanwhile

    dependencies = [("usage", "0005_index_of_odd_records")]

    operations = [
        migrations.RunSQL(
            _ADD,
            _REMOVE,
            state_operations=[
                migrations.AddField("source", "first_submit_at", models.DateTimeField(blank=True, null=True)),
                migrations.AddField("source", "first_wait_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.RunSQL(_READ, migrations.RunSQL.noop),
    ]
