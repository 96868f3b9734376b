"""Links to packs without sign-in go: Allocations is printed, and REST signs its numbers."""

from django.db import migrations

from apps.core.removed_rows import report_dropped_rows


class Migration(migrations.Migration):
    dependencies = [("packs", "0001_tables")]

    operations = [report_dropped_rows("packs.SharedPack"), migrations.DeleteModel(name="SharedPack")]
