import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

from apps.core.create_tables import create_tables


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
        ("policies", "0001_initial"),
        ("runs", "0001_initial"),
    ]

    operations = create_tables(
        migrations.CreateModel(
            name="ChangeSetEffect",
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
                ("snapshot_id", models.BigIntegerField()),
                ("as_of", models.DateTimeField()),
                ("computed_at", models.DateTimeField()),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="Fallback",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entry_uid", models.UUIDField()),
                ("reason", models.TextField()),
                ("since", models.DateTimeField()),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="policies.policy"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "entry_uid"), name="priorities_fallback_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="StoredPlaces",
            fields=[
                ("digest", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("data", models.BinaryField()),
                ("used_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Snapshot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("revision_number", models.PositiveIntegerField()),
                ("mapping_version", models.PositiveIntegerField()),
                ("watermarks", models.JSONField()),
                ("settings", models.JSONField()),
                ("engine_version", models.CharField(max_length=32)),
                ("fingerprint", models.CharField(max_length=64)),
                ("as_of", models.DateTimeField()),
                ("computed_at", models.DateTimeField()),
                ("duration_s", models.FloatField()),
                ("n_ranked", models.PositiveIntegerField()),
                ("is_live", models.BooleanField(default=True)),
                ("is_kept", models.BooleanField(default=False)),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="snapshots", to="policies.policy"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="snapshots", to="runs.run"
                    ),
                ),
                (
                    "places",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="priorities.storedplaces"
                    ),
                ),
                ("valid_at", models.DateTimeField()),
                ("usage_scale", models.FloatField(default=1.0)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["policy", "is_live", "-id"], name="priorities_snapshot_newest"),
                    models.Index(fields=["policy", "as_of"], name="priorities_snapshot_as_of"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "fingerprint"), name="priorities_snapshot_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="UnmappedAccounts",
            fields=[
                (
                    "policy",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="policies.policy",
                    ),
                ),
                (
                    "account_ids",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                ("usage", models.FloatField()),
                (
                    "snapshot",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="priorities.snapshot"
                    ),
                ),
            ],
        ),
        # Both are compressed already: the database needn't try again.
        migrations.RunSQL("ALTER TABLE priorities_snapshot ALTER COLUMN data SET STORAGE EXTERNAL"),
        migrations.RunSQL("ALTER TABLE priorities_storedplaces ALTER COLUMN data SET STORAGE EXTERNAL"),
    )
