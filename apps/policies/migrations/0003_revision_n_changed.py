"""How many entries a revision touched: a page that lists revisions can't count a million rows."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("policies", "0002_tree_guards")]

    operations = [
        migrations.AddField(model_name="revision", name="n_changed", field=models.PositiveIntegerField(db_default=0)),
    ]
