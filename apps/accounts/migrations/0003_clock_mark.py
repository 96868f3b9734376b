"""The last instant of the clock that is believed: a clock that jumps ahead deletes nothing."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_audit_append_only")]

    operations = [
        migrations.CreateModel(
            name="ClockMark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("ahead_since", models.DateTimeField(null=True)),
                ("ahead_at", models.DateTimeField(null=True)),
            ],
        ),
    ]
