import uuid

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
        ("usage", "0001_initial"),
    ]

    operations = create_tables(
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=32)),
                ("key", models.CharField(max_length=200)),
                (
                    "level",
                    models.CharField(
                        choices=[("info", "Information"), ("warn", "Warning"), ("bad", "Action required")], max_length=8
                    ),
                ),
                ("facts", models.JSONField(default=dict)),
                ("entry_uid", models.UUIDField(null=True)),
                ("opened_at", models.DateTimeField()),
                ("news_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(null=True)),
                (
                    "policy",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to="policies.policy",
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to="usage.source",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("closed_at", None)), fields=["-news_at"], name="notices_notice_open"
                    ),
                    models.Index(
                        condition=models.Q(("closed_at", None), _negated=True),
                        fields=["closed_at"],
                        name="notices_notice_closed",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("closed_at", None)), fields=("kind", "key"), name="notices_notice_open_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("closed_at", None), ("closed_at__gte", models.F("opened_at")), _connector="OR"
                        ),
                        name="notices_notice_closed_after",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Mark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("read_at", models.DateTimeField(null=True)),
                ("snoozed_until", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notice_marks",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "notice",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="marks", to="notices.notice"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("user", "notice"), name="notices_mark_once")],
            },
        ),
        migrations.CreateModel(
            name="Preference",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "interval",
                    models.CharField(
                        choices=[
                            ("off", "Never"),
                            ("at_once", "At once"),
                            ("daily", "Once a day"),
                            ("weekly", "Once a week, on Mondays"),
                        ],
                        default="daily",
                        max_length=8,
                    ),
                ),
                ("hour", models.PositiveSmallIntegerField(default=8)),
                (
                    "muted",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=32), default=list, size=None
                    ),
                ),
                ("statements_since", models.DateTimeField(null=True)),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notice_preference",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("hour__lte", 23)), name="notices_preference_hour")
                ],
            },
        ),
        migrations.CreateModel(
            name="Rule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=32)),
                ("is_on", models.BooleanField(default=True)),
                ("terms", models.JSONField(default=dict)),
                ("version", models.PositiveIntegerField(default=1)),
                ("changed_at", models.DateTimeField()),
                ("author_name", models.CharField(blank=True, default="", max_length=256)),
                (
                    "policy",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notice_rules",
                        to="policies.policy",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "notice rules",
                "constraints": [
                    models.UniqueConstraint(fields=("kind", "policy"), name="notices_rule_once", nulls_distinct=False)
                ],
            },
        ),
        migrations.CreateModel(
            name="Statement",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entry_uid", models.UUIDField()),
                ("month_on", models.DateField()),
                ("figures", models.JSONField()),
                ("closed_at", models.DateTimeField()),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="statements", to="policies.policy"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "entry_uid", "month_on"), name="notices_statement_once"),
                    models.CheckConstraint(
                        condition=models.Q(("month_on__day", 1)), name="notices_statement_first_day"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Webhook",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=128)),
                ("url", models.CharField(max_length=2048)),
                ("secret", models.TextField()),
                ("entry_uid", models.UUIDField(null=True)),
                (
                    "kinds",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=32), default=list, size=None
                    ),
                ),
                ("is_on", models.BooleanField(default=True)),
                ("off_because", models.CharField(blank=True, default="", max_length=256)),
                ("n_failed", models.PositiveIntegerField(default=0)),
                ("queued_until", models.DateTimeField()),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="webhooks",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="webhooks",
                        to="policies.policy",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.UUIDField(default=uuid.uuid4, unique=True)),
                (
                    "event",
                    models.CharField(
                        choices=[("opened", "Opened"), ("closed", "Closed"), ("test", "Test")], max_length=8
                    ),
                ),
                ("news_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "To be sent"),
                            ("sent", "Delivered"),
                            ("failed", "Failed"),
                            ("dropped", "Not sent"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("due_at", models.DateTimeField()),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("error", models.CharField(blank=True, default="", max_length=256)),
                ("created_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "notice",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="notices.notice",
                    ),
                ),
                (
                    "webhook",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="notices.webhook"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "waiting")), fields=["due_at"], name="notices_delivery_due"
                    ),
                    models.Index(fields=["webhook", "-id"], name="notices_delivery_log"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("notice__isnull", False)),
                        fields=("webhook", "notice", "event", "news_at"),
                        name="notices_delivery_once",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Mail",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("period", models.CharField(max_length=40)),
                ("listed", models.JSONField(default=list)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "To be sent"),
                            ("sent", "Sent"),
                            ("empty", "Nothing to send"),
                            ("failed", "Failed"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("due_at", models.DateTimeField()),
                ("error", models.CharField(blank=True, default="", max_length=256)),
                ("created_at", models.DateTimeField()),
                ("sent_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notice_mails",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("state", "waiting")), fields=["due_at"], name="notices_mail_due")
                ],
                "constraints": [models.UniqueConstraint(fields=("user", "period"), name="notices_mail_once")],
            },
        ),
    )
