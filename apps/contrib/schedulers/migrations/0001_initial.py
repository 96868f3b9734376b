import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.core.create_tables import create_tables


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
        ("policies", "0001_initial"),
    ]

    operations = create_tables(
        migrations.CreateModel(
            name="Scheduler",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.SlugField(max_length=64)),
                (
                    "kind",
                    models.CharField(
                        choices=[("slurm", "Slurm"), ("gridengine", "Grid Engine"), ("htcondor", "HTCondor")],
                        max_length=16,
                    ),
                ),
                (
                    "reach",
                    models.CharField(
                        choices=[("agent", "Agent on the scheduler's host"), ("commands", "Commands on this host")],
                        default="agent",
                        max_length=16,
                    ),
                ),
                ("namespace", models.CharField(blank=True, default="", max_length=128)),
                (
                    "partitions",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=64), null=True, size=None
                    ),
                ),
                ("subtree_uid", models.UUIDField(null=True)),
                ("subtree_path", models.CharField(default="/", max_length=8400)),
                (
                    "carries",
                    models.CharField(
                        choices=[
                            ("priorities", "Job priorities"),
                            ("shares", "Account shares"),
                            ("limits", "Account limits"),
                        ],
                        default="priorities",
                        max_length=12,
                    ),
                ),
                ("knob", models.CharField(max_length=24)),
                ("weight", models.BigIntegerField(default=100000)),
                ("step", models.BigIntegerField(default=100)),
                (
                    "mode",
                    models.CharField(
                        choices=[("off", "Off"), ("shadow", "Shadow"), ("canary", "Canary"), ("on", "On")],
                        default="off",
                        max_length=8,
                    ),
                ),
                ("canary_partition", models.CharField(blank=True, default="", max_length=64)),
                ("every_s", models.PositiveIntegerField(default=30)),
                ("snapshot_age_s", models.PositiveIntegerField(default=900)),
                ("unmapped_percent", models.PositiveSmallIntegerField(default=20)),
                ("changed_percent", models.PositiveSmallIntegerField(default=50)),
                ("calls_per_s", models.PositiveSmallIntegerField(default=20)),
                ("is_paused", models.BooleanField(default=False)),
                ("is_reset_requested", models.BooleanField(default=False)),
                ("revision", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
                ("checks", models.JSONField(null=True)),
                ("checked_at", models.DateTimeField(null=True)),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="schedulers", to="policies.policy"
                    ),
                ),
                ("resumes", models.PositiveIntegerField(default=0)),
                ("updates_per_min", models.PositiveIntegerField(default=1000)),
                ("former_lines", models.JSONField(default=dict)),
                ("follows", models.BooleanField(default=False)),
            ],
            options={
                "ordering": ("name",),
                "constraints": [
                    models.UniqueConstraint(fields=("name",), name="schedulers_scheduler_name"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("step__gte", 1),
                            ("step__lte", models.F("weight")),
                            ("weight__gte", 1),
                            ("weight__lte", 2147483645),
                        ),
                        name="schedulers_scheduler_weight",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("every_s__gte", 5), ("every_s__lte", 3600)),
                        name="schedulers_scheduler_interval",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("changed_percent__gte", 1), ("changed_percent__lte", 100), ("unmapped_percent__lte", 100)
                        ),
                        name="schedulers_scheduler_percent",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("revision__gte", 1)), name="schedulers_scheduler_revision"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("mode", "canary"), _negated=True),
                            models.Q(("canary_partition", ""), _negated=True),
                            ("carries", "limits"),
                            _connector="OR",
                        ),
                        name="schedulers_scheduler_canary",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("kind", "slurm"), ("knob__in", ("sitefactor", "nice", "priority"))),
                            models.Q(("kind", "gridengine"), ("knob__in", ("override_tickets", "priority"))),
                            models.Q(("kind", "htcondor"), ("knob__in", ("priority_factor",))),
                            _connector="OR",
                        ),
                        name="schedulers_scheduler_knob",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("carries", "priorities"),
                            models.Q(
                                ("carries", "shares"),
                                ("kind__in", ["slurm", "gridengine"]),
                                models.Q(("mode", "canary"), _negated=True),
                            ),
                            models.Q(("carries", "limits"), ("kind", "slurm")),
                            _connector="OR",
                        ),
                        name="schedulers_scheduler_carries",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="QueueListing",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("taken_at", models.DateTimeField()),
                ("n_jobs", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                (
                    "scheduler",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="queue", to="schedulers.scheduler"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Agreement",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("snapshot", models.BigIntegerField()),
                ("compared", models.PositiveIntegerField()),
                ("kendall", models.FloatField(null=True)),
                ("spearman", models.FloatField(null=True)),
                ("top_overlap", models.FloatField(null=True)),
                (
                    "scheduler",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="agreements",
                        to="schedulers.scheduler",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["at"], name="schedulers_agreement_at")],
                "constraints": [
                    models.UniqueConstraint(fields=("scheduler", "at"), name="schedulers_agreement_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("kendall", None), models.Q(("kendall__gte", -1), ("kendall__lte", 1)), _connector="OR"
                            ),
                            models.Q(
                                ("spearman", None),
                                models.Q(("spearman__gte", -1), ("spearman__lte", 1)),
                                _connector="OR",
                            ),
                            models.Q(
                                ("top_overlap", None),
                                models.Q(("top_overlap__gte", 0), ("top_overlap__lte", 1)),
                                _connector="OR",
                            ),
                        ),
                        name="schedulers_agreement_range",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AgentPass",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.UUIDField()),
                ("body_sha256", models.CharField(max_length=64)),
                ("received_at", models.DateTimeField()),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField()),
                ("agent", models.CharField(max_length=64)),
                ("host", models.CharField(max_length=255)),
                ("scheduler_version", models.CharField(blank=True, default="", max_length=64)),
                ("orders_revision", models.PositiveIntegerField()),
                (
                    "mode",
                    models.CharField(
                        choices=[("off", "Off"), ("shadow", "Shadow"), ("canary", "Canary"), ("on", "On")], max_length=8
                    ),
                ),
                ("snapshot", models.BigIntegerField(null=True)),
                ("snapshot_age_s", models.FloatField(null=True)),
                ("pending", models.PositiveIntegerField(default=0)),
                ("mapped", models.PositiveIntegerField(default=0)),
                ("unmapped", models.PositiveIntegerField(default=0)),
                ("due", models.PositiveIntegerField(default=0)),
                ("sent", models.PositiveIntegerField(default=0)),
                ("failed", models.PositiveIntegerField(default=0)),
                ("calls", models.PositiveIntegerField(default=0)),
                ("frozen_code", models.CharField(blank=True, default="", max_length=32)),
                ("frozen_detail", models.CharField(blank=True, default="", max_length=1000)),
                ("errors", models.JSONField(default=list)),
                ("unmapped_names", models.JSONField(default=list)),
                (
                    "scheduler",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="passes", to="schedulers.scheduler"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "agent passes",
                "indexes": [
                    models.Index(fields=["scheduler", "-id"], name="schedulers_agentpass_newest"),
                    models.Index(fields=["received_at"], name="schedulers_agentpass_received"),
                ],
                "constraints": [models.UniqueConstraint(fields=("scheduler", "uid"), name="schedulers_agentpass_once")],
            },
        ),
        migrations.CreateModel(
            name="SchedulerValues",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("taken_at", models.DateTimeField()),
                ("n_rows", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                (
                    "scheduler",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="own_values",
                        to="schedulers.scheduler",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "scheduler values",
            },
        ),
        migrations.CreateModel(
            name="ShareListing",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("taken_at", models.DateTimeField()),
                ("cluster", models.CharField(blank=True, max_length=256)),
                ("n_rows", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                (
                    "scheduler",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="share_listing",
                        to="schedulers.scheduler",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ShareOrder",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("cluster", models.CharField(blank=True, max_length=256)),
                ("revision_number", models.PositiveIntegerField()),
                ("lines", models.JSONField()),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "Open"), ("done", "Done"), ("failed", "Failed"), ("cancelled", "Cancelled")],
                        default="open",
                        max_length=12,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("created_by", models.CharField(blank=True, max_length=150)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "scheduler",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="share_orders",
                        to="schedulers.scheduler",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["scheduler", "-id"], name="schedulers_shareorder_newest")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "open")),
                        fields=("scheduler",),
                        name="schedulers_shareorder_one_open",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ended_at", None), ("state", "open")),
                            models.Q(models.Q(("state", "open"), _negated=True), ("ended_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="schedulers_shareorder_ended",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="LimitListing",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("taken_at", models.DateTimeField()),
                ("cluster", models.CharField(blank=True, max_length=256)),
                ("accounts", models.JSONField(default=list)),
                ("lapses_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("ended_by", models.CharField(blank=True, default="", max_length=128)),
                (
                    "scheduler",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="limit_listing",
                        to="schedulers.scheduler",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LimitSettings",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "accounts",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=128), default=list, size=None
                    ),
                ),
                ("canary_account", models.CharField(blank=True, default="", max_length=128)),
                ("percent_a_day", models.PositiveSmallIntegerField(default=10)),
                ("lapse_s", models.PositiveIntegerField(default=86400)),
                (
                    "requested_accounts",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=128), default=list, size=None
                    ),
                ),
                ("requested_at", models.DateTimeField(null=True)),
                ("requested_by_name", models.CharField(blank=True, default="", max_length=150)),
                (
                    "approved_accounts",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=128), default=list, size=None
                    ),
                ),
                ("approved_at", models.DateTimeField(null=True)),
                ("approved_by_name", models.CharField(blank=True, default="", max_length=150)),
                (
                    "requested_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "scheduler",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="limit_settings",
                        to="schedulers.scheduler",
                    ),
                ),
                ("approved_percent_a_day", models.PositiveSmallIntegerField(null=True)),
                ("approved_lapse_s", models.PositiveIntegerField(null=True)),
                ("requested_percent_a_day", models.PositiveSmallIntegerField(null=True)),
                ("requested_lapse_s", models.PositiveIntegerField(null=True)),
            ],
            options={
                "verbose_name_plural": "limit settings",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("lapse_s__gte", 600), ("lapse_s__lte", 7776000), ("percent_a_day__lte", 100)
                        ),
                        name="schedulers_limitsettings_bounds",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RunningListing",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("taken_at", models.DateTimeField()),
                ("n_jobs", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                (
                    "scheduler",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="running", to="schedulers.scheduler"
                    ),
                ),
            ],
        ),
    )
