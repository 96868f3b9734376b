"""The id of the request that started a run, for its log lines."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0005_site_process")]

    operations = [
        migrations.AddField(
            "run", "request_id", models.CharField(blank=True, db_default="", default="", max_length=64)
        ),
    ]
