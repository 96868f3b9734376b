"""Notices and rules of removed kinds, and rules of single entries and sources, are dropped."""

from __future__ import annotations

import sys
from typing import Any

from django.db import migrations, models
from django.db.models import Q

# What a kind that stays has taken over.
_NOW_PART_OF = {
    "agent_frozen": "agent_silent",
    "blocked_peer": "stale_peer",
    "failed_package": "recompute_failed",
    "source_never_collected": "late_source",
}
_REMOVED = (
    *_NOW_PART_OF,
    "coarse_resolution",
    "damaged_snapshot",
    "drift",
    "ending_roles",
    "ending_shares",
    "ending_tokens",
    "failed_import",
    "failing_collection",
    "full_disk",
    "held_document",
    "held_usage",
    "mail_failing",
    "refused_document",
    "scheduler_shares",
    "silenced_webhook",
    "workers_silent",
)
_STAY = (
    "waiting_decisions",
    "ending_allocations",
    "late_source",
    "unmapped_usage",
    "recompute_failed",
    "agent_silent",
    "stale_peer",
)
_OFF_BECAUSE = "The kinds of notices that it sent were removed. Choose others before you turn it on."


def drop_removed(apps: Any, schema_editor: Any) -> None:
    """Drop the rows, and say how many. Later notices of a kind that was taken over open at the next check."""
    db = schema_editor.connection.alias
    rules = apps.get_model("notices.Rule").objects.using(db)
    notices = apps.get_model("notices.Notice").objects.using(db)
    of_removed = rules.filter(kind__in=_REMOVED)
    _drop(of_removed.exclude(policy=None, source=None), "notices.Rule: {n} set rules of removed kinds are dropped.")
    of_removed.delete()  # of the site, as their kinds began or as an administrator left them
    narrow = rules.filter(~Q(entry_uid=None) | ~Q(source=None))
    _drop(narrow, "notices.Rule: {n} rules of entries and sources are dropped; those of the site and policies stay.")
    _drop(notices.filter(kind__in=_REMOVED), "notices.Notice: {n} notices of removed kinds are dropped.")


def _drop(rows: Any, message: str) -> None:
    n_rows = rows.count()
    if n_rows:
        rows.delete()
        print(message.format(n=f"{n_rows:,}"), file=sys.stderr)


def rename_in_choices(apps: Any, schema_editor: Any) -> None:
    """Mail settings and webhooks name only kinds that stay. A webhook of none of them would send all: it goes off."""
    db = schema_editor.connection.alias
    for preference in apps.get_model("notices.Preference").objects.using(db).exclude(muted=[]):
        preference.muted = [name for name in preference.muted if name in _STAY]
        preference.save(update_fields=["muted"])
    for webhook in apps.get_model("notices.Webhook").objects.using(db).exclude(kinds=[]):
        stay = sorted({_NOW_PART_OF.get(name, name) for name in webhook.kinds} & set(_STAY))
        if not stay and webhook.is_on:
            webhook.is_on, webhook.off_because = False, _OFF_BECAUSE
            print(f"notices.Webhook: {webhook.name!r} is turned off: its kinds were removed.", file=sys.stderr)
        webhook.kinds = stay
        webhook.save(update_fields=["kinds", "is_on", "off_because"])


class Migration(migrations.Migration):
    dependencies = [("notices", "0002_remove_watches_and_rank_notices")]

    operations = [
        migrations.RunPython(drop_removed, migrations.RunPython.noop),
        migrations.RunPython(rename_in_choices, migrations.RunPython.noop),
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", "SET CONSTRAINTS ALL IMMEDIATE"),
        migrations.RemoveConstraint("rule", "notices_rule_once"),
        migrations.RemoveConstraint("rule", "notices_rule_entry_in_policy"),
        migrations.RemoveConstraint("rule", "notices_rule_one_place"),
        migrations.RemoveField("rule", "entry_uid"),
        migrations.RemoveField("rule", "source"),
        migrations.AddConstraint(
            "rule",
            models.UniqueConstraint(fields=["kind", "policy"], name="notices_rule_once", nulls_distinct=False),
        ),
    ]
