"""All accounts in columns, read from the database and kept until one is created, deleted or renamed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps.accounts.account_ids import AccountKey, is_reserved
from apps.core.strings import Strings

I8 = npt.NDArray[np.int64]


class AccountKeys(Sequence[AccountKey]):
    """Names of accounts in columns, one for each field of AccountKey; a key is made where one is read."""

    def __init__(self, columns: Sequence[Strings]) -> None:
        self.columns = tuple(columns)
        self._read = [None if column.is_empty else column for column in self.columns]

    @classmethod
    def of(cls, keys: Iterable[AccountKey]) -> AccountKeys:
        if isinstance(keys, AccountKeys):
            return keys
        rows = list(keys)
        return cls([Strings.of(row[at] for row in rows) for at in range(len(AccountKey._fields))])

    def column(self, name: str) -> Strings:
        """name: a field of AccountKey."""
        return self.columns[AccountKey._fields.index(name)]

    def __len__(self) -> int:
        return len(self.columns[0])

    @overload
    def __getitem__(self, at: int) -> AccountKey: ...
    @overload
    def __getitem__(self, at: slice) -> list[AccountKey]: ...
    def __getitem__(self, at: int | slice) -> AccountKey | list[AccountKey]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        return AccountKey(*(["" if column is None else column[at] for column in self._read]))

    def __iter__(self) -> Iterator[AccountKey]:
        return map(AccountKey._make, zip(*self.columns, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = object.__hash__  # callers cache results by the object

    @cached_property
    def is_reserved(self) -> npt.NDArray[np.bool_]:
        """Mask of accounts of policy entries, under which no jobs run."""
        namespaces, codes = self.column("namespace").coded
        return np.array([is_reserved(namespace) for namespace in namespaces], np.bool_)[codes]

    @classmethod
    def joined(cls, parts: Sequence[AccountKeys]) -> AccountKeys:
        """The keys of all parts, one behind the other."""
        return cls([Strings.joined(columns) for columns in zip(*(part.columns for part in parts), strict=True)])

    def take(self, places: npt.NDArray[Any]) -> AccountKeys:
        """The keys at these places, in their order."""
        return AccountKeys([column.take(places) for column in self.columns])

    def starts_with(self, other: AccountKeys) -> bool:
        """Whether the first keys are all those of the other."""
        pairs = zip(self.columns, other.columns, strict=True)
        return all(column.starts_with(start) for column, start in pairs)


@dataclass(frozen=True, eq=False)
class AccountIndex:
    """All accounts by ascending id; `keys` is parallel to `ids`.

    The same object is returned until an account is created, deleted or renamed: callers can cache results by it.
    """

    ids: I8
    keys: AccountKeys

    @cached_property
    def running(self) -> tuple[I8, AccountIndex]:
        """Accounts under which jobs run, which aren't those of policy entries, and their places here."""
        here = np.flatnonzero(~self.keys.is_reserved)
        return here, AccountIndex(self.ids[here], self.keys.take(here))


# A row that a later snapshot sees and this one doesn't was written by a transaction that hasn't ended in this one, so
# it is not older than this snapshot's xmin. age() compares transaction numbers correctly across wrap-around.
_SINCE = """
SELECT count(*), COALESCE(array_agg(id) FILTER (WHERE age(xmin) <= age(%s::xid)), '{}') FROM accounts_account
"""
_SOME = f"SELECT id, {', '.join(AccountKey._fields)} FROM accounts_account WHERE id = ANY(%s) ORDER BY id"  # noqa: S608 - constants only
_NOW = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8"
_MOST_TRANSACTIONS = 1 << 30  # beyond this, comparisons of transaction numbers are ambiguous
_CHUNK = 200_000  # accounts; PostgreSQL's values have at most 1 GB
# Bytes of big-endian numbers, because arrays would be read number by number. Aggregates read the rows in the order of
# the subquery, all in the same one; `_read` checks that of the ids.
_CHUNK_OF_COLUMNS = f"""
SELECT string_agg(int8send(id), ''), {
    ", ".join(
        f"CASE WHEN max(octet_length({name})) > 0 THEN string_agg(int4send(octet_length({name})), '') END,"
        f" CASE WHEN max(octet_length({name})) > 0 THEN convert_to(string_agg({name}, ''), 'UTF8') END"
        for name in AccountKey._fields
    )
} FROM (
    SELECT id, {", ".join(AccountKey._fields)} FROM accounts_account WHERE id > %s ORDER BY id LIMIT {_CHUNK}
) AS chunk
"""  # noqa: S608 - constants only


