"""A mount may keep the usage of entries that its document removes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("federation", "0001_first_models")]

    operations = [migrations.AddField("mount", "keep_usage", models.BooleanField(default=False))]
