"""Programs of Python as forked children of a process that has loaded the applications.

Loading takes two seconds and a hundred megabytes, most of what a process of the stack needs until it does something. A
child begins with what its parent has loaded, and shares its memory until one of them writes to it. A parent that forks
has one thread, and no connection that a child could use.
"""

from __future__ import annotations

import atexit
import gc
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import cast

from apps.cli.stack.parent import dying_with_parent, set_name

CAN_FORK = sys.platform == "linux"  # the libraries of macOS may not be used after a fork


def load_applications() -> None:
    """All that a program of the stack imports, once Django knows its settings."""
    from celery import current_app
    from django.urls import get_resolver

    import_module("celery.bin.celery")
    import_module("granian.cli")
    current_app.loader.import_default_modules()
    _ = get_resolver().url_patterns
    gc.collect()
    gc.freeze()  # else each child would write to all of it while it looks for garbage


class Forked:
    """A forked child, with what the supervisor uses of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Exit status, less than zero for a signal; None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        return cast(int, self._reap(0))

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, sig: signal.Signals) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork_python(
    arguments: Sequence[str], *, name: str, environment: Mapping[str, str], folder: Path, output: int | None = None
) -> Forked:
    """`python ARGUMENTS`, which begin with -m or -c, in a session of its own that ends with this process.

    name: what `top` shows. output: descriptor that it writes to; None for this process's own. Raises OSError.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    tie = dying_with_parent(signal.SIGKILL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.setsid()
                tie()
                set_name(name)
                _leave_parent(environment, folder, output)
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                status = status_of(lambda: _run(arguments))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return Forked(pid)


def _leave_parent(environment: Mapping[str, str], folder: Path, output: int | None) -> None:
    """Without the parent's ways with signals, and without its files, of which some are locks."""
    signal.set_wakeup_fd(-1)
    for sig in signal.valid_signals():
        if callable(signal.getsignal(sig)):
            signal.signal(sig, signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    if output is not None:
        os.dup2(output, 1)
        os.dup2(output, 2)
    for handle in [int(name) for name in os.listdir("/proc/self/fd")]:  # the greatest number may be a billion
        if handle > 2:
            with suppress(OSError):  # that of the listing itself
                os.close(handle)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=True)  # type: ignore[union-attr]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = str(folder)


def _run(arguments: Sequence[str]) -> None:
    option, program, *others = arguments
    sys.argv = [option, *others]
    if option == "-m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        exec(program, {"__name__": "__main__"})  # noqa: S102 - our own text


def status_of(main: Callable[[], object]) -> int:
    """Exit status of a process that runs `main` and then ends as the interpreter does; for `os._exit`."""
    status = 1
    try:
        main()
        status = 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            status = (end.code or 0) & 0xFF
        else:
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that aren't daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:  # by a program that put another one around its buffer
            stream.flush()
    return status
