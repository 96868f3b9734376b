from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("schedulers", "0004_updates"),
    ]

    operations = [
        migrations.AddField(
            model_name="scheduler",
            name="former_lines",
            field=models.JSONField(default=dict),
        ),
    ]
