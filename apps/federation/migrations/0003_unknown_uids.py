"""Which entries of a usage feed the policy doesn't have."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("federation", "0002_feeds_are_built")]

    operations = [
        migrations.AddField("subscription", "unknown_uids", models.JSONField(db_default=[], default=list)),
    ]
