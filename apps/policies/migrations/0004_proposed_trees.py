import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("policies", "0003_terms_roles_and_reviews")]

    operations = [
        migrations.CreateModel(
            name="ProposedTree",
            fields=[
                (
                    "change_set",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="proposed_tree",
                        serialize=False,
                        to="policies.changeset",
                    ),
                ),
                ("settings", models.JSONField()),
                ("tree", models.BinaryField()),
                ("tree_digest", models.CharField(max_length=64)),
            ],
        ),
    ]
