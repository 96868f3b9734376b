"""Records name kinds of resources, such as gpu:h100; hourly sums of them lie beside the buckets.

No stored row is rewritten: the new column of records is empty.
"""

import django.db.models.deletion
from django.db import migrations, models

import apps.usage.columns


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_accounts_of_partitions"),
        ("usage", "0008_all_lines_of_jobs"),
    ]

    operations = [
        migrations.CreateModel(
            name="Kind",
            fields=[
                ("id", models.SmallAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=64, unique=True)),
                ("first_at", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="record",
            name="kinds",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="replacedrecord",
            name="kinds",
            field=models.JSONField(null=True),
        ),
        migrations.CreateModel(
            name="KindHour",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hour_at",
                        "source_id",
                        "account_id",
                        "job_class_id",
                        "site",
                        "kind_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("hour_at", models.DateTimeField()),
                ("site", models.CharField(blank=True, default="", max_length=128)),
                ("amount", models.FloatField()),
                (
                    "account",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.account",
                    ),
                ),
                (
                    "job_class",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="usage.jobclass",
                    ),
                ),
                (
                    "kind",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="usage.kind",
                    ),
                ),
                (
                    "source",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="usage.source",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SealedKind",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour_at", models.DateTimeField()),
                ("amount", models.FloatField()),
                (
                    "kind",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="usage.kind"
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("source", "hour_at", "kind"), name="usage_sealedkind_once")
                ],
            },
        ),
    ]
