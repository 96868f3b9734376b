"""Usual numbers of records, such as 1 processor and 0 GPUs, may be NULL, and take no room then. No row is rewritten."""

from typing import Any

from django.db import migrations, models

from apps.usage.columns import UsualBigIntegerField, UsualFloatField, UsualIntegerField

_OF_JOBS: dict[str, Any] = {
    "cpus": UsualFloatField(default=0, null=True, usual=1.0),
    **{name: UsualFloatField(default=0, null=True, usual=0.0) for name in ("gpus", "nodes", "mem_mb", "billing")},
    "restart": UsualIntegerField(default=0, null=True, usual=0),
    "revision": UsualBigIntegerField(default=0, null=True, usual=0),
}
_OF_ALL: dict[str, Any] = {
    "cluster": models.CharField(blank=True, db_default="", default="", max_length=128),
    "array_task": models.CharField(blank=True, db_default="", default="", max_length=64),
}


class Migration(migrations.Migration):
    dependencies = [("usage", "0010_sluids")]

    operations = [
        migrations.AlterField(model_name=model, name=name, field=field.clone())
        for model, fields in (
            ("record", {**_OF_JOBS, **_OF_ALL}),
            ("replacedrecord", {**_OF_JOBS, **_OF_ALL}),
            ("toolaterecord", _OF_ALL),
        )
        for name, field in fields.items()
    ]
