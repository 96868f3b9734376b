"""Places of accounts are one row for all snapshots that agree on them; a snapshot holds while usage only decays."""

from typing import Any

import django.db.models.deletion
import numpy as np
from django.db import migrations, models

from apps.core import blobs


def _share_places(apps: Any, _editor: Any) -> None:
    snapshots, stored = apps.get_model("priorities", "Snapshot"), apps.get_model("priorities", "StoredPlaces")
    for pk in list(snapshots.objects.order_by("pk").values_list("pk", flat=True)):
        snapshot = snapshots.objects.get(pk=pk)
        try:
            columns, meta = blobs.unpack(snapshot.data, snapshot.digest)
        except blobs.CorruptBlob:
            snapshot.delete()
            continue
        digest, places, flags = meta.pop("places_digest"), columns.pop("places").tobytes(), columns["flags"]
        known = {"data": places, "used_at": snapshot.computed_at}
        snapshot.places = stored.objects.get_or_create(digest=digest, defaults=known)[0]
        # competes, has_rank, is_ranked and has_factor are the four flags that are left.
        columns["has_demand"] = np.packbits((flags >> 3 & 1).astype("?"))
        columns["flags"] = flags & 7 | (flags >> 4 & 1) << 3
        snapshot.data, snapshot.digest = blobs.pack(columns, meta)
        snapshot.save()


class Migration(migrations.Migration):
    dependencies = [("priorities", "0002_unmapped_accounts")]

    operations = [
        migrations.CreateModel(
            name="StoredPlaces",
            fields=[
                ("digest", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("data", models.BinaryField()),
                ("used_at", models.DateTimeField()),
            ],
        ),
        migrations.RunSQL(
            "ALTER TABLE priorities_storedplaces ALTER COLUMN data SET STORAGE EXTERNAL", migrations.RunSQL.noop
        ),
        migrations.AddField(
            model_name="snapshot",
            name="places",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="priorities.storedplaces",
            ),
        ),
        migrations.AddField(model_name="snapshot", name="valid_at", field=models.DateTimeField(null=True)),
        migrations.AddField(model_name="snapshot", name="usage_scale", field=models.FloatField(default=1.0)),
        migrations.RunSQL("UPDATE priorities_snapshot SET valid_at = as_of", migrations.RunSQL.noop),
        migrations.AlterField(model_name="snapshot", name="valid_at", field=models.DateTimeField()),
        migrations.RunPython(_share_places, migrations.RunPython.noop),
        # A column with checks that still wait for the end of the transaction can't be altered.
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", migrations.RunSQL.noop),
        migrations.AlterField(
            model_name="snapshot",
            name="places",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="priorities.storedplaces"
            ),
        ),
    ]
