import django.db.models.deletion
from django.db import migrations, models

# Which hours are there already, of every source: from its buckets.
_SEEN = """
INSERT INTO usage_siteday (source_id, site, day, hours)
SELECT source_id, site, (hour_at AT TIME ZONE 'UTC')::date, bit_or(1 << extract(hour FROM hour_at AT TIME ZONE 'UTC')::int)
FROM usage_bucket WHERE cpu_s + gpu_s + mem_gb_s + node_s + billing > 0 GROUP BY 1, 2, 3
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0006_pseudonyms"),
        ("runs", "0001_first_model"),
        ("usage", "0005_sealed_hours"),
    ]

    operations = [
        migrations.CreateModel(
            name="Repetition",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("n_records", models.BigIntegerField()),
                ("last_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="SiteDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("site", models.CharField(blank=True, default="", max_length=128)),
                ("day", models.DateField()),
                ("hours", models.IntegerField()),
            ],
        ),
        migrations.AlterField(
            model_name="replacedrecord",
            name="account",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="accounts.account"
            ),
        ),
        migrations.AlterField(
            model_name="replacedrecord",
            name="by_run",
            field=models.ForeignKey(
                db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="runs.run"
            ),
        ),
        migrations.AlterField(
            model_name="replacedrecord",
            name="job_class",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="usage.jobclass"
            ),
        ),
        migrations.AddIndex(
            model_name="replacedrecord",
            index=models.Index(fields=["by_run", "job"], name="usage_replaced_by"),
        ),
        migrations.AddField(
            model_name="repetition",
            name="by_run",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.run"
            ),
        ),
        migrations.AddField(
            model_name="repetition",
            name="run",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.run"),
        ),
        migrations.AddField(
            model_name="siteday",
            name="source",
            field=models.ForeignKey(
                db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"
            ),
        ),
        migrations.AddConstraint(
            model_name="repetition",
            constraint=models.UniqueConstraint(
                fields=("run", "by_run"), name="usage_repetition_once", nulls_distinct=False
            ),
        ),
        migrations.AddConstraint(
            model_name="siteday",
            constraint=models.UniqueConstraint(fields=("site", "day", "source"), name="usage_siteday_once"),
        ),
        migrations.RunSQL(_SEEN, migrations.RunSQL.noop),
    ]
