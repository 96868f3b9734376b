from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_audit_append_only")]

    operations = [
        migrations.CreateModel(
            name="IdempotentAnswer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("scope", models.CharField(max_length=512)),
                ("key", models.CharField(max_length=128)),
                ("body_sha256", models.CharField(max_length=64)),
                ("answer", models.JSONField()),
                ("created_at", models.DateTimeField(db_index=True)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("scope", "key"), name="accounts_idempotentanswer_key")],
            },
        ),
    ]
