"""The blobs of snapshots are compressed already: the database needn't try again."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("priorities", "0001_first_models")]
    operations = [
        migrations.RunSQL(
            "ALTER TABLE priorities_snapshot ALTER COLUMN data SET STORAGE EXTERNAL",
            "ALTER TABLE priorities_snapshot ALTER COLUMN data SET STORAGE EXTENDED",
        )
    ]
