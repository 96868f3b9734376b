"""`manage.py agent run NAME`: run the agent of a scheduler whose commands are on this host.

It uses the package of `fairshare-agent`, with this site's services in place of REST.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.core.management.base import CommandError
from django.db import OperationalError, connection

from agent import state
from agent.commands import Commands
from agent.loop import Agent
from agent.orders import read_orders
from agent.records import Refused, ServerAway, ServerFailure
from agent.source import Source
from apps.accounts.actor import COMMAND
from apps.accounts.token_cache import DatabaseProbe
from apps.contrib.schedulers.passes import record_pass
from apps.contrib.schedulers.selectors import get_orders
from apps.core.clock import now
from apps.core.errors import DomainError
from apps.core.operator_commands import REFUSED, OperatorCommand
from apps.core.private_dirs import private_dir
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery

T = TypeVar("T")
_PATIENCE_S = 30.0  # with a database that hangs; a report of 50,000 jobs takes three seconds


class Command(OperatorCommand):
    help = "Runs the agent of a scheduler whose commands are on this host, until it is stopped."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        what = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")
        run = what.add_parser("run", help="send priorities to the scheduler")
        run.add_argument("name", help="name of the scheduler")
        run.add_argument("--once", action="store_true", help="run one pass and end")
        run.add_argument(
            "--accept-changes", action="store_true", help="allow the first pass to change any number of values"
        )
        run.add_argument(
            "--state", metavar="DIR", help="folder of the agent's state (default: agents/NAME in FAIRSHARE_VAR)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        get_orders(name=options["name"], at=now(), actor=COMMAND)  # fails early if there is no such scheduler
        folder = options["state"] or str(private_dir(private_dir(Path(settings.VAR, "agents")) / options["name"]))
        try:
            handle = state.lock(folder)
        except Refused as refusal:
            raise CommandError(str(refusal), returncode=REFUSED) from refusal
        try:
            agent = Agent(
                Services(options["name"]),
                Commands(),
                state.open_table(folder),
                host=platform.node(),
                log=self.stderr.write,
                accept_changes=options["accept_changes"],
                clock=lambda: now().timestamp(),
            )
            if options["once"]:
                self._run_once(agent)
            else:
                ends = threading.Event()
                for number in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(number, lambda *_: ends.set())
                agent.run(ends)
        finally:
            os.close(handle)

    def _run_once(self, agent: Agent) -> None:
        document = agent.run_pass()
        self.stdout.write(", ".join(f"{n} {name}" for name, n in document["jobs"].items()))
        if document["frozen"] or document["jobs"]["failed"]:
            reason = document["frozen"]["detail"] if document["frozen"] else "Some values were rejected."
            raise CommandError(reason, returncode=REFUSED)
        if not agent.was_reported:
            raise CommandError("The report of this pass was rejected.", returncode=REFUSED)


def _limits_read(report: dict[str, Any]) -> dict[str, Any]:
    """Fields of limits with their times, as the serializer of REST reads them."""
    read: dict[str, Any] = {}
    if report.get("account_limits"):
        limits = _with_times(report["account_limits"], "lapses_at", "ended_at")
        read["account_limits"] = {**limits, "accounts": [_with_times(each, "set_at") for each in limits["accounts"]]}
    if report.get("restored_limits"):
        read["restored_limits"] = [_with_times(each, "at") for each in report["restored_limits"]]
    return read


def _with_times(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {**fields, **{name: fields[name] and datetime.fromisoformat(fields[name]) for name in names}}


class Services(Source):
    """The site as the agent sees it, through services of this process in place of REST.

    While the database doesn't answer, orders and factors are the last ones in memory.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._probe = DatabaseProbe()
        self._last: Any = None  # orders

    def orders(self) -> Any:
        try:
            orders, _tag = self._ask(lambda: get_orders(name=self._name, at=now(), actor=COMMAND))
        except OperationalError as error:
            if self._last is None:
                raise ServerAway("The database doesn't answer.") from error
        else:
            self._last = read_orders(orders)
        return self._last

    def look_up(self, policy: str, accounts: Sequence[dict[str, str]]) -> Any:
        with suppress(OperationalError):
            self._ask(store.poll)
        try:
            snapshot = store.newest(policy, poll=False)
        except DomainError as error:
            raise ServerFailure(error.message) from error
        results = snapshot.lookup([AccountQuery(**account) for account in accounts])
        return {**snapshot.head(now()), "results": results}

    def report(self, report: dict[str, Any]) -> int:
        digest = hashlib.sha256(json.dumps(report, sort_keys=True).encode()).hexdigest()
        times = {name: datetime.fromisoformat(report[name]) for name in ("started_at", "ended_at")}
        read = {**report, **times, **_limits_read(report), "pass": UUID(report["pass"])}
        try:
            scheduler, _pass = self._ask(
                lambda: record_pass(name=self._name, report=read, body_sha256=digest, at=now(), actor=COMMAND)
            )
        except OperationalError as error:
            raise ServerAway("The database doesn't answer.") from error
        return int(scheduler.revision)

    def clock_offset_s(self) -> float:
        return 0.0

    def _ask(self, service: Callable[[], T]) -> T:
        """Raises OperationalError if the database doesn't answer in time, ServerFailure for a refusal."""
        try:
            if settings.FAIRSHARE_TOKEN_PATIENCE_S <= 0:
                return service()
            return self._probe.run(service, timeout_s=_PATIENCE_S)
        except DomainError as error:
            raise ServerFailure(error.message) from error
        except OperationalError:
            connection.close()
            raise
