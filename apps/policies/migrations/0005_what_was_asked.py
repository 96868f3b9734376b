"""A request keeps what was asked when another amount is granted."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("policies", "0004_proposed_trees")]

    operations = [migrations.AddField("changeset", "asked", models.JSONField(null=True))]
