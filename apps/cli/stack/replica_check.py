"""System check of the setting that names a read replica."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.db import DEFAULT_DB_ALIAS

from apps.core.postgresql.replica import ALIAS, has_replica

_ADDRESS = ("HOST", "PORT", "NAME")


def check_replica(**_more: Any) -> list[CheckMessage]:
    """Refuse a replica of the embedded database, which has none, and the primary as its own replica."""
    if not has_replica():
        return []
    if settings.FAIRSHARE_EMBEDDED_DATABASE:
        hint = "Set DATABASE_URL to the primary, or unset FAIRSHARE_REPLICA_URL."
        return [Error("FAIRSHARE_REPLICA_URL is set without DATABASE_URL.", hint=hint, id="fairshare.E003")]
    primary, replica = settings.DATABASES[DEFAULT_DB_ALIAS], settings.DATABASES[ALIAS]
    if all(str(primary.get(name, "")) == str(replica.get(name, "")) for name in _ADDRESS):
        hint = "Name the replica's own host or port, or unset it."
        return [Error("FAIRSHARE_REPLICA_URL leads where DATABASE_URL leads.", hint=hint, id="fairshare.E004")]
    return []
