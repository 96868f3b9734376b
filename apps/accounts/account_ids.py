"""Look up accounts by name: database ids of many names at once, and accounts of policy entries.

Accounts that represent policy entries receive the sums that other sites report by entry. Their namespace begins with @,
which is reserved: records, rules and names can't use it.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b32encode
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection

from apps.accounts.grid_names import canonical_dn, canonical_fqan, is_dn
from apps.core.errors import FieldProblem, Invalid

_BYTES = 15  # 24 characters without padding; two of a million names collide with a probability of 10⁻²⁴


def pseudonym_of(name: str, namespace: str) -> str:
    """Keyed hash (HMAC-SHA-256) of a name in its namespace; "" for an empty name."""
    if not name:
        return ""
    text = f"{namespace}\0{name}".encode()
    digest = hmac.new(settings.FAIRSHARE_PSEUDONYM_KEY.encode(), text, hashlib.sha256).digest()
    return "p-" + b32encode(digest[:_BYTES]).decode().lower()


class AccountKey(NamedTuple):
    """The fields that identify an account; empty where the source reports none."""

    namespace: str
    user_name: str = ""
    group_name: str = ""
    dn: str = ""
    fqan: str = ""
    project: str = ""


_LONGEST = (128, 256, 256, 1024, 512, 256)  # the columns' lengths, in the order of AccountKey


def canonical(key: AccountKey) -> AccountKey:
    """The canonical spelling of an account's names, under which it is stored and compared: see grid_names.

    A user name that can only be a DN is spelled like one. A name whose canonical spelling is too long to store is
    unchanged.
    """
    _namespace, user_name, _group, dn, fqan, _project = key
    if not dn and not fqan and "=" not in user_name:
        return key
    spelled = key._replace(
        user_name=canonical_dn(user_name) if is_dn(user_name) else user_name,
        dn=canonical_dn(dn) if dn else "",
        fqan=canonical_fqan(fqan) if fqan else "",
    )
    fits = all(len(text) <= longest for text, longest in zip(spelled, _LONGEST, strict=True))
    return spelled if fits and (spelled.user_name or spelled.dn or spelled.group_name) else key


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


_HIDING = "SELECT DISTINCT namespace FROM accounts_account WHERE is_pseudonym AND namespace = ANY(%s)"


def _find_hidden(keys: list[AccountKey]) -> dict[AccountKey, int]:
    """Ids of accounts that are stored under the pseudonyms of these names."""
    with connection.cursor() as cursor:
        cursor.execute(_HIDING, [list({key.namespace for key in keys})])
        hiding = {row[0] for row in cursor.fetchall()}
    hidden = {pseudonymous(key): key for key in keys if key.namespace in hiding}
    return {hidden[key]: account_id for key, account_id in _find(list(hidden)).items()} if hidden else {}


def pseudonymous(key: AccountKey) -> AccountKey:
    """Replace user name and DN by pseudonyms; group, project and FQAN don't name a person."""
    named = key.namespace
    return key._replace(user_name=pseudonym_of(key.user_name, named), dn=pseudonym_of(key.dn, named))


def _columns(keys: list[AccountKey]) -> list[list[str]]:
    return [list(column) for column in zip(*keys, strict=True)]


def _refuse_unusable(keys: list[AccountKey]) -> None:
    for key in keys:
        if not (key.user_name or key.dn or key.group_name):
            raise Invalid("An account needs a user, a DN or a group.", code="account_without_name")
        for column, value, longest in zip(AccountKey._fields, key, _LONGEST, strict=True):
            if len(value) > longest or "\0" in value:
                problem = FieldProblem(column, f"At most {longest} characters, without NUL.")
                raise Invalid(f"The {column} {value[:40]!r} can't be stored.", code="account_name", fields=[problem])


ENTRY_NAMESPACE = "@entries"
RESERVED = "@"  # first character of reserved namespaces


def entry_account(uid: UUID) -> AccountKey:
    """The account for the usage that other sites report for an entry."""
    return AccountKey(ENTRY_NAMESPACE, user_name=str(uid))


def uid_of_account(key: AccountKey) -> UUID | None:
    """The entry that an account represents; None for an account under which jobs run."""
    if key.namespace != ENTRY_NAMESPACE:
        return None
    try:
        uid = UUID(key.user_name)
    except ValueError:
        return None
    return uid if entry_account(uid) == key else None  # only the canonical spelling of the UUID


def is_reserved(namespace: str) -> bool:
    """Whether this namespace is reserved for the service itself."""
    return namespace.lstrip().startswith(RESERVED)


def refuse_reserved(namespace: str, *, where: str = "namespace") -> None:
    """Raises:
    Invalid: the namespace is reserved.
    """
    if is_reserved(namespace):
        message = "Namespaces that begin with @ are reserved for usage of other sites: choose another name."
        raise Invalid(message, code="reserved_namespace", fields=[FieldProblem(where, message)])
