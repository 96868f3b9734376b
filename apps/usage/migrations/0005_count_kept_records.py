from django.db import migrations

# Retention removed records without counting them off.
_COUNT = """
UPDATE usage_source AS source SET n_records = kept.n FROM (
    SELECT one.id, count(record.id) AS n FROM usage_source AS one
    LEFT JOIN usage_record AS record ON record.source_id = one.id GROUP BY one.id) AS kept
WHERE kept.id = source.id AND source.n_records <> kept.n
"""


class Migration(migrations.Migration):
    dependencies = [("usage", "0004_idempotent_answers_moved")]

    operations = [migrations.RunSQL(_COUNT, migrations.RunSQL.noop)]
