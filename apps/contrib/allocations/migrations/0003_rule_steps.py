"""Steps that rules of allocations have taken."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("packs", "0002_remove_shared_packs"), ("policies", "0005_allocations_by_rules")]

    operations = [
        migrations.CreateModel(
            name="RuleStep",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("rule", models.CharField(max_length=64)),
                ("key", models.CharField(max_length=128)),
                ("entry_uid", models.UUIDField()),
                ("allocation_uid", models.UUIDField(null=True)),
                ("on", models.DateField()),
                ("at", models.DateTimeField()),
                ("level", models.PositiveSmallIntegerField(null=True)),
                ("number", models.PositiveIntegerField(null=True)),
                ("facts", models.JSONField()),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rule_steps", to="policies.policy"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["policy", "-at"], name="packs_rule_step_newest")],
                "constraints": [models.UniqueConstraint(fields=("policy", "rule", "key"), name="packs_rule_step_once")],
            },
        )
    ]
