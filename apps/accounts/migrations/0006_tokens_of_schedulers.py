"""Tokens of one scheduler's agent."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_accounts_of_partitions")]

    operations = [
        migrations.AddField(
            model_name="token",
            name="scheduler_name",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
    ]
