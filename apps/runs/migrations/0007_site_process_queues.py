import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0006_run_request_id")]

    operations = [
        migrations.AddField(
            model_name="siteprocess",
            name="queues",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=32), db_default=[], default=list, size=None
            ),
        ),
    ]
