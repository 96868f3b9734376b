"""Look up accounts by name: database ids of many names at once, and accounts of policy entries.

Accounts that represent policy entries receive the sums that other sites report by entry. Their namespace begins with @,
which is reserved: records, rules and names can't use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import connection

from apps.accounts.account_keys import LONGEST_OF_COLUMNS, AccountKey, canonical, pseudonymous
from apps.core.errors import FieldProblem, Invalid

_UNNEST = "unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])"
_NAMES = "namespace, user_name, group_name, dn, fqan, project"
_FIND = f"""
SELECT wanted.place, account.id
FROM {_UNNEST} WITH ORDINALITY AS wanted({_NAMES}, place)
JOIN accounts_account AS account USING ({_NAMES})
"""  # noqa: S608 - constants only
_ADD = f"""
INSERT INTO accounts_account ({_NAMES}, first_seen_at)
SELECT {_NAMES}, %s FROM {_UNNEST} AS wanted({_NAMES})
ORDER BY {_NAMES}
ON CONFLICT ON CONSTRAINT accounts_account_name DO NOTHING
"""  # noqa: S608 - constants only; ordered, so that two writers can't deadlock
_HIDING = "SELECT DISTINCT namespace FROM accounts_account WHERE is_pseudonym AND namespace = ANY(%s)"


def account_ids(keys: Sequence[AccountKey], *, at: datetime) -> dict[AccountKey, int]:
    """The id of each key; missing accounts are created.

    Different spellings of a name get the same id, also if two callers create it concurrently.
    """
    return ids_and_new(keys, at=at)[0]


def ids_and_new(keys: Sequence[AccountKey], *, at: datetime) -> tuple[dict[AccountKey, int], list[AccountKey]]:
    """As `account_ids`, and the accounts that were created."""
    spelled = {key: canonical(key) for key in dict.fromkeys(keys)}
    wanted = list(dict.fromkeys(spelled.values()))
    if not wanted:
        return {}, []
    _refuse_unusable(wanted)
    ids = _find_known(wanted)
    new = [key for key in wanted if key not in ids]
    if new:
        with connection.cursor() as cursor:
            cursor.execute(_ADD, [at, *_columns(new)])
        ids.update(_find(new))
    return {key: ids[name] for key, name in spelled.items()}, new


def known_account_ids(keys: Sequence[AccountKey]) -> dict[AccountKey, int]:
    """The ids of those keys that have an account; none is created."""
    spelled = {key: canonical(key) for key in dict.fromkeys(keys)}
    ids = _find_known(list(dict.fromkeys(spelled.values()))) if spelled else {}
    return {key: ids[name] for key, name in spelled.items() if name in ids}


def _find_known(keys: list[AccountKey]) -> dict[AccountKey, int]:
    """Ids of stored accounts, also of those that are stored under pseudonyms."""
    ids = _find(keys)
    missing = [key for key in keys if key not in ids]
    return ids | _find_hidden(missing) if missing else ids


def _find(keys: list[AccountKey]) -> dict[AccountKey, int]:
    with connection.cursor() as cursor:
        cursor.execute(_FIND, _columns(keys))
        return {keys[place - 1]: account_id for place, account_id in cursor.fetchall()}


def _find_hidden(keys: list[AccountKey]) -> dict[AccountKey, int]:
    """Ids of accounts that are stored under the pseudonyms of these names."""
    with connection.cursor() as cursor:
        cursor.execute(_HIDING, [list({key.namespace for key in keys})])
        hiding = {row[0] for row in cursor.fetchall()}
    hidden = {pseudonymous(key): key for key in keys if key.namespace in hiding}
    return {hidden[key]: account_id for key, account_id in _find(list(hidden)).items()} if hidden else {}


def _columns(keys: list[AccountKey]) -> list[list[str]]:
    return [list(column) for column in zip(*keys, strict=True)]


def _refuse_unusable(keys: list[AccountKey]) -> None:
    for key in keys:
        if not (key.user_name or key.dn or key.group_name):
            raise Invalid("An account needs a user, a DN or a group.", code="account_without_name")
        for column, value, longest in zip(AccountKey._fields, key, LONGEST_OF_COLUMNS, strict=True):
            if len(value) > longest or "\0" in value:
                problem = FieldProblem(column, f"At most {longest} characters, without NUL.")
                raise Invalid(f"The {column} {value[:40]!r} can't be stored.", code="account_name", fields=[problem])
