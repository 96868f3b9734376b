"""One text that changes with every stored right to read: what was derived from rights ends when it changes."""

from __future__ import annotations

from datetime import datetime

from django.db import connection

_STATE = """
SELECT md5(concat_ws(
    '|',
    (SELECT string_agg(held::text, '|' ORDER BY id) FROM policies_grant AS held
        WHERE expires_at IS NULL OR expires_at > %(at)s),
    (SELECT string_agg(concat_ws(' ', slug, visibility, archived_at), '|' ORDER BY id) FROM policies_policy),
    (SELECT string_agg(concat_ws(' ', user_id, group_id), '|' ORDER BY id) FROM accounts_user_groups)
))
"""


def rights_state(at: datetime) -> str:
    with connection.cursor() as cursor:
        cursor.execute(_STATE, {"at": at})
        return str(cursor.fetchone()[0])
