"""Approvals of accounts were for any bounds; those of now are for the bounds of now."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import F


def approve_present_bounds(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    settings = apps.get_model("schedulers", "LimitSettings")
    settings.objects.exclude(approved_at=None).update(
        approved_percent_a_day=F("percent_a_day"), approved_lapse_s=F("lapse_s")
    )
    settings.objects.exclude(requested_at=None).update(
        requested_percent_a_day=F("percent_a_day"), requested_lapse_s=F("lapse_s")
    )


class Migration(migrations.Migration):
    dependencies = [
        ("schedulers", "0006_follows"),
    ]

    operations = [
        migrations.AddField("limitsettings", "approved_percent_a_day", models.PositiveSmallIntegerField(null=True)),
        migrations.AddField("limitsettings", "approved_lapse_s", models.PositiveIntegerField(null=True)),
        migrations.AddField("limitsettings", "requested_percent_a_day", models.PositiveSmallIntegerField(null=True)),
        migrations.AddField("limitsettings", "requested_lapse_s", models.PositiveIntegerField(null=True)),
        migrations.RunPython(approve_present_bounds, migrations.RunPython.noop),
    ]
