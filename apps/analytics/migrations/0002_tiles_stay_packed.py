"""Tiles are compressed already: the database needn't try again."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("analytics", "0001_first_models")]
    operations = [
        migrations.RunSQL(
            "ALTER TABLE analytics_seriestile ALTER COLUMN data SET STORAGE EXTERNAL",
            "ALTER TABLE analytics_seriestile ALTER COLUMN data SET STORAGE EXTENDED",
        )
    ]
