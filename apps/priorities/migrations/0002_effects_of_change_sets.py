import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("policies", "0004_proposed_trees"),
        ("priorities", "0001_first_model"),
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
    ]
