from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_first_models")]

    operations = [
        migrations.CreateModel(
            name="WorkerContact",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
            ],
        )
    ]
