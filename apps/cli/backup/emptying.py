"""Remove what an interrupted restore left, so that another backup can be restored in its place."""

from __future__ import annotations

import shutil
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction

from apps.cli.stack.restore_check import UnfinishedRestore
from apps.core.errors import Invalid
from apps.core.site_keys import KEY_FILES

RESTORED = ".restored"  # ends the name of a file with keys that are set elsewhere
_SESSIONS = """
SELECT COALESCE(nullif(application_name, ''), 'session') || ' ' || pid FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY pid
"""
# Objects of extensions stay: a restore needs the extension anyway.
_TABLES = """
SELECT format('DROP %%s IF EXISTS %%s CASCADE', CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
    WHEN 'S' THEN 'SEQUENCE' WHEN 'f' THEN 'FOREIGN TABLE' ELSE 'TABLE' END, oid::regclass)
FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    AND NOT relispartition AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')
ORDER BY relkind = 'S', oid
"""
_ROUTINES = """
SELECT format('DROP ROUTINE IF EXISTS %%s CASCADE', oid::regprocedure) FROM pg_proc
WHERE pronamespace = current_schema()::regnamespace
    AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e') ORDER BY oid
"""


def empty_database() -> None:
    """Drop all tables and functions of the configured schema, in one transaction.

    Raises:
        Invalid: other sessions use the database: what is in it is no rest of an interrupted restore.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_SESSIONS)
        if sessions := [name for (name,) in cursor.fetchall()]:
            raise Invalid(f"Others use the database ({', '.join(sessions[:5])}): stop them, then start over.")
        for listing in (_TABLES, _ROUTINES):
            cursor.execute(listing, [])
            for (statement,) in cursor.fetchall():
                cursor.execute(statement)


def remove_files(unfinished: UnfinishedRestore, *, had_tables: bool) -> None:
    """Remove the keys, secrets and uploads that it wrote, which it did after the tables.

    A release before listed none: then those of FAIRSHARE_VAR.
    """
    var = Path(settings.VAR)
    listed = [Path(path) for path in unfinished.files]
    for path in (*listed, *(var / f"{name}{RESTORED}" for name in KEY_FILES.values())):
        path.unlink(missing_ok=True)
    if not unfinished.digest:
        for name in ("uploads", "secrets") if had_tables else ("uploads",):
            shutil.rmtree(var / name, ignore_errors=True)
