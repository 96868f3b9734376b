"""A plug-in of pytest that tries mutants in place of a usual run: each in a fork of the process that has collected.

Only tests that execute the changed line run, the fastest first, until one fails; of a claim of the papers all its tests
that noticed no mutant yet. A fork takes a tenth of a second; a process of its own would import everything again. Worlds
of tests are made once, before the forks; one whose making executes the changed line is made again in the fork.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from itertools import zip_longest

import pytest
from pytest_django.plugin import blocking_manager_key

from docsite.marked_tests import function_of
from tests.mutants.changes import Mutant, constants_of, in_order, statement_lines, uses_of
from tests.mutants.claims import room_of
from tests.mutants.forks import Result, SharedDatabases, in_fork
from tests.mutants.hits import Hits, Lines, Trace, executes
from tests.mutants.outcomes import ERROR, NOT_APPLIED, NOTICED, SURVIVED, Outcomes
from tests.mutants.rooms import Room, read_text
from tests.mutants.swap import NotApplied, apply, functions_of, module_of
from tests.start import schema_folder
from tests.world_fixtures import MAKERS, SHARED, named_by

_A_DAY_S = 24 * 3600.0
_LONGEST_S = 900.0  # of one mutant, by the clock


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutants", metavar="ROOM", help="try mutants of a room, or of claims A,B, instead of the tests")
    parser.addoption("--mutant-seed", type=int, default=1, help="decides their order")
    parser.addoption("--mutant-sample", type=int, default=None, help="so many of the room at most")
    parser.addoption("--mutant-seconds", type=float, default=None, help="begin none later than so long after the first")
    parser.addoption("--mutant-patience", type=float, default=None, help="seconds of tests for one mutant, at most")
    parser.addoption("--mutants-again", action="store_true", help="also those that are known to survive")
    parser.addoption("--mutant-only", default="", help="those whose file, function or line contains one of A|B|C")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    names = parser.parse_known_args(args).mutants
    if not names:
        return (yield)
    runner = Runner(early_config, [room_of(name) for name in names.split(",")])
    early_config.pluginmanager.register(runner, "mutants")
    with runner.trace.on():
        return (yield)


class Runner:
    """trace: of the room's code; what it sees before the first test is executed while modules are imported."""

    def __init__(self, config: pytest.Config, rooms: Sequence[Room]) -> None:
        self._config = config
        self._rooms = rooms
        self._paths = sorted({path for room in rooms for path in room.paths()})
        self.trace = Trace(self._paths)
        self._failed: list[tuple[str, str, str]] = []  # test, first line of the reason, in which phase
        self._databases: SharedDatabases | None = None
        self._worlds: dict[str, Lines] = {}  # what making them executed
        self._ends_s = float("inf")  # by the clock that only goes on

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            lines = report.longreprtext.splitlines()
            reason = next((line[1:].strip() for line in lines if line.startswith("E ")), lines[-1] if lines else "")
            self._failed.append((report.nodeid, reason[:160], report.when))

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        with self.trace.on():
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._config.pluginmanager.unregister(name="whole_run")  # what is collected isn't run once each
        with self.trace.on():
            for path in self._paths:
                import_module(module_of(path))
        self._at_import = self.trace.take()
        self._prepare_databases(session.items)
        for number, room in enumerate(self._rooms):
            if time.monotonic() > self._ends_s:
                self._say(f"The time is over before {len(self._rooms) - number} of {len(self._rooms)} claims.")
                break
            self._try_room(room, session.items)
        if self._databases is not None:
            with self._unblocked():
                self._databases.drop_at_last()
        return True

    def _try_room(self, room: Room, collected: Sequence[pytest.Item]) -> None:
        self._room = room
        mutants = room.mutants()
        self._outcomes = Outcomes.read(room, {mutant.name for mutant in mutants})
        chosen = self._chosen(mutants)
        if not chosen or self._is_shown():
            return
        own = room.own(item.nodeid for item in collected)
        self._items = [item for item in collected if item.nodeid in own]
        files = {item.nodeid.partition("::")[0] for item in self._items}
        self._hits_file = room.stored().with_suffix(".hits.json")
        self._hits = Hits.read(self._hits_file, room.paths(), files)
        self._measure()
        self._functions = functions_of(room.paths())
        self._try_out(chosen)

    def _is_shown(self) -> bool:
        """Whether each test of a claim noticed a mutant, so that there is nothing more to try."""
        return self._room.is_claim and not self._outcomes.silent()

    # Tests without any change

    def _measure(self) -> None:
        """Which lines each test executes, and how long it takes."""
        items = [item for item in self._items if item.nodeid not in self._hits.lines]
        if not items:
            return
        self._say(f"{self._room.name}: {len(items)} tests without any change")
        self._make_worlds(items)
        result = self._in_fork(lambda: self._traced(items))
        if "lines" not in result:
            raise pytest.UsageError(f"The tests of {self._room.name} don't run: {result}")
        self._hits.lines |= {name: self._of_room(lines) for name, lines in result["lines"].items()}
        self._hits.seconds |= result["seconds"]
        self._hits.failed += sorted({name for name, *_ in result["failed"]})
        for name, reason, _phase in result["failed"]:
            self._say(f"  left out, since it fails without any change: {name}: {reason}")
        self._hits.write(self._hits_file)

    def _traced(self, items: Sequence[pytest.Item]) -> Result:
        lines: dict[str, Lines] = {}
        seconds: dict[str, float] = {}

        def run(item: pytest.Item, following: pytest.Item | None) -> bool:
            began = time.process_time()
            with self.trace.on():
                self._config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            lines[item.nodeid], seconds[item.nodeid] = self.trace.take(), time.process_time() - began
            return True

        return self._run(items, run) | {"lines": lines, "seconds": seconds}

    def _of_room(self, lines: Lines) -> Lines:
        """Without those of other claims' code, which may change meanwhile."""
        return {path: lines[path] for path in self._room.paths() if path in lines}

    def _run_unless_one_fails(self, items: Sequence[pytest.Item]) -> Result:
        """Each test of a claim should notice a mutant itself, so all run; of a room one is enough."""

        def run(item: pytest.Item, following: pytest.Item | None) -> bool:
            self._config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            return self._room.is_claim or not self._failed

        return self._run(items, run)

    def _run(self, items: Sequence[pytest.Item], run: Callable[[pytest.Item, pytest.Item | None], bool]) -> Result:
        self._config.pluginmanager.unregister(name="terminalreporter")  # of this fork: the process goes on with it
        self._failed.clear()
        n_run = 0
        for item, following in zip_longest(items, items[1:]):
            n_run += 1
            if not run(item, following):
                break
        return {"failed": self._failed, "n_run": n_run}

    def _check_clean(self, tests: set[str]) -> None:
        """These tests, which noticed a mutant, pass without one: nothing of a mutant stayed."""
        items = [item for item in self._items if item.nodeid in tests]
        if items:
            self._make_worlds(items)
            result = self._in_fork(lambda: self._run_unless_one_fails(items))
            if result.get("failed", result):
                raise pytest.UsageError(f"A test that noticed a mutant fails without one as well: {result}")

    # Mutants

    def _chosen(self, mutants: Sequence[Mutant]) -> list[Mutant]:
        """In the seed's order, without those whose outcome is known."""
        chosen = in_order(mutants, self._config.getoption("mutant_seed"), self._config.getoption("mutant_only"))
        again = self._config.getoption("mutants_again")
        sample = chosen[: self._config.getoption("mutant_sample")]
        return [each for each in sample if not self._outcomes.knows(each, survivors=not again)]

    def _try_out(self, mutants: Sequence[Mutant]) -> None:
        if self._ends_s == float("inf") and (seconds := self._config.getoption("mutant_seconds")) is not None:
            self._ends_s = time.monotonic() + seconds
        noticing: set[str] = set()
        for number, mutant in enumerate(mutants, 1):
            if self._is_shown():
                break
            if time.monotonic() > self._ends_s:
                self._say(f"The time is over before {len(mutants) - number + 1} mutants of the sample.")
                break
            began = time.monotonic()
            verdict, note, tests = self._try_one(mutant)
            noticing |= set(tests)
            kept = sorted({function_of(test) for test in tests}) if self._room.is_claim else tests
            self._outcomes.add(mutant, verdict, note, kept)
            took_s = time.monotonic() - began
            self._say(f"{number}/{len(mutants)} {verdict} ({took_s:.1f} s) {mutant.name}\n    {' '.join(kept)} {note}")
        self._check_clean(noticing)

    def _try_one(self, mutant: Mutant) -> tuple[str, str, list[str]]:
        """Verdict, note and the tests that noticed it."""
        lines = self._lines_of(mutant)
        again = {world for world, hits in self._hits.worlds.items() if _execute(hits, lines)}
        # Of a claim only some readers of a constant are in its code, so that each of its tests may notice.
        is_read_anywhere = self._room.is_claim and not mutant.function
        items = [item for item in self._items if self._is_asked(item)]
        items = [item for item in items if is_read_anywhere or self._may_notice(item, lines, again)]
        if not items and (_execute(self._at_import, lines) if mutant.function else not any(lines.values())):
            return NOT_APPLIED, "it runs while modules are imported", []
        items.sort(key=lambda item: (_world_of(item) in again, _has_database(item), self._hits.seconds[item.nodeid]))
        n_items, expected_s = self._within_patience(items)
        del items[n_items:]
        self._make_worlds(item for item in items if _world_of(item) not in again)

        def work() -> Result:
            apply(mutant, read_text(mutant.path), self._functions)
            if self._databases is not None:
                self._databases.make_again(again)
            return self._run_unless_one_fails(items)

        result = self._in_fork(work, processor_s=30 + 3 * expected_s, longest_s=_LONGEST_S)
        if "over" in result:  # of several tests of a claim, any may have taken so long
            is_known = not self._room.is_claim or len({function_of(item.nodeid) for item in items}) == 1
            return NOTICED, f"ended after {result['over']}", [items[0].nodeid] if is_known else []
        if "error" in result:
            is_refused = NotApplied.__name__ in result["error"]
            return (NOT_APPLIED if is_refused else ERROR), result["error"][-300:], []
        # A test of a claim shows it by itself, and not by a fixture that fails.
        failed = [each for each in result["failed"] if each[2] == "call" or not self._room.is_claim]
        if failed:
            return NOTICED, failed[0][1], [test for test, *_ in failed]
        return SURVIVED, f"{result['n_run']} tests pass" if items else "no test executes it", []

    def _within_patience(self, items: Sequence[pytest.Item]) -> tuple[int, float]:
        """How many of them, and the seconds that they took without any change; at least one."""
        patience_s = self._config.getoption("mutant_patience")
        total_s = 0.0
        for number, item in enumerate(items):
            if patience_s is not None and number and total_s + self._hits.seconds[item.nodeid] > patience_s:
                return number, total_s
            total_s += self._hits.seconds[item.nodeid]
        return len(items), total_s

    def _lines_of(self, mutant: Mutant) -> dict[str, set[int]]:
        """By path: the lines whose execution makes the mutant matter."""
        if not mutant.function:
            try:
                names = {name for name, _statement in constants_of(mutant.lines.start, read_text(mutant.path))}
            except ValueError:
                names = set()
            return {path: uses_of(names, read_text(path)) for path in self._room.paths()}
        own = {mutant.path: set(mutant.lines)}
        if any(_execute(lines, own) for lines in self._hits.lines.values()):
            return own
        return {mutant.path: {statement_lines(read_text(mutant.path))[mutant.lines.start]}}

    def _is_asked(self, item: pytest.Item) -> bool:
        """Whether the test passes without any change, and noticed no mutant of its claim yet."""
        has_shown = self._room.is_claim and function_of(item.nodeid) not in self._outcomes.silent()
        return item.nodeid not in self._hits.failed and not has_shown

    def _may_notice(self, item: pytest.Item, lines: dict[str, set[int]], again: set[str]) -> bool:
        """Whether the test executes one of the lines, or begins with a world whose making does."""
        return _world_of(item) in again or _execute(self._hits.lines[item.nodeid], lines)

    # Forks, databases and worlds

    def _in_fork(
        self, work: Callable[[], Result], *, processor_s: float = _A_DAY_S, longest_s: float = _A_DAY_S
    ) -> Result:
        others = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
        if others:
            raise pytest.UsageError(f"Threads that a fork would not have: {others}")
        if self._databases is not None:
            self._databases.leave_sessions()
        result = in_fork(work, processor_s=processor_s, longest_s=longest_s)
        if self._databases is not None:
            if "over" in result:
                self._databases.end_sessions()
            with self._unblocked():
                self._databases.clean()
        return result

    def _prepare_databases(self, items: Iterable[pytest.Item]) -> None:
        if not any(map(_has_database, items)):
            return
        from django.db import connection, connections

        conftest = sys.modules["tests.conftest"]
        conftest.start_server(self._config)
        made = SharedDatabases(connection.settings_dict, suffix="mutants", schemas=schema_folder())
        conftest.Databases = lambda *_arguments, **_options: made  # type: ignore[attr-defined]
        with self._unblocked():
            made.prepare()
            connections.close_all()
        self._databases = made

    def _make_worlds(self, items: Iterable[pytest.Item]) -> None:
        """Those of these tests that aren't there yet, with the lines that are executed for it."""
        databases = self._databases
        if databases is None:
            return
        from django.db import connections

        from tests import worlds
        from tests.instants import AT

        names = {name for name in map(_world_of, items) if name is not None}
        with self._unblocked(), pytest.MonkeyPatch.context() as patch:
            patch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
            for name in sorted(names):
                if not databases.has(name):
                    worlds.forget_process()
                    with self.trace.on():
                        databases.world(name, MAKERS[name], is_shared=name in SHARED)
                    self._worlds[name] = self.trace.take()
                    worlds.forget_process()
                self._hits.worlds[name] = self._of_room(self._worlds[name])
            databases.use(databases.empty)
            connections.close_all()

    def _unblocked(self) -> AbstractContextManager[None]:
        return self._config.stash[blocking_manager_key].unblock()

    def _say(self, text: str) -> None:
        print(text, flush=True)  # nothing is captured between tests


def _execute(hits: Lines, lines: dict[str, set[int]]) -> bool:
    return any(executes(hits, path, numbers) for path, numbers in lines.items())


def _has_database(item: pytest.Item) -> bool:
    names = getattr(item, "fixturenames", ())
    return item.get_closest_marker("django_db") is not None or not {"db", "world_of_test"}.isdisjoint(names)


def _world_of(item: pytest.Item) -> str | None:
    return named_by(getattr(item, "fixturenames", ()))
