"""System check: all migrations in the database exist in this version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.db import connections
from django.db.migrations.loader import MigrationLoader

_HINT = (
    "Made by a newer version: run that version, or restore the backup from before its upgrade. "
    "Made before the first release: export its policies with the version that made it "
    "(manage.py export_policy), and start this one with an empty database (another FAIRSHARE_VAR or DATABASE_URL)."
)


def check_migrations(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Error if the database has unknown migrations. Django would fail later, or use tables of another version."""
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
