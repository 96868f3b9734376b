from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_first_model")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="holder",
            field=models.CharField(blank=True, db_default="", default="", max_length=128),
        ),
    ]
