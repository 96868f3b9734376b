from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("usage", "0005_count_kept_records")]

    operations = [
        migrations.AlterModelManagers(name="source", managers=[("all_objects", models.Manager())]),
        migrations.AddField(model_name="source", name="archived_at", field=models.DateTimeField(blank=True, null=True)),
    ]
