import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("policies", "0001_tables"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SharedPack",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entry_uid", models.UUIDField()),
                ("entry_path", models.CharField(max_length=8400)),
                ("signed", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                ("token_hash", models.BinaryField(unique=True)),
                ("created_by_name", models.CharField(max_length=200)),
                ("created_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("policy", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="policies.policy")),
            ],
            options={
                "db_table": "shared_pack",
                "ordering": ("-pk",),
            },
        ),
    ]
