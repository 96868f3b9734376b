"""The database backend: Django imports this module by its name from `ENGINE`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.db.backends.postgresql import base

log = logging.getLogger(__name__)


class DatabaseWrapper(base.DatabaseWrapper):
    """Calls the callbacks of `after_transaction`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: list[Callable[[], object]] = []

    def after_transaction(self, call: Callable[[], object]) -> None:
        self._waiting.append(call)
        if not self._is_in_transaction():
            self._call_waiting()

    def set_autocommit(self, autocommit: bool, *args: Any, **kwargs: Any) -> None:
        """Called by Django as the last step of a transaction."""
        super().set_autocommit(autocommit, *args, **kwargs)
        if autocommit:
            self._call_waiting()

    def savepoint_commit(self, sid: str) -> None:
        """Called by Django as the last step of a savepoint, also after its rollback."""
        super().savepoint_commit(sid)
        if self._waiting and not self._is_in_transaction():
            self._call_waiting()

    def connect(self) -> None:
        self._waiting = []  # of a connection that broke in its transaction
        super().connect()

    def _is_in_transaction(self) -> bool:
        """Whether a transaction is open, not counting the one that Django's test case wraps around a test."""
        blocks: list[Any] = self.atomic_blocks
        return self.in_atomic_block and not all(block._from_testcase for block in blocks)

    def _call_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            try:
                call()
            except Exception:
                log.exception("What waited for the end of a transaction failed.")
