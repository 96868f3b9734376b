"""Databases of builds before the first release: they can't be upgraded, and are refused before anything is changed.

Those builds changed their tables without new migrations, so names of migrations don't distinguish them from releases.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from django.db import connection

from apps.core.code_paths import command_name

#: Tables whose columns tell: of all releases, at each migration, records have a hash of their key, and buckets no id.
TABLES = ("usage_record", "usage_bucket")
FORMER_HINT = (
    "Nothing was changed, and it can't be upgraded. With the build that made it, export its policies "
    "(manage.py export_policy), start this version with an empty database (another FAIRSHARE_VAR or DATABASE_URL), "
    f"and import them ({command_name('import_policy')}): see To 1.0.0 in docs/upgrade.md."
)
_COLUMNS = """
SELECT table_name, array_agg(column_name::text) FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = ANY(%s) GROUP BY table_name
"""
_DEFINITION = re.compile(r"^CREATE TABLE (?:\w+\.)?(\w+) \($(.*?)^\)", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r"^    (\w+) ", re.MULTILINE)


def is_former(columns: Mapping[str, Collection[str]]) -> bool:
    """Whether a build before the first release made the tables. columns: by table, as far as it is there."""
    record, bucket = (columns.get(table) for table in TABLES)
    return (record is not None and "key_hash" not in record) or (bucket is not None and "id" in bucket)


def columns_here() -> dict[str, Collection[str]]:
    """Of the configured database."""
    with connection.cursor() as cursor:
        cursor.execute(_COLUMNS, [list(TABLES)])
        return {str(table): names for table, names in cursor.fetchall()}


def columns_of(definitions: str) -> dict[str, Collection[str]]:
    """Of the statements that a dump makes its tables with."""

    def found() -> Iterator[tuple[str, Collection[str]]]:
        for table, body in _DEFINITION.findall(definitions):
            if table in TABLES:
                yield table, _COLUMN.findall(body)

    return dict(found())
