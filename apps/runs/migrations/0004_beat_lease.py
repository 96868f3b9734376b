from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0003_run_limit_key")]

    operations = [
        migrations.CreateModel(
            name="BeatLease",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("holder", models.CharField(max_length=128)),
                ("until", models.DateTimeField()),
            ],
        ),
    ]
