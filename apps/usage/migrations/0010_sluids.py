"""Records keep Slurm's own number of their job. No stored row is rewritten: the new column is empty."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("usage", "0009_kinds_of_resources")]

    operations = [
        migrations.AddField(model_name="record", name="sluid", field=models.BigIntegerField(null=True)),
        migrations.AddField(model_name="replacedrecord", name="sluid", field=models.BigIntegerField(null=True)),
    ]
