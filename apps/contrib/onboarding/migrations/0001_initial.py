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
            name="FirstPolicyDraft",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("is_open", models.BooleanField(default=True)),
                ("file_name", models.CharField(max_length=255)),
                ("facts", models.JSONField(default=dict)),
                ("file_settings", models.JSONField(default=dict)),
                ("left", models.BinaryField(null=True)),
                ("sshare", models.BinaryField(null=True)),
                ("sshare_at", models.DateTimeField(null=True)),
                ("tree", models.BinaryField()),
                ("tree_digest", models.CharField(max_length=64)),
                ("decisions", models.JSONField(default=list)),
                ("version", models.PositiveIntegerField(default=1)),
                ("author_name", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "author",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "dry_run",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="usage.import"
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="policies.policy"
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="usage.source"
                    ),
                ),
                (
                    "usage_import",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="usage.import"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("is_open", True)),
                        fields=("is_open",),
                        name="onboarding_firstpolicydraft_one_open",
                    )
                ],
            },
        ),
    )
