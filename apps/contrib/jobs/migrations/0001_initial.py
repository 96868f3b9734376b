import django.db.models.deletion
from django.db import migrations, models

from apps.core.create_tables import create_tables


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("policies", "0001_initial"),
    ]

    operations = create_tables(
        migrations.CreateModel(
            name="Ledger",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("parent_uid", models.UUIDField()),
                ("benefit", models.JSONField(null=True)),
                (
                    "booked_at",
                    models.CharField(
                        choices=[
                            ("submit", "When it is decided"),
                            ("start", "When it starts"),
                            ("end", "When it ends"),
                        ],
                        default="start",
                        max_length=8,
                    ),
                ),
                ("p_back", models.FloatField(default=0.0)),
                ("p_front", models.FloatField(default=1.0)),
                ("priority_groups", models.JSONField(default=dict)),
                ("lost_after_s", models.PositiveIntegerField(null=True)),
                ("revision", models.PositiveIntegerField(default=1)),
                ("changed_at", models.DateTimeField()),
                (
                    "policy",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="sam_ledger", to="policies.policy"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("p_back__lt", models.F("p_front"))), name="gateway_ledger_back_below_front"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("booked_at__in", ("submit", "start", "end"))),
                        name="gateway_ledger_booked_at",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job", models.CharField(max_length=256)),
                ("group", models.CharField(max_length=8400)),
                ("entry_uid", models.UUIDField(null=True)),
                ("queue", models.CharField(max_length=8)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("decided", "Decided"),
                            ("started", "Started"),
                            ("finished", "Finished"),
                            ("cancelled", "Cancelled"),
                            ("lost", "Lost"),
                        ],
                        max_length=16,
                    ),
                ),
                ("benefit", models.FloatField(default=0.0)),
                ("booked", models.FloatField(default=0.0)),
                ("steps", models.JSONField(default=dict)),
                ("decided_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "ledger",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="jobs", to="gateway.ledger"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ("decided", "started"))),
                        fields=["ledger", "decided_at"],
                        name="gateway_job_open",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at__isnull", False)),
                        fields=["ledger", "ended_at"],
                        name="gateway_job_ended",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("ledger", "job"), name="gateway_job_once"),
                    models.CheckConstraint(
                        condition=models.Q(("booked__gte", 0)), name="gateway_job_booked_not_negative"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Received",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entry_uid", models.UUIDField()),
                ("amount", models.FloatField(default=0.0)),
                (
                    "ledger",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="received", to="gateway.ledger"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("ledger", "entry_uid"), name="gateway_received_once"),
                    models.CheckConstraint(
                        condition=models.Q(("amount__gte", 0)), name="gateway_received_not_negative"
                    ),
                ],
            },
        ),
    )
