"""The order in which transactions lock rows of tables: one for all, so that no two wait for each other."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

_LOCKS = re.compile(r"FROM \"(\w+)\".* FOR (?:NO KEY )?UPDATE\b(.*)$", re.DOTALL)
_CHANGES = re.compile(r"\s*(?:UPDATE|DELETE FROM) \"?(\w+)")
_OURS = re.compile(r"/(?:apps|tests)/(?!lock_order)")
_ADVISORY_LOCKS = re.compile(r"pg_advisory_xact_lock\((\w+|%s)")


def locked_table(sql: str, params: Any = None) -> str | None:
    """The table whose rows a statement locks and may wait for; a lock that doesn't wait takes part in no deadlock.

    A lock of the application is named by its first number.
    """
    if advisory := _ADVISORY_LOCKS.search(sql):
        return f"lock {params[0] if advisory[1] == '%s' else advisory[1]}"
    if changed := _CHANGES.match(sql):
        return changed[1]
    match = _LOCKS.search(sql)
    return match[1] if match and not match[2].endswith(("SKIP LOCKED", "NOWAIT")) else None


# Tables of one group are locked in either order by no two transactions; those that aren't named here neither.
ORDER: tuple[frozenset[str], ...] = (
    frozenset({"policies_policy", "schedulers_scheduler"}),
    frozenset(
        {
            "policies_changeset",
            "mapping_attachment",
            "priorities_unmappedaccounts",
            "schedulers_queuelisting",
            "schedulers_shareorder",
        }
    ),
    frozenset({"schedulers_schedulervalues"}),
    frozenset({"schedulers_agreement"}),
    frozenset({"schedulers_sharelisting"}),
    frozenset({"runs_run"}),
)
_PLACE = {table: place for place, tables in enumerate(ORDER) for table in tables}


@dataclass
class LockWatch:
    """Pairs of tables that one transaction locked in this order, each with the place of the second lock.

    guards: what every transaction with this pair had locked before; two with a common guard wait there for each other,
    and never inside. wrong: what contradicts a pair that another transaction locked without such a guard or, of rows
    that are locked before they are changed, `ORDER`.
    """

    is_of_services: bool = False  # of what tests themselves lock, nothing is noted
    covers_changes: bool = True  # rows that are changed without a lock before, and locks of the application
    pairs: dict[tuple[str, str], str] = field(default_factory=dict)
    guards: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    _held: dict[int, tuple[Any, list[str]]] = field(default_factory=dict)  # by connection: transaction, tables

    def __call__(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        table = locked_table(sql, params) if isinstance(sql, str) else None
        if table is not None and (self.covers_changes or _LOCKS.search(sql)):
            self._note(context["connection"], table, is_declared=not _CHANGES.match(sql))
        return execute(sql, params, many, context)

    def _note(self, connection: BaseDatabaseWrapper, table: str, *, is_declared: bool) -> None:
        blocks = [block for block in connection.atomic_blocks if not getattr(block, "_from_testcase", False)]
        if not blocks:
            return
        transaction, tables = self._held.get(id(connection), (None, []))
        if transaction is not blocks[0]:
            tables = []
        for at, earlier in enumerate(tables) if table not in tables else ():
            self._add(earlier, table, frozenset(tables[:at]), is_declared=is_declared)
        if table not in tables:
            tables.append(table)
        self._held[id(connection)] = (blocks[0], tables)

    def _add(self, earlier: str, later: str, before: frozenset[str], *, is_declared: bool) -> None:
        known = self.guards.get((earlier, later))
        if known is not None and known <= before:
            return
        frames = [frame for frame in traceback.extract_stack() if _OURS.search(frame.filename)]
        if self.is_of_services and not any("/apps/" in frame.filename for frame in frames):
            return
        self.guards[earlier, later] = before if known is None else known & before
        self.pairs[earlier, later] = where = "".join(traceback.format_list(frames))
        if is_declared and _PLACE.get(earlier, 0) > _PLACE.get(later, len(ORDER)):
            self.wrong.append(f"{later} is locked after {earlier}, against the declared order:\n{where}")
        elif (later, earlier) in self.pairs and not self.guards[earlier, later] & self.guards[later, earlier]:
            other = self.pairs[later, earlier]
            self.wrong.append(f"{later} is locked after {earlier}:\n{where}\nand before it:\n{other}")


@contextmanager
def watched_locks(*, is_of_services: bool = False, covers_changes: bool = True) -> Iterator[LockWatch]:
    """Watch all connections of the default database that exist or are opened meanwhile."""
    from django.db import connection

    watch, watched = LockWatch(is_of_services, covers_changes), []

    def add(connection: BaseDatabaseWrapper, **_more: Any) -> None:
        if watch not in connection.execute_wrappers:
            connection.execute_wrappers.append(watch)
            watched.append(connection)

    connection_created.connect(add)
    add(connection)
    try:
        yield watch
    finally:
        connection_created.disconnect(add)
        for each in watched:
            each.execute_wrappers.remove(watch)


@pytest.fixture(scope="module")  # what a test is held against must not depend on those that ran before
def lock_watch() -> Iterator[LockWatch]:
    with watched_locks(is_of_services=True, covers_changes=False) as watch:
        yield watch


@pytest.fixture(scope="module")  # what a test is held against must not depend on those that ran before
def watch_of_changes() -> Iterator[LockWatch]:
    """In place of `lock_watch`: of all that a statement may wait for."""
    with watched_locks(is_of_services=True) as watch:
        yield watch


@pytest.fixture(autouse=True)
def _one_order_of_locks(request: pytest.FixtureRequest, lock_watch: LockWatch) -> Iterator[None]:
    """No service may lock rows of two tables in the reverse of the declared order, or of that of another service."""
    n_before, pairs, guards = len(lock_watch.wrong), dict(lock_watch.pairs), dict(lock_watch.guards)
    yield
    if getattr(request.module, "MERGES_TRANSACTIONS", False):
        lock_watch.pairs, lock_watch.guards = pairs, guards  # those of a merged transaction are of no service
    else:
        assert lock_watch.wrong[n_before:] == [], lock_watch.wrong[n_before]
