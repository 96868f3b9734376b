"""A process that has loaded a program, and runs it in forked children: loading is most of what a short run takes.

The process is a module that ends with `serve(run)`. A child has its own output, folder and environment.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

from apps.core.code_paths import REPOSITORY

_MOST_BYTES = 1 << 20  # of a request


class ForkServer:
    """The process, from the side of who asks it; it ends with this one. command: after the interpreter's name."""

    def __init__(self, *command: str, env: Mapping[str, str]) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, *command, str(other.fileno())], env=dict(env), cwd=REPOSITORY,
                pass_fds=[other.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip

    def run(
        self,
        shown: Sequence[str],
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        files: Sequence[int],
        timeout_s: float,
    ) -> int:
        """Exit status of a child, as that of `subprocess`. files: descriptors of its input, output and errors.

        shown: the command line for an error. Raises TimeoutExpired, after the child was killed.
        """
        mask = os.umask(0o022)
        os.umask(mask)
        request = {"arguments": arguments, "environment": dict(env), "folder": str(cwd), "mask": mask}
        answers, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with answers:
            with other:
                socket.send_fds(self._socket, [json.dumps(request).encode()], [*files, other.fileno()])
            child = _answer(answers)
            if not select.select([answers], [], [], timeout_s)[0]:
                os.kill(child, signal.SIGKILL)
                _answer(answers)
                raise subprocess.TimeoutExpired(list(shown), timeout_s)
            return _answer(answers)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def _answer(answers: socket.socket) -> int:
    answer = answers.recv(64)
    if not answer:
        raise RuntimeError("the process that runs commands ended")
    return int(answer)


def serve(run: Callable[[dict[str, Any], Sequence[int]], object]) -> None:
    """Until the caller closes the connection, whose descriptor is the last argument.

    run: in a child, with a request and the files of the child; it ends the child. Each child has a line of its own for
    its process id and its end.
    """
    assert threading.active_count() == 1, "a child would have the locks of threads that it lacks"
    connection = socket.socket(fileno=int(sys.argv[-1]))
    waiting: dict[int, tuple[int, socket.socket]] = {}  # by a descriptor that is readable when the process has ended
    while True:
        ready, _, _ = select.select([connection.fileno(), *waiting], [], [])
        for each in ready:
            if each == connection.fileno():
                request, files, _flags, _address = socket.recv_fds(connection, _MOST_BYTES, 4)
                if not request:
                    return
                answers = socket.socket(fileno=files.pop())
                child = os.fork()
                if child == 0:
                    connection.close()
                    for _, other in waiting.values():
                        other.close()
                    answers.close()
                    run(json.loads(request), files)
                for file in files:
                    os.close(file)
                answers.send(str(child).encode())
                waiting[os.pidfd_open(child)] = child, answers
            else:
                child, answers = waiting.pop(each)
                os.close(each)
                _, status = os.waitpid(child, 0)
                with answers:
                    answers.send(str(os.waitstatus_to_exitcode(status)).encode())


def enter(request: Mapping[str, Any], files: Sequence[int]) -> None:
    """Take over the files, the folder and the mask of a request."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    os.umask(request["mask"])


def open_streams(*, is_unbuffered: bool = False) -> None:
    """Standard input, output and errors of this process; nothing of them is buffered from before."""
    sys.stdin = _stream(0, "r")
    sys.stdout = _stream(1, "w", buffering=1 if is_unbuffered else -1)
    sys.stderr = _stream(2, "w", buffering=1, errors="backslashreplace")


def _stream(number: int, mode: str, **options: Any) -> TextIO:
    """Of the process, until it ends."""
    return cast(TextIO, open(number, mode, closefd=False, **options))
