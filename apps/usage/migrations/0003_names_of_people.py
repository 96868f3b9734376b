from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0002_references_by_statement"),
    ]

    operations = [
        migrations.AddField(
            model_name="source",
            name="names_people",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
