"""Lines of jobs as they are: all of a job whose lines make its records together, and jobs of which some are missing.

Lines that were kept before said only that a run ended, rested or changed; the files that they came from bring them again.
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("usage", "0007_ends_of_open_jobs")]

    operations = [
        migrations.RunSQL("DELETE FROM usage_runline", migrations.RunSQL.noop),
        migrations.RemoveConstraint("RunLine", "usage_runline_once"),
        migrations.AddField("runline", "values", models.JSONField(db_default={}, default=dict)),
        migrations.AddField("runline", "digest", models.BigIntegerField(db_default=0, default=0)),
        migrations.AddConstraint(
            "RunLine",
            models.UniqueConstraint(fields=("source", "job", "array_task", "digest"), name="usage_runline_once"),
        ),
        migrations.CreateModel(
            name="UnclearJob",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job", models.CharField(max_length=128)),
                ("array_task", models.CharField(blank=True, default="", max_length=64)),
                ("gaps", models.JSONField(default=list)),
                ("last_at", models.DateTimeField()),
                (
                    "source",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="usage.source",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("source", "job", "array_task"), name="usage_unclearjob_once")
                ],
            },
        ),
    ]
