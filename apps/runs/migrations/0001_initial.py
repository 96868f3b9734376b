import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.core.create_tables import create_tables


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
    ]

    operations = create_tables(
        migrations.CreateModel(
            name="WorkerContact",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=32)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Waiting for a worker"),
                            ("running", "Running"),
                            ("succeeded", "Done"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("subject", models.CharField(max_length=128)),
                ("arguments", models.JSONField(default=dict)),
                ("idempotency_key", models.CharField(blank=True, max_length=128, null=True)),
                ("due_at", models.DateTimeField()),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("holder", models.CharField(blank=True, db_default="", default="", max_length=128)),
                ("heartbeat_at", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveIntegerField(default=0)),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("max_attempts", models.PositiveSmallIntegerField(default=5)),
                ("cancel_requested", models.BooleanField(default=False)),
                ("progress_done", models.BigIntegerField(default=0)),
                ("progress_total", models.BigIntegerField(blank=True, null=True)),
                ("message", models.CharField(blank=True, default="", max_length=512)),
                ("cursor", models.JSONField(default=dict)),
                ("counts", models.JSONField(default=dict)),
                ("result", models.JSONField(default=dict)),
                ("error_code", models.CharField(blank=True, default="", max_length=64)),
                ("error", models.TextField(blank=True, default="")),
                ("created_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("progressed_at", models.DateTimeField(blank=True, null=True)),
                ("limit_key", models.CharField(blank=True, db_default="", default="", max_length=255)),
                ("request_id", models.CharField(blank=True, db_default="", default="", max_length=64)),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("state", "queued")), fields=["due_at"], name="runs_run_due"),
                    models.Index(
                        condition=models.Q(("state", "running")), fields=["lease_until"], name="runs_run_leases"
                    ),
                    models.Index(fields=["kind", "subject", "-id"], name="runs_run_of_subject"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("kind", "idempotency_key"), name="runs_run_idempotent"),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "running")),
                        fields=("kind", "subject"),
                        name="runs_run_single_flight",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("idempotency_key", None), ("state", "queued")),
                        fields=("kind", "subject"),
                        name="runs_run_coalesced",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "running"), _negated=True),
                            ("lease_until__isnull", False),
                            _connector="OR",
                        ),
                        name="runs_run_running_has_a_lease",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="BeatLease",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("holder", models.CharField(max_length=128)),
                ("until", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="SiteProcess",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("holder", models.CharField(max_length=128)),
                ("role", models.CharField(max_length=16)),
                ("host", models.CharField(max_length=128)),
                ("shared", models.JSONField(default=dict)),
                ("clock_ahead_s", models.FloatField(default=0.0)),
                ("seen_at", models.DateTimeField()),
                (
                    "queues",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=32), db_default=[], default=list, size=None
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("holder", "role"), name="runs_siteprocess_once")],
            },
        ),
        migrations.CreateModel(
            name="BackupMark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since_at", models.DateTimeField()),
                ("made_at", models.DateTimeField(null=True)),
                ("n_failures", models.PositiveIntegerField(db_default=0, default=0)),
                ("error", models.CharField(blank=True, db_default="", default="", max_length=500)),
            ],
        ),
    )
