"""Kombu's file broker with atomic writes, because a worker that reads an incomplete message ends."""

from __future__ import annotations

import os
import sys
import time
import uuid
from typing import Any

from kombu.transport import filesystem
from kombu.utils.json import dumps

_WAIT_S = 0.2


class Channel(filesystem.Channel):
    # Kombu's two base classes have different names for the second argument.
    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]
        """Write a hidden file and rename it: readers only list names that end in `<queue>.msg`."""
        folder = self.data_folder_out
        name = f"{time.monotonic_ns() // 1_000_000}_{uuid.uuid4()}.{queue}.msg"
        draft = os.path.join(folder, f".{name}.part")
        with open(draft, "w", encoding="utf-8") as file:
            file.write(dumps(payload))
        os.rename(draft, os.path.join(folder, name))


class Transport(filesystem.Transport):
    Channel = Channel

    def drain_events(self, connection: Any, timeout: float | None = None, **more: Any) -> None:
        """Wait in short intervals, so that a stopping worker does not wait for the whole timeout twice."""
        deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            try:
                super().drain_events(connection, timeout=min(_WAIT_S, left_s), **more)
                return
            except TimeoutError:
                if time.monotonic() >= deadline or _is_worker_stopping():
                    raise


def _is_worker_stopping() -> bool:
    """Whether Celery has received a stop signal, which it stores in a module that only workers load."""
    state = sys.modules.get("celery.worker.state")
    return state is not None and (state.should_stop is not None or state.should_terminate is not None)
