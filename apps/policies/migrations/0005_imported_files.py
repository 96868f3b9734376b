import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("policies", "0004_archived_policies"),
    ]

    operations = [
        migrations.CreateModel(
            name="ImportedFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("cluster", models.CharField(blank=True, max_length=128)),
                ("text", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                (
                    "change_set",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="imported_file",
                        to="policies.changeset",
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="imported_files", to="policies.policy"
                    ),
                ),
            ],
        ),
    ]
