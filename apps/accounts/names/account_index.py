"""All accounts with their ids, remembered by this process: what came, changed or went since is all that is read."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps.accounts.names.account_ids import AccountKey

_NAMES = ", ".join(AccountKey._fields)
# A row that a later snapshot sees and this one doesn't was written by a transaction that this one counts as not ended:
# none of those is older than its xmin. age() compares as transactions are numbered, also past their wrap-around.
_SINCE = """
SELECT count(*), COALESCE(array_agg(id) FILTER (WHERE age(xmin) <= age(%s::xid)), '{}') FROM accounts_account
"""
_SOME = f"SELECT id, {_NAMES} FROM accounts_account WHERE id = ANY(%s)"  # noqa: S608 - constants only
_ALL = f"SELECT id, {_NAMES} FROM accounts_account ORDER BY id"  # noqa: S608 - constants only
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
