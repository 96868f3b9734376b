"""Programs that are forked from a loaded process: what they have of it, and how they end."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from apps.cli.stack.forking import CAN_FORK
from apps.core.code_paths import REPOSITORY

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="processes are forked on Linux alone")

# A parent of one thread with handlers of signals, a lock and a loaded module of its own; it says how its child ended.
_PARENT = """
import fcntl, os, signal, sys
import apps.core.clock
from pathlib import Path
from apps.cli.stack.forking import fork_python
from apps.cli.stack.supervisor import Signals
arguments, folder = sys.argv[1:-1], Path(sys.argv[-1])
lock = open(folder / "lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
with Signals().installed(), open(folder / "log", "wb") as log:
    environment = {**os.environ, "ONE_MORE": "1"}
    child = fork_python(arguments, name="a-child", environment=environment, folder=folder, output=log.fileno())
    PLACE
    print(child.wait(), child.poll())
"""
_DESCRIBE = """
import fcntl, json, os, signal, sys
lock = open("lock", "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    is_free = False
else:
    is_free = True
handlers = [signal.getsignal(sig) for sig in (signal.SIGTERM, signal.SIGCHLD)]
print(json.dumps({
    "arguments": sys.argv[1:],
    "folder": os.getcwd(),
    "leads": os.getsid(0) == os.getpid(),
    "name": open("/proc/self/comm").read().strip(),
    "added": os.environ["ONE_MORE"],
    "input": sys.stdin.read(),
    "files": sorted(map(int, os.listdir("/proc/self/fd")))[:4],
    "is_loaded": "apps.core.clock" in sys.modules,
    "by_default": handlers == [signal.SIG_DFL] * 2 and signal.set_wakeup_fd(-1) == -1,
    "interrupts": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "has_the_lock_only": is_free,
}))
"""


def start_parent(*arguments: str, folder: Path, between: str = "") -> subprocess.Popen[str]:
    code = _PARENT.replace("PLACE", between or "pass")
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments, str(folder)],
        cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def run_parent(*arguments: str, folder: Path, between: str = "") -> tuple[int, str]:
    """Exit status of the child, and what it wrote."""
    with start_parent(*arguments, folder=folder, between=between) as parent:
        said, _ = parent.communicate()
    status, again = said.split()
    assert status == again, "who asks once more is answered the same"
    return int(status), (folder / "log").read_text()


def test_a_child_has_the_loaded_modules_and_nothing_else_of_its_parent(tmp_path: Path) -> None:
    status, written = run_parent("-c", _DESCRIBE, "one", "--two", folder=tmp_path)
    assert status == 0
    assert json.loads(written) == {
        "arguments": ["one", "--two"],
        "folder": str(tmp_path),
        "leads": True,
        "name": "a-child",
        "added": "1",
        "input": "",
        "files": [0, 1, 2, 3],
        "is_loaded": True,
        "by_default": True,
        "interrupts": True,
        "blocked": 0,
        "has_the_lock_only": False,
    }


@pytest.mark.parametrize(
    ("code", "status", "written"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('It is full.')", 1, "It is full.\n"),
        ("raise OSError('no')", 1, "OSError: no\n"),
        ("import atexit; atexit.register(print, 'after'); print('before', end=' ')", 0, "before after\n"),
        ("import threading; threading.Timer(0.05, print, ['later']).start()", 0, "later\n"),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
    ],
)
def test_a_child_ends_as_a_process_of_python_does(code: str, status: int, written: str, tmp_path: Path) -> None:
    ended, seen = run_parent("-c", code, folder=tmp_path)
    assert (ended, seen[-len(written) :] if written else seen) == (status, written)


def test_a_module_is_run_as_by_the_interpreter(tmp_path: Path) -> None:
    status, written = run_parent("-m", "json.tool", "--compact", "/dev/stdin", folder=tmp_path)
    assert status == 1
    assert written.startswith("Expecting value"), "its input is empty"


def test_a_child_that_is_asked_to_stop_at_once_stops(tmp_path: Path) -> None:
    status, _ = run_parent("-c", "import time; time.sleep(60)", folder=tmp_path, between="child.terminate()")
    assert status == -signal.SIGTERM


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    code = "import sys; print('begun', file=open('begun', 'w')); sys.stdin.read(); import time; time.sleep(60)"
    with start_parent("-c", code, folder=tmp_path, between="print(child.pid, flush=True)") as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        descriptor = os.pidfd_open(pid)
        parent.kill()
    assert select.select([descriptor], [], [], 30)[0], "readable once the process has ended"
    os.close(descriptor)
