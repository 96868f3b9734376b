from django.db import migrations, models


class Migration(migrations.Migration):
    """The origin of a peer's source is its issuer, which has up to 128 characters."""

    dependencies = [("usage", "0009_peers_as_sources")]

    operations = [
        migrations.AlterField(
            model_name="source", name="origin", field=models.CharField(blank=True, default="", max_length=128)
        ),
    ]
