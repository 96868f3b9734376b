from django.db import migrations, models
from django.db.models import deletion


class Migration(migrations.Migration):
    """Records are found by their key: indexes that repeat its beginning, or nobody reads, slow every import."""

    dependencies = [("usage", "0002_withdrawn_records")]

    operations = [
        migrations.AlterField(
            model_name="record",
            name="source",
            field=models.ForeignKey(
                db_index=False, on_delete=deletion.PROTECT, related_name="records", to="usage.source"
            ),
        ),
        migrations.AlterField(
            model_name="record",
            name="account",
            field=models.ForeignKey(db_index=False, on_delete=deletion.PROTECT, to="accounts.account"),
        ),
        migrations.AlterField(
            model_name="record",
            name="job_class",
            field=models.ForeignKey(db_index=False, on_delete=deletion.PROTECT, to="usage.jobclass"),
        ),
    ]
