"""An entry may say whose document its children come from."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("policies", "0006_pins")]

    operations = [migrations.AddField("entry", "mount", models.JSONField(null=True))]
