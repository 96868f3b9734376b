"""Remove snapshots of past instants that were computed with a revision or a mapping that came later.

Each can be asked for again: `manage.py recompute POLICY --as-of INSTANT`.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations
from django.db.models import Exists, OuterRef


def drop(apps: Any, schema_editor: Any) -> None:
    revisions = apps.get_model("policies", "Revision").objects.filter(
        policy_id=OuterRef("policy_id"), number=OuterRef("revision_number"), published_at__gt=OuterRef("as_of")
    )
    versions = apps.get_model("priorities", "MappingVersion").objects.filter(
        policy_id=OuterRef("policy_id"), number=OuterRef("mapping_version"), at__gt=OuterRef("as_of")
    )
    reconstructed = apps.get_model("priorities", "Snapshot").objects.filter(is_live=False)
    reconstructed.filter(Exists(revisions) | Exists(versions)).delete()


def keep(apps: Any, schema_editor: Any) -> None:
    """What was removed was wrong."""


class Migration(migrations.Migration):
    dependencies = [("policies", "0007_mounts"), ("priorities", "0009_reach_of_rules")]

    operations = [migrations.RunPython(drop, keep)]
