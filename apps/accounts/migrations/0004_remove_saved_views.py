"""Saved views of lists go: the address of a list carries its filter and its order, and a bookmark keeps them."""

from django.db import migrations

from apps.core.removed_rows import report_dropped_rows


class Migration(migrations.Migration):
    dependencies = [("accounts", "0003_clock_mark")]

    operations = [report_dropped_rows("accounts.SavedView"), migrations.DeleteModel(name="SavedView")]
