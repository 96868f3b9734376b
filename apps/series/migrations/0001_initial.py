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
            name="Series",
            fields=[
                (
                    "policy",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="daily_series",
                        serialize=False,
                        to="policies.policy",
                    ),
                ),
                ("first_on", models.DateField(null=True)),
                ("through_on", models.DateField(null=True)),
                ("redo_from_on", models.DateField(null=True)),
                ("inputs", models.JSONField(default=dict)),
                ("n_slots", models.PositiveIntegerField(default=0)),
                ("carry", models.BinaryField(null=True)),
                ("carry_digest", models.CharField(blank=True, default="", max_length=64)),
                ("built_at", models.DateTimeField(null=True)),
                ("hours_from_at", models.DateTimeField(null=True)),
                ("hours_through_at", models.DateTimeField(null=True)),
                ("hours_inputs", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="SeriesDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("on", models.DateField()),
                ("ends_at", models.DateTimeField()),
                ("revision_number", models.PositiveIntegerField()),
                ("is_before_first", models.BooleanField()),
                ("root_used", models.FloatField()),
                ("root_decayed", models.FloatField()),
                (
                    "policy",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="policies.policy",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("policy", "on"), name="analytics_seriesday_once")],
            },
        ),
        migrations.CreateModel(
            name="SeriesHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("begins_at", models.DateTimeField()),
                ("revision_number", models.PositiveIntegerField()),
                ("is_before_first", models.BooleanField()),
                ("root_used", models.FloatField()),
                ("root_decayed", models.FloatField()),
                (
                    "policy",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="policies.policy",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "begins_at"), name="analytics_serieshour_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="SeriesHourTile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day_on", models.DateField()),
                ("block", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                (
                    "policy",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="policies.policy",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "block", "day_on"), name="analytics_serieshourtile_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="SeriesSlot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.UUIDField()),
                ("slot", models.PositiveIntegerField()),
                (
                    "policy",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="policies.policy",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("policy", "uid"), name="analytics_seriesslot_once")],
            },
        ),
        migrations.CreateModel(
            name="SeriesTile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("month_on", models.DateField()),
                ("block", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                (
                    "policy",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="policies.policy",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "block", "month_on"), name="analytics_seriestile_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="ChangeSetBackTest",
            fields=[
                (
                    "change_set",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="policies.changeset",
                    ),
                ),
                ("digest_of", models.CharField(max_length=64)),
                ("head_number", models.PositiveIntegerField()),
                ("through_on", models.DateField()),
                ("computed_at", models.DateTimeField()),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                ("inputs", models.JSONField(default=dict)),
            ],
        ),
        # Tiles are compressed already: the database needn't try again.
        migrations.RunSQL("ALTER TABLE analytics_seriestile ALTER COLUMN data SET STORAGE EXTERNAL"),
    )
