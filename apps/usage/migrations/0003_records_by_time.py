from django.db import migrations

# Records come in the order of time, more or less: a few kilobytes find those of a day, and cost an import nothing.
_BY_TIME = """
CREATE INDEX usage_record_by_time ON usage_record USING brin (submit_at, start_at, end_at)
WITH (pages_per_range = 32, autosummarize = on)
"""


class Migration(migrations.Migration):
    dependencies = [("usage", "0002_references_by_statement")]

    operations = [migrations.RunSQL(_BY_TIME, "DROP INDEX usage_record_by_time")]
