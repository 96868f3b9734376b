"""Watches and notices of rank changes go: the page of a change lists what its publication moved."""

from django.db import migrations

from apps.core.removed_rows import drop_rows_of_kinds, report_dropped_rows

KINDS = ("rank_moved", "watched")


class Migration(migrations.Migration):
    dependencies = [("notices", "0001_tables")]

    operations = [
        report_dropped_rows("notices.Watch"),
        migrations.DeleteModel(name="Watch"),
        drop_rows_of_kinds("notices.Notice", KINDS),
        drop_rows_of_kinds("notices.Rule", KINDS),
    ]
