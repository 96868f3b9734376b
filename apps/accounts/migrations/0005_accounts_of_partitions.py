"""Accounts of Slurm's associations of one partition, whose partition is in `project`."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("accounts", "0004_remove_saved_views")]

    operations = [
        migrations.AddField(
            model_name="account",
            name="is_of_partition",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddIndex(
            model_name="account",
            index=models.Index(
                condition=Q(("is_of_partition", True)), fields=["namespace"], name="accounts_account_partition"
            ),
        ),
    ]
