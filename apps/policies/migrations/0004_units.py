"""Allocations and capacities have a unit; those that are there are in core-hours."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("policies", "0003_index_of_members")]

    operations = [
        migrations.RemoveConstraint("allocation", "policies_allocation_finite"),
        migrations.RemoveConstraint("capacity", "policies_capacity_finite"),
        migrations.RenameField("allocation", "core_h", "amount"),
        migrations.RenameField("capacity", "cores", "per_hour"),
        migrations.AddField(
            "allocation", "unit", models.CharField(db_default="core-h", default="core-h", max_length=16)
        ),
        migrations.AddField("capacity", "unit", models.CharField(db_default="core-h", default="core-h", max_length=16)),
        migrations.AddConstraint(
            "allocation",
            models.CheckConstraint(condition=Q(amount__gte=0, amount__lte=1e15), name="policies_allocation_finite"),
        ),
        migrations.AddConstraint(
            "capacity",
            models.CheckConstraint(condition=Q(per_hour__gte=0, per_hour__lte=1e12), name="policies_capacity_finite"),
        ),
    ]
