from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("policies", "0003_policies_of_roots_go")]

    operations = [
        migrations.AlterModelManagers(name="policy", managers=[("all_objects", models.Manager())]),
        migrations.AddField(model_name="policy", name="archived_at", field=models.DateTimeField(blank=True, null=True)),
    ]
