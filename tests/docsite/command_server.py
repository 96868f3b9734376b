"""Runs command lines of manage.py in forked children of one process that has loaded the applications.

Loading them takes most of the time of a documented command. A child runs `manage.main` with the arguments of a
terminal, so that the command line is parsed as there; what it prints goes to the files of the caller.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import IO, Any

from apps.core.code_paths import REPOSITORY

_MOST_BYTES = 1 << 20  # of a request


class CommandServer:
    """The process for one environment: settings are read from it once."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            command = [sys.executable, "-m", "tests.docsite.command_server", str(other.fileno())]
            self._process = subprocess.Popen(command, env=self.environment, cwd=REPOSITORY, pass_fds=[other.fileno()])

    def run(self, arguments: Sequence[str], stdin: IO[str], stdout: IO[str], stderr: IO[str]) -> int:
        """Exit status of a command that has been run in the folder of the caller."""
        request = json.dumps({"arguments": list(arguments), "folder": os.getcwd()}).encode()
        socket.send_fds(self._socket, [request], [stdin.fileno(), stdout.fileno(), stderr.fileno()])
        answer = self._socket.recv(_MOST_BYTES)
        if not answer:
            raise RuntimeError(f"the process that runs commands ended with status {self._process.wait()}")
        status: int = json.loads(answer)
        return status

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def serve(connection: socket.socket) -> None:
    """Until the caller closes the connection."""
    while True:
        request, files, _flags, _address = socket.recv_fds(connection, _MOST_BYTES, 3)
        if not request:
            return
        child = os.fork()
        if child == 0:
            _run(json.loads(request), files)
        for file in files:
            os.close(file)
        _, status = os.waitpid(child, 0)
        connection.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _run(request: dict[str, Any], files: Sequence[int]) -> None:
    """Ends the process."""
    from apps.cli import command_line

    status = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.chdir(request["folder"])
        sys.argv = ["manage.py", *request["arguments"]]
        command_line.main()
        status = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        else:
            status = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
    django.setup()
    with socket.socket(fileno=int(sys.argv[1])) as caller:
        serve(caller)
