from django.db import migrations

# Keys of all requests are kept in one table, by the source that they are of here.
_MOVE = """
INSERT INTO accounts_idempotentanswer (scope, key, body_sha256, answer, created_at)
SELECT 'usage:' || source.slug, kept.key, kept.body_sha256, kept.answer, kept.created_at
FROM usage_idempotentanswer AS kept JOIN usage_source AS source ON source.id = kept.source_id
"""


class Migration(migrations.Migration):
    dependencies = [("usage", "0003_records_by_time"), ("accounts", "0003_idempotent_answers")]

    operations = [
        migrations.RunSQL(_MOVE, migrations.RunSQL.noop),
        migrations.DeleteModel(name="IdempotentAnswer"),
    ]
