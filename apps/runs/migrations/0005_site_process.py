from django.db import migrations, models

# The worker for other hosts was contacted by a row of its own; it is a worker of the queue `federation` now.
_FORGET_OUTGOING = "DELETE FROM runs_workercontact WHERE id = 2"


class Migration(migrations.Migration):
    dependencies = [("runs", "0004_beat_lease")]

    operations = [
        migrations.CreateModel(
            name="SiteProcess",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("holder", models.CharField(max_length=128)),
                ("role", models.CharField(max_length=16)),
                ("host", models.CharField(max_length=128)),
                ("shared", models.JSONField(default=dict)),
                ("clock_ahead_s", models.FloatField(default=0.0)),
                ("seen_at", models.DateTimeField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=["holder", "role"], name="runs_siteprocess_once")],
            },
        ),
        migrations.RunSQL(_FORGET_OUTGOING, migrations.RunSQL.noop),
    ]
