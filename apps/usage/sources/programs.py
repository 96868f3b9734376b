"""Programs that the settings allow to collect with.

They are run with an argument list, never through a shell, with bounded time and output.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from django.conf import settings

from apps.core.errors import Invalid, TooLarge, Unavailable
from apps.usage.parsers.base import excerpt

MOST_ARGUMENTS = 64
LONGEST_COMMAND = 1024
_READ = 256 * 1024
_LONGEST_PROGRAM_ERROR = 4096
JSON_OPTION = "--json"  # of the commands of Slurm and Flux
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "fish", "busybox", "env", "sudo", "su", "doas", "xargs"}
_PASSED_ON = ("SLURM_CONF", "SGE_ROOT", "SGE_CELL", "SGE_CLUSTER_NAME", "PBS_HOME", "PBS_EXEC", "KRB5CCNAME")


def allowed_program(name: str) -> str:
    """Resolve a program by its path or name among those that the operator allowed.

    Raises:
        Invalid: it is not allowed, a shell, or missing.
    """
    for path in settings.FAIRSHARE_COLLECT_COMMANDS:
        if name not in (path, Path(path).name):
            continue
        if not os.path.isabs(path) or Path(path).name in SHELLS:
            message = f"FAIRSHARE_COLLECT_COMMANDS contains {path}: write absolute paths of programs other than shells."
            raise Invalid(message, code="command_not_allowed")
        if not (os.path.isfile(path) and os.access(path, os.X_OK)):
            raise Invalid(f"There is no program {path} on the machine of the worker.", code="no_command")
        return path
    there = ", ".join(settings.FAIRSHARE_COLLECT_COMMANDS) or "none so far"
    message = f"{excerpt(name)!r} isn't among the programs of FAIRSHARE_COLLECT_COMMANDS ({there})."
    raise Invalid(message, code="command_not_allowed")


def run_program(arguments: Sequence[str], *, time_zone: str, timeout_s: float, most_bytes: int) -> BinaryIO:
    """Run a program and return its output as an unnamed temporary file.

    Raises:
        Unavailable: it fails, or takes too long.
        TooLarge: it writes more than `most_bytes`.
    """
    program = allowed_program(arguments[0])
    name = Path(program).name
    kept = cast(BinaryIO, tempfile.TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR))  # noqa: SIM115 - the caller closes it
    try:
        with subprocess.Popen(
            [program, *arguments[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(program, time_zone, os.environ, wants_json=JSON_OPTION in arguments),
            cwd="/",
            start_new_session=True,
        ) as process:
            try:
                error = _read(process, kept, name, time.monotonic() + timeout_s, most_bytes)
            finally:
                with suppress(ProcessLookupError, PermissionError):  # its child processes end with it
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode:
            reason = excerpt(error.strip().splitlines()[-1]) if error.strip() else "no reason was given"
            raise Unavailable(f"{name} ended with status {process.returncode}: {reason}", code="command_failed")
        kept.seek(0)
    except OSError as failure:
        kept.close()
        raise Unavailable(f"{name} can't be started: {failure.strerror}.", code="command_failed") from failure
    except BaseException:
        kept.close()
        raise
    return kept


def environment(program: str, time_zone: str, ours: Mapping[str, str], *, wants_json: bool = False) -> dict[str, str]:
    """Environment of a program: empty except for variables that locate the scheduler, and time formats.

    Times are printed as seconds since 1970. JSON has them anyway, and with that format sacct 22.05 can't parse its own
    -S.
    """
    return {
        "PATH": f"{Path(program).parent}:/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "HOME": "/",
        "TZ": time_zone,
        **({} if wants_json else {"SLURM_TIME_FORMAT": "%s"}),
        **{name: ours[name] for name in _PASSED_ON if name in ours},
    }


def _read(process: subprocess.Popen[bytes], kept: BinaryIO, name: str, end_s: float, most_bytes: int) -> bytes:
    """Read until both pipes are closed and the program has ended; returns the end of its error output."""
    n_bytes, error = 0, b""
    assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 - both are pipes
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        waiting.register(process.stderr, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(max(0.0, end_s - time.monotonic()))
            if not ready:
                raise _too_slow(name)
            for key, _events in ready:
                data = os.read(key.fd, _READ)
                if not data:
                    waiting.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    error = (error + data)[-_LONGEST_PROGRAM_ERROR:]
                else:
                    n_bytes += len(data)
                    if n_bytes > most_bytes:
                        raise TooLarge(f"{name} writes over {most_bytes // 1024**2} MB: ask for a shorter time.")
                    kept.write(data)
    try:
        process.wait(max(0.0, end_s - time.monotonic()))
    except subprocess.TimeoutExpired as late:
        raise _too_slow(name) from late
    return error


def _too_slow(name: str) -> Unavailable:
    return Unavailable(f"{name} didn't end in time and was stopped.", code="command_too_slow")
