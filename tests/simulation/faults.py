"""What befalls workers and messages: a process ends at a fault point, is asked to stop, loses its lease while it is
frozen, or its connections when the database restarts; a message is lost, comes twice or late.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Literal
from unittest.mock import patch

from django.db import InterfaceError, OperationalError, connection, connections

from apps.runs import leases, services, shutdown
from apps.runs.models import Run
from apps.runs.queues import queue_of
from apps.runs.services import claim_run, work_lease
from tests.simulation.restarts import database_server
from tests.worlds import forget_process

End = Literal["killed", "stopped", "overtaken", "cut off"]
ENDS: tuple[End, ...] = ("killed", "killed", "stopped", "overtaken", "cut off", "cut off")
ENDS_OF_REQUESTS: tuple[End, ...] = ("killed", "cut off")
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)  # leases go by the database's clock


class Killed(BaseException):
    """Stands for SIGKILL: no handler catches it, and the transaction is lost."""


class Faults:
    """Stands in for `fault_point` everywhere; `happened` names the points at which something was done, and what."""

    def __init__(self, draw: random.Random) -> None:
        self.happened: list[tuple[End, str]] = []
        self._draw = draw
        self._end: End = "killed"
        self._left = 0  # points to pass until it happens; 0: nothing does

    def __call__(self, name: str) -> None:
        if not self._left:
            return
        self._left -= 1
        if self._left:
            return
        if self._end == "overtaken" and not _may_be_overtaken():
            self._left = 1  # at the next point, outside of a transaction
            return
        self.happened.append((self._end, name))
        if self._end == "killed":
            raise Killed
        if self._end == "stopped":
            shutdown.request_stop()
        elif self._end == "cut off":
            cut_off()
        else:
            _overtake()

    @contextmanager
    def one(self, end: End, *, reach: float) -> Iterator[None]:
        """The process ends so at one of the fault points that it passes, or at none; then a new one has files alone.
        One that is cut off from the database goes on.

        reach: how many points it passes before, on average.
        """
        self._end, self._left = end, 1 + int(self._draw.expovariate(1 / reach))
        try:
            with suppress(Killed):
                try:
                    yield
                except (OperationalError, InterfaceError):
                    if self._end != "cut off":
                        raise
                if self._end == "cut off":
                    connections.close_all()  # the process goes on, with what it remembers, at its next task or request
                return
            connections.close_all()
            forget_process()
        finally:
            self._left = 0
            shutdown._stop_requested[0] = 0

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """All modules pass their fault points here."""
        modules = [module for name, module in list(sys.modules.items()) if name.startswith("apps.")]
        patches = [
            patch.object(module, "fault_point", self)
            for module in modules
            if "fault_point" in vars(module) and hasattr(module, "__file__")
        ]
        for each in patches:
            each.start()
        try:
            yield
        finally:
            for each in patches:
                each.stop()


def end_leases() -> None:
    """The leases of a killed worker run out, and so does the time after which a failed run is tried again."""
    Run.objects.filter(state=Run.State.RUNNING).update(lease_until=_LONG_AGO)
    Run.objects.filter(state=Run.State.QUEUED, attempts__gt=0).update(due_at=_LONG_AGO)


def cut_off() -> None:
    """The server ends the connection, as it does when it restarts; a transaction is lost."""
    if connection.connection is None:
        return
    with database_server() as server:
        server.execute("SELECT pg_terminate_backend(%s, 10000)", [connection.connection.info.backend_pid])


def _may_be_overtaken() -> bool:
    return bool(leases._held.leases) and not connection.in_atomic_block


def _overtake() -> None:
    """While this worker is frozen, its lease runs out and another one does all of its work."""
    frozen = leases._held.leases[-1]
    Run.objects.filter(pk=frozen.run_id, state=Run.State.RUNNING).update(lease_until=_LONG_AGO)
    other = claim_run(at=frozen.clock(), run_id=frozen.run_id, clock=frozen.clock)
    if other is not None:
        work_lease(other)


class Broker:
    """Messages of runs as workers get them: in any order, some twice, and some never.

    fails: how often, of all messages.
    """

    def __init__(self, draw: random.Random, fails: float) -> None:
        self._draw, self._fails = draw, fails
        self._messages: list[tuple[int, str]] = []
        self._late: list[tuple[int, str]] = []
        self.n_lost = self.n_repeated = 0

    def send_runs(self, runs: Collection[tuple[int, str]], *, only_to_empty_queues: bool = False) -> None:
        """As `apps.runs.bell.send_runs`."""
        full = {queue_of(kind) for _id, kind in self._messages} if only_to_empty_queues else set()
        for run in runs:
            if queue_of(run[1]) in full:
                continue
            if self._draw.random() >= self._fails:
                self._messages.append(run)
            elif self._draw.random() < 0.5:
                self.n_lost += 1
            else:
                self.n_repeated += 1
                self._messages.append(run)
                self._late.append(run)

    def deliver(self) -> Iterator[tuple[int, str]]:
        """One message after the other, until there are none."""
        while self._messages:
            yield self._messages.pop(self._draw.randrange(len(self._messages)))

    def lose_all(self) -> None:
        """It restarts without what it had."""
        self.n_lost += len(self._messages) + len(self._late)
        self._messages, self._late = [], []

    def end_delay(self) -> None:
        """What was sent twice comes again, when its run has long been done."""
        self._messages += self._late
        self._late = []

    @contextmanager
    def instead(self) -> Iterator[None]:
        with patch.object(services, "send_runs", self.send_runs):
            yield


def may_fail() -> bool:
    """Whether a run has lost two workers already: with its third it fails."""
    states = (Run.State.QUEUED, Run.State.RUNNING)
    return Run.objects.filter(state__in=states, attempts__gte=2).exists()
