"""Allocations say what rules added to them and whose rest they are; change sets can come from such a rule."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("policies", "0004_units")]

    operations = [
        migrations.AddField("allocation", "by_rules", models.FloatField(db_default=0.0, default=0.0)),
        migrations.AddField("allocation", "carried_from", models.UUIDField(null=True)),
        migrations.AlterField(
            "changeset",
            "origin",
            models.CharField(
                choices=[
                    ("hand", "Manual"),
                    ("import", "From a file"),
                    ("rule", "By a membership rule"),
                    ("dates", "By date"),
                    ("allocation", "By a rule of allocations"),
                    ("revert", "Undoes a revision"),
                    ("request", "Requested by a group"),
                    ("mount", "From another site"),
                ],
                db_default="hand",
                default="hand",
                max_length=16,
            ),
        ),
    ]
