from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("onboarding", "0001_first_models")]

    operations = [migrations.AddField(model_name="beginning", name="left", field=models.BinaryField(null=True))]
