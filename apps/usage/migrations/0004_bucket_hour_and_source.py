"""Buckets of an hour are found by source too: which hours a source covers costs one probe an hour."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("usage", "0003_record_indexes")]
    operations = [
        migrations.AddIndex(
            model_name="bucket", index=models.Index(fields=["hour_at", "source"], name="usage_bucket_hour_source")
        ),
        migrations.RemoveIndex(model_name="bucket", name="usage_bucket_hour"),
    ]
