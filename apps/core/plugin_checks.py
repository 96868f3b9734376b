"""Checks of plug-ins: no two claim one entry of a slot, those of other packages could be imported, and none that is
left out has rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning
from django.db import DEFAULT_DB_ALIAS, connections

from apps.core.plugin_loading import failures
from apps.core.plugins import KEYED_SLOTS, plugins


def check_claimed_entries(app_configs: Any, **_kwargs: Any) -> list[CheckMessage]:
    """An error for each entry of a slot that two plug-ins claim."""
    return [
        Error(
            f"{first} and {second} both declare {key!r} in {name}; only that of {first} is used.",
            hint="Take one of them out of INSTALLED_APPS.",
            id="fairshare.plugin_claimed",
        )
        for name in KEYED_SLOTS
        for key, first, second in _claimed_twice(name)
    ]


def check_failed_plugins(app_configs: Any, **_kwargs: Any) -> list[CheckMessage]:
    """A warning for each plug-in that fails when it is imported."""
    return [
        Warning(
            f"The plug-in {name} fails when it is imported and is left out: {error}",
            hint="Repair it, or take it out of FAIRSHARE_PLUGINS.",
            id="fairshare.plugin_failed",
        )
        for name, error in failures.items()
    ]


def check_left_out_plugins(
    app_configs: Any, *, databases: Sequence[str] | None = None, **_kwargs: Any
) -> list[CheckMessage]:
    """A warning for each app that isn't installed and whose tables hold rows. It counts them: with --database only."""
    if DEFAULT_DB_ALIAS not in (databases or ()):
        return []
    return [
        Warning(
            f"{label} is not installed, and its tables hold rows: "
            + ", ".join(f"{table} {rows:,}" for table, rows in tables.items())
            + ". They are kept.",
            hint="Install its plug-in again to use them.",
            id="fairshare.plugin_left_out",
        )
        for label, tables in _rows_left().items()
    ]


def _rows_left() -> dict[str, dict[str, int]]:
    """Number of rows of each table that isn't empty, by the label of an app that isn't installed."""
    connection = connections[DEFAULT_DB_ALIAS]
    installed = {config.label for config in apps.get_app_configs()}
    rows_by_table: dict[str, dict[str, int]] = {}
    with connection.cursor() as cursor:
        existing = set(connection.introspection.table_names(cursor))
        if "django_content_type" not in existing:
            return {}
        cursor.execute("SELECT app_label, model FROM django_content_type ORDER BY app_label, model")
        for label, model in cursor.fetchall():
            table = f"{label}_{model}"
            if label in installed or table not in existing:
                continue
            cursor.execute(f"SELECT count(*) FROM {connection.ops.quote_name(table)}")  # noqa: S608 - an existing table
            if n := cursor.fetchone()[0]:
                rows_by_table.setdefault(label, {})[table] = n
    return rows_by_table


def _claimed_twice(name: str) -> Iterator[tuple[str, str, str]]:
    owners: dict[str, str] = {}
    for plugin in plugins():
        for key in getattr(plugin, name)():
            if key in owners:
                yield key, owners[key], plugin.name
            owners.setdefault(key, plugin.name)
