from django.db import migrations, models


class Migration(migrations.Migration):
    """A withdrawn record stays as such. No table changes: choices live in the code."""

    dependencies = [("usage", "0001_first_model")]

    operations = [
        migrations.AlterField(
            model_name="record",
            name="state",
            field=models.CharField(
                choices=[
                    ("pending", "Waiting to start"),
                    ("running", "Running"),
                    ("finished", "Finished"),
                    ("withdrawn", "Withdrawn"),
                ],
                max_length=16,
            ),
        ),
    ]
