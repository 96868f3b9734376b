"""The database backend: Django imports this module by its name from `ENGINE`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.db.backends.postgresql import base
from django.db.transaction import TransactionManagementError

log = logging.getLogger(__name__)

# Key of a database's settings: PostgreSQL's settings behind a pooler that keeps nothing of a session.
IN_EACH_TRANSACTION = "IN_EACH_TRANSACTION"


class DatabaseWrapper(base.DatabaseWrapper):
    """Calls the callbacks of `as_last_step` and `after_transaction`.

    n_commits: transactions that this connection has committed, for callers to see whether anything was.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: list[Callable[[], object]] = []
        self._last_steps: list[tuple[frozenset[str], Callable[[], object]]] = []
        self.n_commits = 0

    def as_last_step(self, call: Callable[[], object]) -> None:
        """Register a call inside a transaction; a rollback of the savepoint around it drops it."""
        if not self.is_in_transaction():
            raise TransactionManagementError("A last step needs a transaction.")
        self._last_steps.append((frozenset(self.savepoint_ids), call))

    def commit(self) -> None:
        try:
            self._take_last_steps()
        except BaseException:
            self.rollback()  # `atomic` itself does so for errors of the database only
            raise
        super().commit()
        self.n_commits += 1

    def rollback(self) -> None:
        self._last_steps = []
        super().rollback()

    def savepoint_rollback(self, sid: str) -> None:
        super().savepoint_rollback(sid)
        self._last_steps = [(sids, call) for sids, call in self._last_steps if sid not in sids]

    def _take_last_steps(self) -> None:
        while self._last_steps:
            self._last_steps.pop(0)[1]()

    def after_transaction(self, call: Callable[[], object]) -> None:
        self._waiting.append(call)
        if not self.is_in_transaction():
            self._call_waiting()

    def set_autocommit(self, autocommit: bool, *args: Any, **kwargs: Any) -> None:
        """Called by Django as the first and as the last step of a transaction."""
        super().set_autocommit(autocommit, *args, **kwargs)
        if autocommit:
            self._call_waiting()
        elif limits := self.settings_dict.get(IN_EACH_TRANSACTION):
            with self.wrap_database_errors:
                self.connection.execute("; ".join(f"SET LOCAL {name} = '{value}'" for name, value in limits.items()))

    def savepoint_commit(self, sid: str) -> None:
        """Called by Django as the last step of a savepoint, also after its rollback."""
        if self._last_steps and not self.is_in_transaction():
            self._take_last_steps()
        super().savepoint_commit(sid)
        if self._waiting and not self.is_in_transaction():
            self._call_waiting()

    def connect(self) -> None:
        self._waiting, self._last_steps = [], []  # of a connection that broke in its transaction
        super().connect()

    def is_in_transaction(self) -> bool:
        """Whether a transaction is open, not counting the one that Django's test case wraps around a test."""
        innermost: Any = self.atomic_blocks[-1] if self.in_atomic_block else None
        return innermost is not None and not innermost._from_testcase

    def _call_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            try:
                call()
            except Exception:
                log.exception("What waited for the end of a transaction failed.")
