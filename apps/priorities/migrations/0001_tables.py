import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_tables"),
        ("policies", "0001_tables"),
        ("runs", "0001_tables"),
    ]

    operations = [
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
            ],
        ),
        migrations.CreateModel(
            name="UnmappedUsage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("usage", models.FloatField()),
                ("account", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="accounts.account")),
                (
                    "snapshot",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="unmapped", to="priorities.snapshot"
                    ),
                ),
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
        migrations.AddIndex(
            model_name="snapshot",
            index=models.Index(fields=["policy", "is_live", "-id"], name="priorities_snapshot_newest"),
        ),
        migrations.AddIndex(
            model_name="snapshot",
            index=models.Index(fields=["policy", "as_of"], name="priorities_snapshot_as_of"),
        ),
        migrations.AddConstraint(
            model_name="snapshot",
            constraint=models.UniqueConstraint(fields=("policy", "fingerprint"), name="priorities_snapshot_once"),
        ),
        migrations.AddConstraint(
            model_name="unmappedusage",
            constraint=models.UniqueConstraint(fields=("snapshot", "account"), name="priorities_unmapped_once"),
        ),
        migrations.RunSQL(  # Blobs of snapshots are compressed already: the database needn't try again.
            "ALTER TABLE priorities_snapshot ALTER COLUMN data SET STORAGE EXTERNAL",
            "ALTER TABLE priorities_snapshot ALTER COLUMN data SET STORAGE EXTENDED",
        ),
    ]
