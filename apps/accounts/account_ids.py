"""Accounts by name and id: many names into row ids at once, all accounts of this process, and those of entries.

Accounts that represent entries of policies are for sums that other sites report by entry: their namespace begins
with @, which is reserved; records, rules and names can't use one.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from base64 import b32encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.conf import settings
from django.db import connection

from apps.accounts.grid_names import canonical_dn, canonical_fqan, is_dn
from apps.core.errors import FieldProblem, Invalid

# --- Account names into row ids ---------------------------------------------------------------------------------------
_BYTES = 15  # 24 characters without padding: two names of a million share one once in 10²⁴ sites


def pseudonym_of(name: str, namespace: str) -> str:
    """Keyed hash (HMAC-SHA-256) of a name in its namespace; "" stays ""."""
    if not name:
        return ""
    said = f"{namespace}\0{name}".encode()
    digest = hmac.new(settings.FAIRSHARE_PSEUDONYM_KEY.encode(), said, hashlib.sha256).digest()
    return "p-" + b32encode(digest[:_BYTES]).decode().lower()


class AccountKey(NamedTuple):
    """The key that distinguishes accounts; "" for fields the source leaves out."""

    namespace: str
    user_name: str = ""
    group_name: str = ""
    dn: str = ""
    fqan: str = ""
    project: str = ""


_LONGEST = (128, 256, 256, 1024, 512, 256)  # the columns' lengths, in the order of AccountKey


def canonical(key: AccountKey) -> AccountKey:
    """The one spelling of an account's names, under which it is stored and compared: see grid_names.

    A user name that can only be a DN is spelled like one. What would become too long to store stays as it is.
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
"""  # noqa: S608 - constants only; ordered, so that two writers can't wait for each other


def account_ids(keys: Sequence[AccountKey], *, at: datetime) -> dict[AccountKey, int]:
    """The id of each key, adding those never seen before. Two callers with the same new names get the same ids.

    Two spellings of one name get the same id.
    """
    spelled = {key: canonical(key) for key in dict.fromkeys(keys)}
    wanted = list(dict.fromkeys(spelled.values()))
    if not wanted:
        return {}
    _refuse_unusable(wanted)
    found = _find(wanted)
    new = [key for key in wanted if key not in found]
    if new:
        found.update(_find_hidden(new))
        new = [key for key in new if key not in found]
    if new:
        with connection.cursor() as cursor:
            cursor.execute(_ADD, [at, *_columns(new)])
        found.update(_find(new))
    return {key: found[name] for key, name in spelled.items()}


def _find(keys: list[AccountKey]) -> dict[AccountKey, int]:
    with connection.cursor() as cursor:
        cursor.execute(_FIND, _columns(keys))
        return {keys[place - 1]: account_id for place, account_id in cursor.fetchall()}


_HIDING = "SELECT DISTINCT namespace FROM accounts_account WHERE is_pseudonym AND namespace = ANY(%s)"


def _find_hidden(keys: list[AccountKey]) -> dict[AccountKey, int]:
    """Those that are stored under the pseudonyms of these names."""
    with connection.cursor() as cursor:
        cursor.execute(_HIDING, [list({key.namespace for key in keys})])
        hiding = {row[0] for row in cursor.fetchall()}
    hidden = {pseudonymous(key): key for key in keys if key.namespace in hiding}
    return {hidden[key]: account_id for key, account_id in _find(list(hidden)).items()} if hidden else {}


def pseudonymous(key: AccountKey) -> AccountKey:
    """The account without the name of a person; group, project and FQAN name none."""
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


# --- All accounts, remembered by this process -------------------------------------------------------------------------
_KEY_COLUMNS = ", ".join(AccountKey._fields)
# A row that a later snapshot sees and this one doesn't was written by a transaction that this one counts as not ended:
# none of those is older than its xmin. age() compares as transactions are numbered, also past their wrap-around.
_SINCE = """
SELECT count(*), COALESCE(array_agg(id) FILTER (WHERE age(xmin) <= age(%s::xid)), '{}') FROM accounts_account
"""
_SOME = f"SELECT id, {_KEY_COLUMNS} FROM accounts_account WHERE id = ANY(%s)"  # noqa: S608 - constants only
_ALL = f"SELECT id, {_KEY_COLUMNS} FROM accounts_account ORDER BY id"  # noqa: S608 - constants only
_NOW = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8"
_MOST_TRANSACTIONS = 1 << 30  # further back, transaction numbers are ambiguous


@dataclass(frozen=True, eq=False)
class Roll:
    """Accounts by id, ascending; `keys` parallel to `ids`. One object as long as no account came, went or was renamed,
    so that what follows from it can be remembered beside it.
    """

    ids: npt.NDArray[np.int64]
    keys: Sequence[AccountKey]


@dataclass
class _Remembered:
    """seen: the oldest transaction that had not ended when it was read."""

    roll: Roll = field(default_factory=lambda: Roll(np.zeros(0, np.int64), []))
    seen: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


_remembered = _Remembered()


def load_roll(*, remembers: bool) -> Roll:
    """The accounts that the current transaction sees.

    remembers: the transaction is one that only reads and sees one state; anything else might yet be undone.
    """
    if not remembers:
        return _roll(_rows(_ALL))
    with _remembered.lock:
        _bring_up_to_date(_remembered)
        return _remembered.roll


def _bring_up_to_date(known: _Remembered) -> None:
    before, known.seen = known.seen, None  # until all of it has worked
    seen = _one(_NOW)[0]
    if before is None or not 0 <= seen - before < _MOST_TRANSACTIONS:
        known.roll = _roll(_rows(_ALL))
    else:
        n_accounts, changed = _one(_SINCE, str(before & 0xFFFF_FFFF))
        known.roll = _with(known.roll, _rows(_SOME, changed) if changed else [])
        if len(known.roll.ids) != n_accounts:  # some were removed: nothing shows which
            known.roll = _roll(_rows(_ALL))
    known.seen = seen


def _with(roll: Roll, changed: list[tuple[Any, ...]]) -> Roll:
    """The object unchanged where the rows equal what is known."""
    place = dict(zip(roll.ids.tolist(), range(len(roll.ids)), strict=True)) if changed else {}
    new = [row for row in changed if row[0] not in place or roll.keys[place[row[0]]] != row[1:]]
    if not new:
        return roll
    known = dict(zip(roll.ids.tolist(), roll.keys, strict=True))
    known.update((row[0], AccountKey(*row[1:])) for row in new)
    ids = sorted(known)
    return Roll(np.array(ids, dtype=np.int64), [known[one] for one in ids])


def _roll(rows: list[tuple[Any, ...]]) -> Roll:
    ids = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
    return Roll(ids, [AccountKey(*row[1:]) for row in rows])


def _rows(query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters or None)
        return list(cursor.fetchall())


def _one(query: str, *parameters: Any) -> tuple[Any, ...]:
    return _rows(query, *parameters)[0]


# --- Accounts that represent entries ----------------------------------------------------------------------------------
ENTRY_NAMESPACE = "@entries"
RESERVED = "@"  # how a namespace of ours begins


def entry_account(uid: UUID) -> AccountKey:
    """The account for the usage that others report of an entry."""
    return AccountKey(ENTRY_NAMESPACE, user_name=str(uid))


def uid_of_account(key: AccountKey) -> UUID | None:
    """The entry that an account represents; None for one under which jobs run."""
    if key.namespace != ENTRY_NAMESPACE:
        return None
    try:
        uid = UUID(key.user_name)
    except ValueError:
        return None
    return uid if entry_account(uid) == key else None  # in this one spelling


def is_reserved(namespace: str) -> bool:
    """Whether only this service itself may use this namespace."""
    return namespace.lstrip().startswith(RESERVED)


def refuse_reserved(namespace: str, *, where: str = "namespace") -> None:
    """Raises:
    Invalid: the namespace is reserved.
    """
    if is_reserved(namespace):
        message = "Namespaces that begin with @ are reserved for usage of other sites: choose another name."
        raise Invalid(message, code="reserved_namespace", fields=[FieldProblem(where, message)])
