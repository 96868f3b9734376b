from __future__ import annotations

from typing import Any

from django.db import migrations, models


def reach_by_agent(apps: Any, _schema_editor: Any) -> None:
    """It was never read by REST: the agent did everything."""
    apps.get_model("schedulers", "Scheduler").objects.filter(reach="slurmrestd").update(reach="agent")


class Migration(migrations.Migration):
    dependencies = [("schedulers", "0001_first_models")]

    operations = [
        migrations.RemoveConstraint(model_name="scheduler", name="schedulers_scheduler_reach"),
        migrations.RunPython(reach_by_agent, migrations.RunPython.noop),
        migrations.AlterField(
            model_name="scheduler",
            name="reach",
            field=models.CharField(
                choices=[("agent", "Agent on the scheduler's host"), ("commands", "Commands on this host")],
                default="agent",
                max_length=16,
            ),
        ),
    ]
