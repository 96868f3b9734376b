"""All accounts in columns, read from the database and kept until one is created, deleted or renamed.

Many are kept in a file, which all processes of the host map: a process that starts reads those that changed since.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt
from django.conf import settings
from django.db import connection

from apps.accounts.account_keys import AccountKey
from apps.accounts.entry_accounts import is_reserved
from apps.core.derived_state import in_files, in_memory
from apps.core.mapped_columns import Columns, delete_abandoned, find_columns, share_columns
from apps.core.postgresql import SERVER_EPOCH
from apps.core.strings import Strings

DERIVED_STATE = (
    in_memory(
        "_last",
        holds="all accounts, as columns",
        key="start and identity of the database",
        inputs="accounts",
        range="all accounts, up to a transaction",
        ends="accounts of later transactions are read again; another number of accounts, or another database, ends it",
    ),
    in_files(
        "accounts/all.accounts",
        holds="all accounts, as columns, for all processes of a host",
        key="start and identity of the database, format",
        inputs="accounts",
        range="all accounts, up to a transaction",
        ends="as in memory; a newer file replaces it",
    ),
)

I8 = npt.NDArray[np.int64]
MANY = 20_000  # accounts from which on files save more time than they cost


class Origin(NamedTuple):
    """The file with the first accounts of an index, and their number."""

    token: str
    n: int


class AccountKeys(Sequence[AccountKey]):
    """Names of accounts in columns, one for each field of AccountKey; a key is made where one is read."""

    def __init__(self, columns: Sequence[Strings], origin: Origin | None = None) -> None:
        """origin: of all accounts, if they are in a file of this host."""
        self.columns, self.origin = tuple(columns), origin
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
SELECT count(*), (SELECT count(*) FROM accounts_account WHERE id > %(last)s),
    COALESCE(array_agg(id) FILTER (WHERE age(xmin) <= age(%(xmin)s::xid) AND id <= %(last)s), '{}')
FROM accounts_account
"""
_SOME = f"SELECT id, {', '.join(AccountKey._fields)} FROM accounts_account WHERE id = ANY(%s) ORDER BY id"  # noqa: S608 - constants only
_NOW = f"SELECT {SERVER_EPOCH}, pg_snapshot_xmin(pg_current_snapshot())::text::int8"
_MOST_TRANSACTIONS = 1 << 30  # beyond this, comparisons of transaction numbers are ambiguous
_NEW_PART = 20  # the file is written again when more than one in so many accounts is new
_BEFORE_ALL = -1  # an id
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


@dataclass(frozen=True, eq=False)
class _Read:
    """An index as a transaction saw it. xmin: oldest one that had not ended then, in this epoch of the server."""

    index: AccountIndex
    epoch: str
    xmin: int


@dataclass
class _LastRead:
    read: _Read | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


_last = _LastRead()


def load_account_index(*, use_cache: bool) -> AccountIndex:
    """Load all accounts that the current transaction sees.

    use_cache: only in read-only transactions with one snapshot; others may see changes that are rolled back later.
    """
    if not use_cache:
        return _read()
    with _last.lock:
        before, _last.read = _last.read, None  # until the refresh has succeeded
        _last.read = _refreshed(before)
        return _last.read.index


def forget() -> None:
    """Keep nothing in memory, as a process that starts."""
    with _last.lock:
        _last.read = None


def _refreshed(before: _Read | None) -> _Read:
    """What is in memory or in the file, with changes since; else all accounts. The file gets them if it lacks many."""
    epoch, xmin = _one(_NOW)
    index = _followed(before, epoch, xmin)
    if index is None:
        index = _followed(_from_file(epoch), epoch, xmin)
    read = _Read(_read() if index is None else index, epoch, xmin)
    return _in_file(read) if _lacks_many(read.index) else read


def _followed(before: _Read | None, epoch: str, xmin: int) -> AccountIndex | None:
    """The index with what changed since; None if all accounts have to be read for it."""
    if before is None or before.epoch != epoch or not 0 <= xmin - before.xmin < _MOST_TRANSACTIONS:
        return None
    last = int(before.index.ids[-1]) if len(before.index.ids) else _BEFORE_ALL
    return _updated(before.index, last, *_one(_SINCE, {"last": last, "xmin": str(before.xmin & 0xFFFF_FFFF)}))


def _updated(index: AccountIndex, last: int, n: int, n_new: int, changed: list[int]) -> AccountIndex | None:
    """Add new accounts behind the known ones; the same object if no name changed. None if a known one was renamed or
    deleted, or a new one has an older id.

    last: the newest id that is known. n, n_new: all accounts, and those behind it. changed: ids up to it.
    """
    if n - n_new != len(index.ids):  # accounts were deleted, and nothing shows which
        return None
    for account_id, *names in _rows(_SOME, [changed]) if changed else ():
        place = int(np.searchsorted(index.ids, account_id))
        if index.ids[place] != account_id or index.keys[place] != tuple(names):
            return None
    if not n_new:
        return index
    new = _read_behind(last)
    keys = AccountKeys(AccountKeys.joined([index.keys, new.keys]).columns, index.keys.origin)
    return AccountIndex(np.concatenate([index.ids, new.ids]), keys)


def directory() -> Path:
    """Files by account, of this host."""
    return Path(settings.VAR) / "accounts"


def _path() -> Path:
    return directory() / "all.accounts"


def _key(epoch: str) -> str:
    return f"accounts, format 1, database {epoch}"


def _from_file(epoch: str) -> _Read | None:
    shared = find_columns(_path(), key=_key(epoch))
    return None if shared is None else _read_of(shared, epoch)


def _read_of(shared: Columns, epoch: str) -> _Read:
    columns, meta = shared
    origin = Origin(meta["token"], len(columns["id"]))
    keys = AccountKeys([columns[name] for name in AccountKey._fields], origin)
    return _Read(AccountIndex(columns["id"], keys), epoch, meta["xmin"])


def _lacks_many(index: AccountIndex) -> bool:
    """Whether the host's file should have these accounts, and hasn't."""
    origin = index.keys.origin
    n_new = len(index.ids) - (0 if origin is None else origin.n)
    return n_new >= MANY and n_new >= len(index.ids) // _NEW_PART


def _in_file(read: _Read) -> _Read:
    """Write the host's file, and take the accounts from it, if it can be written."""
    index = read.index
    columns = {"id": index.ids, **dict(zip(AccountKey._fields, index.keys.columns, strict=True))}
    with suppress(OSError):  # `share_columns` says why it can't be written
        directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        delete_abandoned(directory())
    meta = {"token": token_hex(16), "xmin": read.xmin}
    shared = share_columns(_path(), (columns, meta), key=_key(read.epoch))
    return _read_of(shared, read.epoch)


def _read() -> AccountIndex:
    return _read_behind(_BEFORE_ALL)


def _read_behind(after: int) -> AccountIndex:
    """All accounts with a greater id, in columns."""
    ids: list[I8] = []
    parts: list[AccountKeys] = []
    while True:
        chunk, *columns = _one(_CHUNK_OF_COLUMNS, [after])
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


def _rows(query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return list(cursor.fetchall())


def _one(query: str, parameters: Any = None) -> tuple[Any, ...]:
    return _rows(query, parameters)[0]
