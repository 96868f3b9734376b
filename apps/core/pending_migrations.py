"""The migrations of this release that the database lacks: what an upgrade does, and why a process isn't ready."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.migration import Migration


def pending_migrations() -> Sequence[Migration]:
    """In the order in which they are applied; `label_of` names one."""
    executor = MigrationExecutor(connection)
    return [migration for migration, _backwards in executor.migration_plan(executor.loader.graph.leaf_nodes())]


def label_of(migration: Migration) -> str:
    return f"{migration.app_label}.{migration.name}"
