import django.db.models.deletion
from django.conf import settings
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
            name="Experiment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("synthetic", "Drawn jobs"),
                            ("trace", "An uploaded log"),
                            ("replay", "The site's own jobs"),
                        ],
                        max_length=16,
                    ),
                ),
                ("spec", models.JSONField()),
                ("seed", models.BigIntegerField()),
                ("revision_number", models.PositiveIntegerField()),
                ("release", models.CharField(max_length=64)),
                ("estimate", models.JSONField(default=dict)),
                ("attached_at", models.DateTimeField(null=True)),
                ("attached_by_name", models.CharField(blank=True, default="", max_length=256)),
                ("owner_name", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField()),
                ("cancelled_at", models.DateTimeField(null=True)),
                ("cancelled_by_name", models.CharField(blank=True, default="", max_length=256)),
                (
                    "change_set",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="policies.changeset",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="policies.policy"
                    ),
                ),
                (
                    "preparing",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="runs.run"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["policy", "-id"], name="lab_experiment_newest"),
                    models.Index(
                        condition=models.Q(("change_set__isnull", False)),
                        fields=["change_set"],
                        name="lab_experiment_evidence",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ExperimentInputs",
            fields=[
                (
                    "experiment",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="inputs",
                        serialize=False,
                        to="lab.experiment",
                    ),
                ),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                ("history", models.BinaryField(null=True)),
                ("history_digest", models.CharField(blank=True, default="", max_length=64)),
                ("summary", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="UploadedTrace",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=255)),
                ("data", models.BinaryField()),
                ("digest", models.CharField(blank=True, default="", max_length=64)),
                ("summary", models.JSONField(default=dict)),
                ("owner_name", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField()),
                (
                    "owner",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="policies.policy"
                    ),
                ),
                ("problem", models.TextField(blank=True, db_default="", default="")),
                ("problem_code", models.CharField(blank=True, db_default="", default="", max_length=64)),
                (
                    "run",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="runs.run"
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[("waiting", "Waits to be read"), ("read", "Read"), ("refused", "Refused")],
                        db_default="read",
                        default="read",
                        max_length=16,
                    ),
                ),
                ("text_digest", models.CharField(blank=True, db_default="", default="", max_length=64)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("digest", ""), _negated=True),
                        fields=("policy", "digest"),
                        name="lab_uploadedtrace_once",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("text_digest", ""), _negated=True),
                        fields=("policy", "text_digest"),
                        name="lab_uploadedtrace_text_once",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="VariantResult",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("index", models.PositiveSmallIntegerField()),
                ("data", models.BinaryField(null=True)),
                ("digest", models.CharField(blank=True, default="", max_length=64)),
                ("summary", models.JSONField(default=dict)),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "experiment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="variants", to="lab.experiment"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="runs.run"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("experiment", "index"), name="lab_variantresult_once")],
            },
        ),
        migrations.CreateModel(
            name="PolicyAdvice",
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
                ("head_number", models.PositiveIntegerField()),
                ("computed_at", models.DateTimeField()),
                ("evidence", models.JSONField()),
                ("digest", models.CharField(max_length=64)),
                ("recommended", models.JSONField(default=dict)),
                ("before_change", models.JSONField(default=dict)),
                ("changed_at", models.DateTimeField(null=True)),
                ("inputs", models.JSONField(default=dict)),
            ],
        ),
    )
