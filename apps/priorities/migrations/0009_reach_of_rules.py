"""Mapping rules record how far they reach: everywhere where an administrator wrote them, else their own entry.

The author of a rule is that of each version which brought it. A rule that no version brought was there before versions
were kept, and was written by an administrator: nobody else could.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

_STATED = (
    "kind", "source", "namespace", "user_pattern", "group_pattern", "fqan_pattern", "suffix", "target_uid",
    "member_shares", "archive_after_idle_days",
)  # fmt: skip


def record_reach(apps: Any, schema_editor: Any) -> None:
    versions, rules = apps.get_model("priorities", "MappingVersion"), apps.get_model("priorities", "MappingRule")
    for policy in apps.get_model("policies", "Policy").objects.all():
        mappers = _mappers(apps, policy)
        narrow: set[tuple[str, ...]] = set()
        before: set[tuple[str, ...]] = set()
        kept = versions.objects.filter(policy=policy, rules__isnull=False).select_related("author").order_by("number")
        for version in kept:
            stated = {_key(rule) for rule in version.rules}
            if not _is_wide(version, mappers):
                narrow |= stated - before
            before = stated
            reaching = [
                {**rule, "reach_uid": str(rule["target_uid"])} if _key(rule) in narrow else rule
                for rule in version.rules
            ]
            if reaching != version.rules:
                version.rules = reaching
                version.save(update_fields=["rules"])
        for row in rules.objects.filter(policy=policy):
            if _key({name: getattr(row, name) for name in _STATED}) in narrow:
                row.reach_uid = row.target_uid
                row.save(update_fields=["reach_uid"])


def _key(rule: dict[str, Any]) -> tuple[str, ...]:
    return tuple("" if rule.get(name) is None else str(rule[name]) for name in _STATED)


def _is_wide(version: Any, mappers: set[int]) -> bool:
    if version.author is None:
        return bool(version.author_name == "system")
    return bool(version.author.is_superuser or version.author_id in mappers)


def _mappers(apps: Any, policy: Any) -> set[int]:
    """People who map accounts of the whole policy."""
    root = apps.get_model("policies", "Entry").objects.filter(policy=policy, until=None, parent_uid=None).first()
    if root is None:
        return set()
    grants = apps.get_model("policies", "Grant").objects.filter(
        policy=policy, entry_uid=root.uid, verbs__contains=["map_accounts"]
    )
    return set(grants.exclude(user=None).values_list("user_id", flat=True))


def forget(apps: Any, schema_editor: Any) -> None:
    """The columns go."""


class Migration(migrations.Migration):
    dependencies = [("policies", "0008_reach_of_rules"), ("priorities", "0008_fallbacks")]

    operations = [
        migrations.AddField("mappingrule", "reach_uid", models.UUIDField(blank=True, null=True)),
        migrations.AddField(
            "mappingrule", "written_at", models.CharField(blank=True, db_default="", default="", max_length=40)
        ),
        migrations.RunPython(record_reach, forget),
    ]
