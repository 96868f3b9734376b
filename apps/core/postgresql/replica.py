"""A read replica of the database: how far it is behind, and reading from it in place of the primary.

How far: each half second a thread notes the primary's WAL position. The replica has all that was committed before the
newest position that it has replayed. That needs no clock of the other hosts, and an idle primary doesn't make it old.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, close_old_connections, connections

log = logging.getLogger(__name__)

ALIAS = "replica"
POLL_S = 0.5
_MOST_LAG_SAMPLES = 20_000  # of a replica that is so far behind that its lag is told by its last commit

# What a copy of all files keeps: a replica of another server, and another database of this one, differ in it.
_IDENTITY = """
(SELECT system_identifier FROM pg_control_system()), (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_OF_REPLICA = f"""
SELECT pg_is_in_recovery(), coalesce(pg_last_wal_replay_lsn() - '0/0'::pg_lsn, 0)::int8, {_IDENTITY},
    greatest((SELECT timeline_id FROM pg_control_checkpoint()),
        (SELECT min_recovery_end_timeline FROM pg_control_recovery())),
    extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8
"""  # noqa: S608 - constants only
# The first eight digits of a WAL file are its timeline, which each promotion changes.
_OF_PRIMARY = f"""
SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::int8, {_IDENTITY},
    ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
"""
_WRITTEN = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::int8"


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """The last measurement.

    problem: why the replica can't be used whatever its lag; "" if it can. replayed: its WAL position. current_s:
    time.monotonic() of an instant of whose commits it has all; None if it has not reached any noted position. behind_s:
    age of its last commit by its own clock, for that case.
    """

    problem: str = "was not reached yet"
    is_measured: bool = False
    replayed: int = 0
    current_s: float | None = None
    behind_s: float | None = None

    def lag_s(self, now_s: float) -> float | None:
        """Its lag, an upper bound; by its own clock where it has not reached any noted position."""
        if not self.is_measured:
            return None
        return self.behind_s if self.current_s is None else now_s - self.current_s

    def refusal(self, now_s: float) -> str:
        """Why pages are not read from it, as the end of a sentence; "" if they are."""
        if self.problem:
            return self.problem
        lag_s, most_s = self.lag_s(now_s), settings.FAIRSHARE_REPLICA_LAG_S
        if lag_s is not None and lag_s > most_s:
            return f"is {lag_s:,.0f} s behind, more than FAIRSHARE_REPLICA_LAG_S={most_s}"
        return "has not caught up since this process started" if self.current_s is None else ""


_UNMEASURED = ReplicaState()


class Replica:
    """Measures the replica in a thread, so that no request waits for one that is gone."""

    def __init__(self) -> None:
        self.state = _UNMEASURED
        self._identity, self._timeline = (0, 0), 0  # of the primary
        self._samples: deque[tuple[float, int]] = deque(maxlen=_MOST_LAG_SAMPLES)  # time, and the primary's position
        self._lock = threading.Lock()
        self._pid = 0

    def start(self) -> None:
        """Start the thread, once per process: threads don't survive a fork."""
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid != os.getpid():
                self._pid = os.getpid()
                threading.Thread(target=self._poll, name="replica", daemon=True).start()

    def serves(self, *, after: int) -> bool:
        """Whether requests may read from it that have to see the primary's WAL position `after`."""
        self.start()
        state = self.state
        return state.replayed >= after and not state.refusal(time.monotonic())

    def lose(self, error: Exception) -> None:
        """Stop using it until the next measurement: a request could not read from it."""
        connections[ALIAS].close()
        self._note(replace(self.state, problem=f"does not answer: {_first_line(error)}"))

    def measure(self) -> None:
        """Compare its position with those of the primary."""
        try:
            self._sample()
        except (DatabaseError, InterfaceError):  # without newer positions the lag grows
            connections[DEFAULT_DB_ALIAS].close()
        try:
            self._note(self._compare())
        except (DatabaseError, InterfaceError) as error:
            connections[ALIAS].close()
            self._note(replace(self.state, problem=f"does not answer: {_first_line(error)}"))

    def _sample(self) -> int:
        now_s = time.monotonic()
        position, system, database, self._timeline = _fetch(DEFAULT_DB_ALIAS, _OF_PRIMARY)
        self._identity = system, database
        if self._samples and position < self._samples[-1][1]:  # a former replica is the primary now, or a backup
            self._samples.clear()
        self._samples.append((now_s, position))
        return position

    def _compare(self) -> ReplicaState:
        is_replica, replayed, system, database, timeline, behind_s = _fetch(ALIAS, _OF_REPLICA)
        if not self._samples:
            return ReplicaState("can't be compared: the primary does not answer")
        if not is_replica:
            return ReplicaState("is no replica: it accepts writes")
        if (system, database) != self._identity:
            return ReplicaState("is a replica of another database")
        if timeline != self._timeline:
            return ReplicaState(f"is on timeline {timeline}, and the primary on {self._timeline}: it was promoted")
        if replayed > self._samples[-1][1] and replayed > self._sample():
            return ReplicaState("has what the primary lacks: it follows another one")
        while len(self._samples) > 1 and self._samples[1][1] <= replayed:
            self._samples.popleft()
        at_s, position = self._samples[0]
        return ReplicaState("", True, replayed, at_s if position <= replayed else None, behind_s)

    def _note(self, state: ReplicaState) -> None:
        now_s = time.monotonic()
        before, after = self.state.refusal(now_s), state.refusal(now_s)
        is_first, self.state = self.state is _UNMEASURED, state
        if after and (is_first or not before):
            log.warning("The read replica %s. The primary is read.", after)
        elif before and not after:
            log.info("The read replica is used.")

    def _poll(self) -> None:
        while True:
            try:
                close_old_connections()
                self.measure()
            except Exception:
                log.exception("The read replica could not be measured.")
            time.sleep(POLL_S)


@contextmanager
def reading_replica() -> Iterator[None]:
    """Let this thread's statements go to the replica, also those that name no database: `connection` is it meanwhile.

    No block may be open in a transaction.
    """
    primary = connections[DEFAULT_DB_ALIAS]
    connections[DEFAULT_DB_ALIAS] = connections[ALIAS]
    try:
        yield
    finally:
        connections[DEFAULT_DB_ALIAS] = primary


def written_position() -> int:
    """The primary's WAL position after all that it has committed."""
    return int(_fetch(DEFAULT_DB_ALIAS, _WRITTEN)[0])


def has_replica() -> bool:
    return ALIAS in settings.DATABASES


def replica_refusal() -> str:
    """Why this process doesn't read from the replica; "" if it does, if there is none, or before it was measured."""
    if not has_replica():
        return ""
    replica.start()
    return "" if replica.state is _UNMEASURED else replica.state.refusal(time.monotonic())


def measured_replica() -> ReplicaState:
    """The replica's state, measured now; measured again for a while as long as it is refused."""
    measured, end_s = Replica(), time.monotonic() + settings.FAIRSHARE_REPLICA_LAG_S
    while True:
        measured.measure()
        if not measured.state.refusal(time.monotonic()) or time.monotonic() >= end_s:
            return measured.state
        time.sleep(POLL_S)


def _fetch(alias: str, statement: str) -> tuple[int, ...]:
    with connections[alias].cursor() as cursor:
        cursor.execute(statement)
        row: tuple[int, ...] = cursor.fetchone()
    return row


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


replica = Replica()
