"""Rules for members record how far they reach. Those of before have it here, where it was the whole policy.

A rule had it where each revision that gave the rule to its entry was published by an administrator, by the system, or
by somebody who maps accounts of the whole policy now. Of all others no more is certain than their own entry.
"""

from __future__ import annotations

import json
from typing import Any

from django.db import migrations, models


def find_early_rules(apps: Any, schema_editor: Any) -> None:
    policies, entries = apps.get_model("policies", "Policy"), apps.get_model("policies", "Entry")
    with_rules = entries.objects.exclude(members=[])
    for policy in policies.objects.filter(pk__in=with_rules.values("policy")):
        wide = _wide_revisions(apps, policy)
        found: dict[str, list[Any]] = {}
        versions = entries.objects.filter(policy=policy, uid__in=with_rules.filter(policy=policy).values("uid"))
        before: dict[Any, set[str]] = {}
        trusted: dict[tuple[Any, str], bool] = {}
        for entry in versions.order_by("uid", "since").iterator(chunk_size=2_000):
            rules = {json.dumps(rule, sort_keys=True) for rule in entry.members}
            for rule in rules - before.get(entry.uid, set()):
                trusted[entry.uid, rule] = trusted.get((entry.uid, rule), True) and entry.since in wide
            before[entry.uid] = rules
        for (uid, rule), is_wide in trusted.items():
            if is_wide:
                found.setdefault(str(uid), []).append(json.loads(rule))
        policy.early_rules = found
        policy.save(update_fields=["early_rules"])


def _wide_revisions(apps: Any, policy: Any) -> set[int]:
    """Numbers of the revisions whose author decides about the whole policy."""
    root = apps.get_model("policies", "Entry").objects.filter(policy=policy, until=None, parent_uid=None).first()
    grants = apps.get_model("policies", "Grant").objects.filter(policy=policy, verbs__contains=["map_accounts"])
    mappers = (
        set(grants.filter(entry_uid=root.uid).exclude(user=None).values_list("user_id", flat=True)) if root else ()
    )
    rows = apps.get_model("policies", "Revision").objects.filter(policy=policy)
    return {
        number
        for number, author, name, is_admin in rows.values_list(
            "number", "author_id", "author_name", "author__is_superuser"
        )
        if is_admin or author in mappers or (author is None and name == "system")
    }


def forget(apps: Any, schema_editor: Any) -> None:
    """The column goes."""


class Migration(migrations.Migration):
    dependencies = [("policies", "0007_mounts")]

    operations = [
        migrations.AddField("policy", "early_rules", models.JSONField(db_default={}, default=dict, editable=False)),
        migrations.RunPython(find_early_rules, forget),
    ]
