"""System check: the database is one that this version works with, or upgrades."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.migrations.loader import MigrationLoader

from apps.cli.stack.postgres import OLDEST_VERSION
from apps.core.code_paths import command_name

_HINT = (
    "Nothing was changed. Run the version that made it, or restore the backup from before its upgrade. Or move its "
    "policies: export them with that version (manage.py export_policy), start this one with an empty database (another "
    f"FAIRSHARE_VAR or DATABASE_URL), and import them ({command_name('import_policy')})."
)


def check_migrations(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Error if the database can't be upgraded: its server is too old, or another version made its tables.

    Django would fail later, or use tables of another version.
    """
    if DEFAULT_DB_ALIAS in (databases or ()):
        version = connection.cursor().connection.info.server_version // 10_000
        if version < OLDEST_VERSION:
            message = f"The database is of PostgreSQL {version}, and {OLDEST_VERSION} is the oldest that works."
            hint = f"Upgrade the server to PostgreSQL {OLDEST_VERSION} or newer: Another PostgreSQL in docs/upgrade.md."
            return [Error(message, hint=hint, id="fairshare.E007")]
    unknown = sorted({name for alias in databases or () for name in _unknown(alias)})
    if not unknown:
        return []
    more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
    message = (
        f"The database belongs to another version: it has the migration {unknown[0]}{more}, which this version lacks."
    )
    return [Error(message, hint=_HINT, id="fairshare.E002")]


def _unknown(alias: str) -> list[str]:
    loader = MigrationLoader(connections[alias], ignore_no_migrations=True)
    ours = {config.label for config in apps.get_app_configs() if config.name.startswith("apps.")}
    missing = [each for each in loader.applied_migrations if each[0] in ours and each not in loader.disk_migrations]
    return [f"{label}.{name}" for label, name in missing]
