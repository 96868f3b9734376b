import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

from apps.core.create_tables import create_tables


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("schedulers", "0001_initial"),
        ("usage", "0001_initial"),
    ]

    operations = create_tables(
        migrations.CreateModel(
            name="StartState",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seq", models.BigIntegerField(default=0)),
                ("taken_at", models.DateTimeField(null=True)),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                ("opening_seq", models.BigIntegerField(default=0)),
                ("opening", models.BinaryField()),
                ("opening_digest", models.CharField(max_length=64)),
                ("held", models.JSONField(default=dict)),
                ("summed_seq", models.BigIntegerField(default=0)),
                ("recent", models.JSONField(default=dict)),
                ("nodes_out", models.JSONField(default=dict)),
                ("reservations", models.JSONField(default=list)),
                (
                    "scheduler",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="schedulers.scheduler"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StartDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("kind", models.CharField(max_length=8)),
                ("level", models.SmallIntegerField()),
                ("size", models.SmallIntegerField()),
                ("length", models.SmallIntegerField()),
                ("partition", models.CharField(blank=True, max_length=1024)),
                ("kept", models.IntegerField()),
                ("broken", models.IntegerField()),
                ("unknown", models.IntegerField()),
                ("apart_kept", models.IntegerField()),
                ("apart_broken", models.IntegerField()),
                ("bursts", models.FloatField()),
                ("bursts_kept", models.FloatField()),
                ("above", models.IntegerField()),
                ("above_kept", models.IntegerField()),
                ("above_bursts", models.FloatField()),
                ("above_bursts_kept", models.FloatField()),
                ("planned", models.IntegerField()),
                ("planned_kept", models.IntegerField()),
                ("ours_beside_kept", models.IntegerField()),
                (
                    "scheduler",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="schedulers.scheduler",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("scheduler", "day", "kind", "level", "size", "length", "partition"),
                        name="starts_startday_once",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="StartPromise",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job", models.CharField(max_length=64)),
                ("user", models.CharField(max_length=256)),
                ("partition", models.CharField(blank=True, max_length=1024)),
                ("cpus", models.FloatField()),
                ("limit_s", models.FloatField(null=True)),
                ("size", models.SmallIntegerField()),
                ("length", models.SmallIntegerField()),
                ("since_at", models.DateTimeField()),
                ("submit_at", models.DateTimeField(null=True)),
                ("is_first", models.BooleanField()),
                ("made_at", models.DateTimeField()),
                ("made_in", models.BigIntegerField()),
                ("age_s", models.FloatField()),
                ("basis", models.CharField(max_length=16)),
                ("bounds_s", django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), size=3)),
                (
                    "outcomes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.SmallIntegerField(
                            choices=[
                                (0, "open"),
                                (1, "kept"),
                                (2, "broken"),
                                (3, "left"),
                                (4, "kept_apart"),
                                (5, "broken_apart"),
                            ]
                        ),
                        size=3,
                    ),
                ),
                (
                    "settled_in",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(null=True), size=3),
                ),
                ("planned_s", models.FloatField(null=True)),
                (
                    "planned_outcome",
                    models.SmallIntegerField(
                        choices=[
                            (0, "open"),
                            (1, "kept"),
                            (2, "broken"),
                            (3, "left"),
                            (4, "kept_apart"),
                            (5, "broken_apart"),
                        ],
                        default=0,
                    ),
                ),
                ("soon", models.FloatField(null=True)),
                ("others_wait", models.BooleanField()),
                ("was_soon", models.BooleanField(null=True)),
                ("soon_in", models.BigIntegerField(null=True)),
                (
                    "cause",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("altered", "altered"),
                            ("held", "held"),
                            ("cancelled", "cancelled"),
                            ("drained", "nodes drained or down"),
                            ("reserved", "nodes reserved"),
                            ("unseen", "left unseen"),
                        ],
                        default="",
                        max_length=12,
                    ),
                ),
                ("withdrawn_at", models.DateTimeField(null=True)),
                ("left_at", models.DateTimeField(null=True)),
                ("left_in", models.BigIntegerField(null=True)),
                ("has_started", models.BooleanField(null=True)),
                ("next_at", models.DateTimeField(null=True)),
                ("due_at", models.DateTimeField(null=True)),
                ("seen_at", models.DateTimeField(null=True)),
                ("missed_at", models.DateTimeField(null=True)),
                (
                    "scheduler",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="schedulers.scheduler",
                    ),
                ),
                ("offers", models.JSONField(default=list)),
                ("planned_in", models.BigIntegerField(null=True)),
                ("plan_s", models.FloatField(null=True)),
                ("facts", models.BinaryField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("next_at", None), _negated=True),
                        fields=["scheduler", "job"],
                        name="starts_startpromise_waits",
                    ),
                    models.Index(
                        condition=models.Q(("due_at", None), _negated=True),
                        fields=["scheduler", "due_at"],
                        name="starts_startpromise_due",
                    ),
                    models.Index(fields=["scheduler", "made_at"], name="starts_startpromise_made"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("scheduler", "job", "made_in"), name="starts_startpromise_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("has_started", None), ("left_at", None)),
                            models.Q(("has_started__isnull", False), ("left_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="starts_startpromise_left",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SourceWaits",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("from_at", models.DateTimeField()),
                ("to_at", models.DateTimeField()),
                ("n_jobs", models.IntegerField()),
                ("held", django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=2)),
                ("recent", django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=2)),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                (
                    "source",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StartTrees",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seq", models.BigIntegerField()),
                ("at", models.DateTimeField()),
                ("n_rows", models.IntegerField()),
                ("n_jobs", models.IntegerField()),
                ("data", models.BinaryField()),
                ("digest", models.CharField(blank=True, max_length=64)),
                (
                    "scheduler",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="schedulers.scheduler"
                    ),
                ),
            ],
        ),
    )
