"""When a run last made progress: one that makes none is taken over."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_tables")]

    operations = [
        migrations.AddField("run", "progressed_at", models.DateTimeField(blank=True, null=True)),
    ]
