"""What looks at the audit log found."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0003_identities")]
    operations = [
        migrations.CreateModel(
            name="AuditCheck",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("checked_at", models.DateTimeField()),
                ("duration_s", models.FloatField()),
                ("n_rows", models.BigIntegerField()),
                ("head_hash", models.BinaryField(max_length=32)),
                ("broken_id", models.BigIntegerField(null=True)),
                ("problem", models.TextField(blank=True, default="")),
            ],
            options={"indexes": [models.Index(fields=["broken_id", "-n_rows"], name="accounts_auditcheck_good")]},
        ),
    ]
