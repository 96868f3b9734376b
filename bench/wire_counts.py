"""What a road asks of the database: statements, rows and bytes as the client's library writes them down, and the
processor time of the server's processes that answered. None of it depends on what else the machine does.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MESSAGE = re.compile(rb"^([FB])\t(\d+)\t(\w+)(?:\t (.*))?$")
_ROWS = re.compile(rb'"(?:INSERT 0|UPDATE|DELETE|MERGE|COPY) (\d+)"')
_ASKS = (b"Query", b"Execute")


@dataclass(frozen=True)
class Counts:
    """statements: sent, those of the transaction included. rows: received, or written. bytes: in both directions."""

    statements: int = 0
    rows: int = 0
    bytes: int = 0


def read_trace(text: bytes) -> Counts:
    """Count the messages that libpq wrote down, one a line: direction, length, kind and content."""
    statements = rows = size = 0
    for line in text.split(b"\n"):
        message = _MESSAGE.match(line)
        if message is None:  # the rest of a statement of several lines
            continue
        direction, length, kind, content = message.groups()
        size += 1 + int(length)
        statements += direction == b"F" and kind in _ASKS
        rows += direction == b"B" and kind == b"DataRow"
        written = _ROWS.search(content or b"") if kind == b"CommandComplete" else None
        rows += int(written[1]) if written else 0
    return Counts(statements, rows, size)


@contextmanager
def traced() -> Iterator[list[Counts]]:
    """Within the block, count what Django's connection sends and gets; afterwards the list has it."""
    from django.db import connection
    from django.db.backends.signals import connection_created
    from psycopg import pq

    counts: list[Counts] = []
    with tempfile.TemporaryFile() as file:

        def trace(connection: Any, **_: Any) -> None:
            wire = connection.connection.pgconn
            wire.trace(file.fileno())
            wire.set_trace_flags(pq.Trace.SUPPRESS_TIMESTAMPS)

        connection.ensure_connection()
        trace(connection)
        connection_created.connect(trace)
        try:
            yield counts
        finally:
            connection_created.disconnect(trace)
            if connection.connection is not None:
                connection.connection.pgconn.untrace()
        file.seek(0)
        counts.append(read_trace(file.read()))


class ServerTime:
    """Seconds of the processor that the server spent for Django's connections of this process since they began."""

    def __init__(self) -> None:
        from django.db import connection
        from django.db.backends.signals import connection_created

        self._spent_ns: dict[int, int] = {}
        connection_created.connect(self._note)  # a weak reference: it lives as long as this object
        connection.ensure_connection()
        self._note(connection)

    def _note(self, connection: Any, **_: Any) -> None:
        self._spent_ns.setdefault(connection.connection.info.backend_pid, 0)

    def seconds(self) -> float:
        """0 where the kernel doesn't tell what the server's processes took."""
        for pid in self._spent_ns:
            with suppress(OSError):  # one that has ended keeps what was seen of it
                self._spent_ns[pid] = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
        return sum(self._spent_ns.values()) / 1e9
