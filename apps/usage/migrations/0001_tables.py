import django.db.models.deletion
import django.db.models.manager
from django.conf import settings
from django.db import migrations, models

import apps.usage.columns


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_tables"),
        ("runs", "0001_tables"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Source",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(max_length=64, unique=True)),
                ("name", models.CharField(max_length=128)),
                ("origin", models.CharField(blank=True, default="", max_length=128)),
                ("namespace", models.CharField(max_length=128)),
                ("site", models.CharField(blank=True, default="", max_length=128)),
                ("cluster", models.CharField(blank=True, default="", max_length=128)),
                ("time_zone", models.CharField(blank=True, default="", max_length=64)),
                ("expected_every_s", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("push", "Push: API or upload"),
                            ("directory", "A watched directory"),
                            ("command", "A command, on a schedule"),
                            ("slurm-rest", "Slurm's REST daemon"),
                            ("peer", "Another site's feed: hourly totals by entry, no records"),
                        ],
                        db_default="push",
                        default="push",
                        max_length=16,
                    ),
                ),
                ("collecting", models.JSONField(blank=True, db_default={}, default=dict)),
                ("collect_every_s", models.PositiveIntegerField(blank=True, null=True)),
                ("collect_due_at", models.DateTimeField(blank=True, null=True)),
                ("collected_at", models.DateTimeField(blank=True, null=True)),
                ("collect_error", models.TextField(blank=True, db_default="", default="")),
                ("is_paused", models.BooleanField(db_default=False, default=False)),
                ("cursor", models.JSONField(blank=True, db_default={}, default=dict)),
                ("skew_tolerance_s", models.PositiveIntegerField(db_default=300, default=300)),
                ("skew_s", models.FloatField(blank=True, null=True)),
                ("sealed_before_at", models.DateTimeField(blank=True, null=True)),
                ("keep_records_days", models.PositiveIntegerField(blank=True, null=True)),
                ("names_people", models.BooleanField(db_default=False, default=False)),
                ("is_sample", models.BooleanField(default=False)),
                ("watermark", models.BigIntegerField(default=0)),
                ("last_record_end_at", models.DateTimeField(blank=True, null=True)),
                ("last_submit_at", models.DateTimeField(blank=True, null=True)),
                ("last_received_at", models.DateTimeField(blank=True, null=True)),
                ("n_records", models.BigIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("archived_at", models.DateTimeField(blank=True, null=True)),
            ],
            managers=[
                ("all_objects", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="Import",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("format", models.CharField(max_length=32)),
                ("file_name", models.CharField(max_length=255)),
                ("stored_path", models.CharField(blank=True, default="", max_length=512)),
                ("n_bytes", models.BigIntegerField()),
                ("sha256", models.CharField(max_length=64)),
                ("time_zone", models.CharField(blank=True, default="", max_length=64)),
                ("dry_run", models.BooleanField(default=False)),
                ("all_or_nothing", models.BooleanField(db_default=False, default=False)),
                ("undone_at", models.DateTimeField(blank=True, null=True)),
                ("first_start_at", models.DateTimeField(null=True)),
                ("last_end_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                (
                    "owner",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="usage_import", to="runs.run"
                    ),
                ),
                (
                    "undone_run",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="undone_import",
                        to="runs.run",
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="imports", to="usage.source"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="JobClass",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("queue", models.CharField(blank=True, default="", max_length=128)),
                ("partition", models.CharField(blank=True, default="", max_length=128)),
                ("qos", models.CharField(blank=True, default="", max_length=128)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("queue", "partition", "qos"), name="usage_jobclass_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="ChangedHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("watermark", models.BigIntegerField()),
                ("from_hour_at", models.DateTimeField()),
                (
                    "source",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Bucket",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hour_at",
                        "source_id",
                        "account_id",
                        "job_class_id",
                        "site",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("cpu_s", models.FloatField(default=0)),
                ("gpu_s", models.FloatField(default=0)),
                ("mem_gb_s", models.FloatField(default=0)),
                ("node_s", models.FloatField(default=0)),
                ("billing", models.FloatField(default=0)),
                ("jobs", models.FloatField(default=0)),
                ("hour_at", models.DateTimeField()),
                (
                    "source",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="usage.source",
                    ),
                ),
                (
                    "account",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="accounts.account",
                    ),
                ),
                (
                    "job_class",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="usage.jobclass",
                    ),
                ),
                ("site", models.CharField(blank=True, default="", max_length=128)),
            ],
        ),
        migrations.CreateModel(
            name="SourceDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("received_on", models.DateField()),
                ("n_new", models.BigIntegerField(default=0)),
                ("n_duplicate", models.BigIntegerField(default=0)),
                ("n_corrected", models.BigIntegerField(default=0)),
                ("n_late", models.BigIntegerField(default=0)),
                ("n_too_late", models.BigIntegerField(default=0)),
                ("n_rejected", models.BigIntegerField(default=0)),
                ("n_ahead", models.BigIntegerField(default=0)),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="days", to="usage.source"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="TooLateRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("received_at", models.DateTimeField()),
                ("cluster", models.CharField(blank=True, default="", max_length=128)),
                ("job", models.CharField(max_length=128)),
                ("array_task", models.CharField(blank=True, default="", max_length=64)),
                ("submit_at", models.DateTimeField()),
                ("restart", models.IntegerField(default=0)),
                ("revision", models.BigIntegerField(default=0)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Waiting to start"),
                            ("running", "Running"),
                            ("finished", "Finished"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        max_length=16,
                    ),
                ),
                ("end_at", models.DateTimeField()),
                ("cpu_s", models.FloatField(default=0)),
                (
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="accounts.account"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="runs.run"
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RejectedLine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("line", models.BigIntegerField()),
                ("code", models.CharField(max_length=64)),
                ("message", models.CharField(max_length=512)),
                ("excerpt", models.CharField(blank=True, default="", max_length=256)),
                (
                    "usage_import",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rejected_lines", to="usage.import"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("usage_import", "line"), name="usage_rejectedline_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Repetition",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("n_records", models.BigIntegerField()),
                ("last_at", models.DateTimeField()),
                (
                    "by_run",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.run"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.run"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("run", "by_run"), name="usage_repetition_once", nulls_distinct=False
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SiteDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("site", models.CharField(blank=True, default="", max_length=128)),
                ("day", models.DateField()),
                ("hours", models.IntegerField()),
                (
                    "source",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="usage.source",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("site", "day", "source"), name="usage_siteday_once")],
            },
        ),
        migrations.CreateModel(
            name="SealedHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour_at", models.DateTimeField()),
                ("n_records", models.BigIntegerField(default=0)),
                ("cpu_s", models.FloatField(default=0)),
                ("gpu_s", models.FloatField(default=0)),
                ("mem_gb_s", models.FloatField(default=0)),
                ("node_s", models.FloatField(default=0)),
                ("billing", models.FloatField(default=0)),
                ("jobs", models.FloatField(default=0)),
                (
                    "source",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("source", "hour_at"), name="usage_sealedhour_once")],
            },
        ),
        migrations.CreateModel(
            name="ReplacedRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("replaced_at", models.DateTimeField()),
                ("cluster", models.CharField(blank=True, default="", max_length=128)),
                ("job", models.CharField(max_length=128)),
                ("array_task", models.CharField(blank=True, default="", max_length=64)),
                ("submit_at", models.DateTimeField()),
                ("job_number", models.IntegerField()),
                ("key_hash", models.BigIntegerField()),
                ("restart", models.IntegerField(default=0)),
                ("revision", models.BigIntegerField(default=0)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Waiting to start"),
                            ("running", "Running"),
                            ("finished", "Finished"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        max_length=16,
                    ),
                ),
                ("site", models.CharField(blank=True, default="", max_length=128)),
                ("start_at", models.DateTimeField(null=True)),
                ("end_at", models.DateTimeField(null=True)),
                ("cpus", models.FloatField(default=0)),
                ("gpus", models.FloatField(default=0)),
                ("nodes", models.FloatField(default=0)),
                ("mem_mb", models.FloatField(default=0)),
                ("billing", models.FloatField(default=0)),
                ("requested_s", models.FloatField(null=True)),
                ("is_charge", models.BooleanField(default=False)),
                ("seen_at", models.DateTimeField(null=True)),
                ("note", models.CharField(blank=True, default="", max_length=64)),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.account",
                    ),
                ),
                (
                    "by_run",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="runs.run",
                    ),
                ),
                (
                    "job_class",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="usage.jobclass",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="runs.run"
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["source", "-replaced_at"], name="usage_replaced_newest"),
                    models.Index(fields=["by_run", "job"], name="usage_replaced_by"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Record",
            fields=[
                # Wide columns first, so that none is padded.
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key_hash", models.BigIntegerField()),
                ("submit_at", models.DateTimeField()),
                ("start_at", models.DateTimeField(null=True)),
                ("end_at", models.DateTimeField(null=True)),
                ("revision", models.BigIntegerField(default=0)),
                ("cpus", models.FloatField(default=0)),
                ("gpus", models.FloatField(default=0)),
                ("nodes", models.FloatField(default=0)),
                ("mem_mb", models.FloatField(default=0)),
                ("billing", models.FloatField(default=0)),
                ("requested_s", models.FloatField(null=True)),
                ("seen_at", models.DateTimeField(null=True)),
                (
                    "run",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to="runs.run",
                    ),
                ),
                (
                    "source",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="records",
                        to="usage.source",
                    ),
                ),
                (
                    "account",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="accounts.account",
                    ),
                ),
                (
                    "job_class",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="usage.jobclass",
                    ),
                ),
                ("job_number", models.IntegerField()),
                ("restart", models.IntegerField(default=0)),
                ("is_charge", models.BooleanField(db_default=False, default=False)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Waiting to start"),
                            ("running", "Running"),
                            ("finished", "Finished"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        max_length=16,
                    ),
                ),
                ("cluster", models.CharField(blank=True, default="", max_length=128)),
                ("job", models.CharField(max_length=128)),
                ("array_task", models.CharField(blank=True, default="", max_length=64)),
                ("site", models.CharField(blank=True, default="", max_length=128)),
                ("note", models.CharField(blank=True, db_default="", default="", max_length=64)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "finished"), _negated=True),
                        fields=["source"],
                        name="usage_record_open",
                    ),
                    models.Index(fields=["account"], name="usage_record_account"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("source", "job_number", "key_hash"), name="usage_record_key")
                ],
            },
        ),
        migrations.CreateModel(
            name="Overlap",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("site", models.CharField(max_length=128)),
                ("from_at", models.DateTimeField()),
                ("to_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[("held", "Held"), ("counted", "Both count"), ("dropped", "Only the first counts")],
                        default="held",
                        max_length=16,
                    ),
                ),
                ("found_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("reason", models.TextField(blank=True, default="")),
                (
                    "decided_by",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "held",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="overlaps", to="usage.source"
                    ),
                ),
                (
                    "kept",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["held", "site", "from_at"], name="usage_overlap_hours")],
            },
        ),
        migrations.AddIndex(
            model_name="import",
            index=models.Index(fields=["source", "-id"], name="usage_import_newest"),
        ),
        migrations.AddIndex(
            model_name="changedhour",
            index=models.Index(fields=["source", "from_hour_at"], name="usage_changed_hour"),
        ),
        migrations.AddConstraint(
            model_name="bucket",
            constraint=models.CheckConstraint(
                condition=models.Q(("cpu_s__gte", 0)), name="usage_bucket_cpu_not_negative"
            ),
        ),
        migrations.AddConstraint(
            model_name="sourceday",
            constraint=models.UniqueConstraint(fields=("source", "received_on"), name="usage_sourceday_once"),
        ),
        migrations.AddIndex(
            model_name="toolaterecord",
            index=models.Index(fields=["source", "-received_at"], name="usage_too_late_newest"),
        ),
        migrations.AddConstraint(
            model_name="toolaterecord",
            constraint=models.UniqueConstraint(
                fields=("source", "cluster", "job", "array_task", "submit_at", "restart", "revision", "end_at"),
                name="usage_toolaterecord_once",
            ),
        ),
    ]
