"""Ends of runs: how long one counts that no listing closes, and lines that end or cut a run of another file."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0007_site_process_queues"), ("usage", "0006_first_submissions")]

    operations = [
        migrations.AddField("source", "longest_run_s", models.PositiveIntegerField(blank=True, null=True)),
        migrations.AddField("source", "listed_at", models.DateTimeField(blank=True, null=True)),
        migrations.CreateModel(
            name="RunLine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job", models.CharField(max_length=128)),
                ("array_task", models.CharField(blank=True, default="", max_length=64)),
                ("kind", models.CharField(max_length=8)),
                ("happened_at", models.DateTimeField()),
                ("rates", models.JSONField(default=list)),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="runs.run",
                    ),
                ),
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
                    models.UniqueConstraint(
                        fields=("source", "job", "array_task", "happened_at", "kind"), name="usage_runline_once"
                    )
                ],
            },
        ),
    ]
