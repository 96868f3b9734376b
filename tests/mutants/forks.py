"""Work in a fork of this process, with limits and with databases that all forks use one after the other."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis.internal.conjecture import engine

from tests.databases import Databases

Result = dict[str, Any]
_MEMORY_BYTES = 3 << 30  # more than a fork takes beyond what the process has


def in_fork(work: Callable[[], Result], *, processor_s: float, longest_s: float) -> Result:
    """What `work` returns, by JSON; else {"over": why it was ended} or {"error": its traceback}.

    processor_s, longest_s: how much of the processor and of the clock it may take.
    """
    path = Path(os.environ["FAIRSHARE_VAR"]) / "fork.json"
    path.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        _be_fork(work, path, processor_s)
    status = _wait(pid, longest_s)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # what it started, too
    if status is None:
        os.waitpid(pid, 0)
        return {"over": f"{longest_s:.0f} s by the clock"}
    if path.exists():
        result: Result = json.loads(path.read_text(encoding="utf-8"))
        return result
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return {"over": f"{processor_s:.0f} s of the processor"}
    return {"over": f"status {status}"}


def _wait(pid: int, longest_s: float) -> int | None:
    until = time.monotonic() + longest_s
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.02)
    return None


def _be_fork(work: Callable[[], Result], path: Path, processor_s: float) -> None:
    """Never returns."""
    result: Result
    try:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        limit_s = int(time.process_time() + processor_s) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_AS, (_size_bytes() + _MEMORY_BYTES, resource.RLIM_INFINITY))
        engine.MAX_SHRINKS = 0  # one failing example is enough
        result = work()
    except BaseException:
        result = {"error": traceback.format_exc()[-2000:]}
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(result), encoding="utf-8")
    draft.replace(path)
    os._exit(0)


def _size_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()


class SharedDatabases(Databases):
    """Those of the process that forks: they stay when a fork ends."""

    _is_prepared = False
    _again: frozenset[str] = frozenset()

    def prepare(self) -> None:
        if not self._is_prepared:
            super().prepare()
            self._is_prepared = True

    def drop_all(self) -> None:
        """Not at the end of a fork."""

    def drop_at_last(self) -> None:
        super().drop_all()

    def has(self, world: str) -> bool:
        return world in self._worlds

    def make_again(self, names: Iterable[str]) -> None:
        """In this fork, by its own code, beside those that later forks begin with."""
        self._again = frozenset(names)
        for name in self._again:
            self._worlds.pop(name, None)

    def world_database(self, name: str) -> str:
        return super().world_database(name) + ("_again" if name in self._again else "")

    def leave_sessions(self) -> None:
        """Before a fork: two processes can't share one."""
        for database in [*self._sessions]:
            self._leave(database)

    def clean(self) -> None:
        """Remove what an ended fork left: sessions that go on, copies, and worlds that it made again."""
        named = "SELECT datname FROM pg_database WHERE datname LIKE %s"
        rows = self._session("postgres").execute(named, [f"{self.empty}%"]).fetchall()
        for (name,) in rows:
            if name not in self._own():
                self.drop(name)

    def end_sessions(self) -> None:
        """Of a fork that was ended."""
        for name in self._own():
            self._maintain(_END_SESSIONS, name)

    def _own(self) -> set[str]:
        return {self.empty, *(world.database for world in self._worlds.values())}


_END_SESSIONS = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"
