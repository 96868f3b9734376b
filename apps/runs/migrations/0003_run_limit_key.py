"""Whom a run calls, or for whom: slow hosts of one hold up no others."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0002_run_progress")]

    operations = [
        migrations.AddField(
            "run", "limit_key", models.CharField(blank=True, db_default="", default="", max_length=255)
        ),
    ]
