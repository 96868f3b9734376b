"""Feeds keep the rows that they send, so that reading them computes nothing.

Numbers, marks and digests stay, so readers continue where they are. The first build compares all hours again and stores
their rows; hours that are unchanged keep their number.
"""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def compare_all_hours_again(apps: Any, schema_editor: Any) -> None:
    feeds = apps.get_model("federation", "UsageFeed").objects.using(schema_editor.connection.alias)
    feeds.update(basis={})


class Migration(migrations.Migration):
    dependencies = [
        ("federation", "0001_tables"),
    ]

    operations = [
        migrations.AddField(model_name="feedhour", name="rows", field=models.BinaryField(default=b"")),
        migrations.AddField(model_name="usagefeed", name="built_at", field=models.DateTimeField(null=True)),
        migrations.CreateModel(
            name="FeedRunning",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("n_rows", models.PositiveIntegerField()),
                ("rows", models.BinaryField()),
                (
                    "feed",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="running",
                        to="federation.usagefeed",
                    ),
                ),
            ],
        ),
        migrations.RunPython(compare_all_hours_again, migrations.RunPython.noop),
    ]
