"""The draft of a first policy is called what it is."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("onboarding", "0001_tables")]

    operations = [migrations.RenameModel(old_name="Beginning", new_name="FirstPolicyDraft")]
