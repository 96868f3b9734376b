from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("onboarding", "0002_file_of_the_tree")]

    operations = [
        migrations.AddField(model_name="beginning", name="sshare", field=models.BinaryField(null=True)),
        migrations.AddField(model_name="beginning", name="sshare_at", field=models.DateTimeField(null=True)),
    ]