@dataclass
class _CachedIndex:
    """xmin: oldest transaction that had not ended when the index was read."""

    index: AccountIndex = field(default_factory=lambda: AccountIndex(np.zeros(0, np.int64), AccountKeys.of(())))
    xmin: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


_cached = _CachedIndex()


def load_account_index(*, use_cache: bool) -> AccountIndex:
    """Load all accounts that the current transaction sees.

    use_cache: only in read-only transactions with one snapshot; others may see changes that are rolled back later.
    """
    if not use_cache:
        return _read()
    with _cached.lock:
        _refresh(_cached)
        return _cached.index


def _refresh(cached: _CachedIndex) -> None:
    before, cached.xmin = cached.xmin, None  # until the refresh has succeeded
    xmin = _one(_NOW)[0]
    known = cached.index if before is not None and 0 <= xmin - before < _MOST_TRANSACTIONS else None
    cached.index = _read() if known is None else _updated(known, *_one(_SINCE, str((before or 0) & 0xFFFF_FFFF)))
    cached.xmin = xmin


def _updated(index: AccountIndex, n_accounts: int, changed: list[int]) -> AccountIndex:
    """Add new accounts behind the known ones; the same object if no name changed. All are read again if a known one was
    renamed or deleted, or a new one has an older id.
    """
    rows = _rows(_SOME, changed) if changed else []
    new = []
    for row in rows:
        place = int(np.searchsorted(index.ids, row[0]))
        if place == len(index.ids):
            new.append(row)
        elif index.ids[place] != row[0] or index.keys[place] != row[1:]:
            return _read()
    if len(index.ids) + len(new) != n_accounts:  # accounts were deleted, and nothing shows which
        return _read()
    if not new:
        return index
    ids = np.array([row[0] for row in new], np.int64)
    added = AccountKeys.of(AccountKey(*row[1:]) for row in new)
    return AccountIndex(np.concatenate([index.ids, ids]), AccountKeys.joined([index.keys, added]))


def _read() -> AccountIndex:
    ids: list[I8] = []
    parts: list[AccountKeys] = []
    after = -1
    while True:
        chunk, *columns = _one(_CHUNK_OF_COLUMNS, after)
        if not chunk:
            break
        ids.append(np.frombuffer(chunk, ">i8").astype(np.int64))
        if not (np.diff(ids[-1]) > 0).all():
            raise RuntimeError("The database has aggregated accounts in another order than that of their ids.")
        pairs = zip(columns[::2], columns[1::2], strict=True)
        parts.append(AccountKeys([_strings(len(ids[-1]), lengths, texts) for lengths, texts in pairs]))
        after = int(ids[-1][-1])
        if len(ids[-1]) < _CHUNK:
            break
    if not parts:
        return AccountIndex(np.zeros(0, np.int64), AccountKeys.of(()))
    return AccountIndex(np.concatenate(ids), AccountKeys.joined(parts))


def _strings(n: int, lengths: bytes | None, texts: bytes | None) -> Strings:
    """A column; None for one whose texts are all empty."""
    if lengths is None or texts is None:
        return Strings(b"", np.zeros(n, np.int32))
    return Strings(bytes(texts), np.cumsum(np.frombuffer(lengths, ">i4"), dtype=np.int64))


def _rows(query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters or None)
        return list(cursor.fetchall())


def _one(query: str, *parameters: Any) -> tuple[Any, ...]:
    return _rows(query, *parameters)[0]
