"""Run the scheduler's commands: as lists, never by a shell; bounded in time, output and calls a second."""

import os
import selectors
import signal
import subprocess
import time
from typing import Dict, List, NamedTuple, Optional, Sequence

from agent.names import shown
from agent.records import Unreadable

TIMEOUT_S = 60.0
MOST_BYTES = 256 * 1024 * 1024
MOST_ERROR_BYTES = 1024 * 1024
_CHUNK = 1 << 16
# All other variables are removed, above all those that change the columns of squeue and similar commands.
_INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "TZ", "SLURM_CONF", "SLURM_CONF_SERVER", "SGE_ROOT", "SGE_CELL",
    "SGE_CLUSTER_NAME", "SGE_QMASTER_PORT", "SGE_EXECD_PORT", "LD_LIBRARY_PATH", "LD_PRELOAD",
)  # fmt: skip
_FIXED = {"LC_ALL": "C", "LANG": "C", "SLURM_TIME_FORMAT": "%s"}


class Output(NamedTuple):
    status: int
    out: str
    err: str


class TimedOut(Unreadable):
    """A command was killed because it took too long; whether it had an effect is unknown."""


class Commands:
    """Runs one scheduler's commands; counts calls and their seconds."""

    def __init__(self, timeout_s: float = TIMEOUT_S, most_bytes: int = MOST_BYTES, calls_per_s: float = 20.0) -> None:
        self.timeout_s = timeout_s
        self.most_bytes = most_bytes
        self.calls_per_s = calls_per_s
        self.n_calls = 0
        self.spent_s = 0.0
        self._next_at = 0.0

    def run(self, argv: Sequence[str]) -> Output:
        """Run a command. Raises: Unreadable if it can't start or prints too much, TimedOut if it hangs."""
        self._wait_for_turn()
        self.n_calls += 1
        began = time.monotonic()
        try:
            return self._run(list(argv))
        finally:
            self.spent_s += time.monotonic() - began

    def read(self, argv: Sequence[str]) -> str:
        """Standard output of a command that has to succeed, and to end with a complete line."""
        output = self.run(argv)
        if output.status != 0:
            raise Unreadable(f"{argv[0]} ended with status {output.status}: {shown(output.err.strip(), 200)}")
        if output.out and not output.out.endswith("\n"):
            raise Unreadable(f"The output of {argv[0]} breaks off.")
        return output.out

    def _wait_for_turn(self) -> None:
        now = time.monotonic()
        if now < self._next_at:
            time.sleep(self._next_at - now)
        self._next_at = max(now, self._next_at) + 1.0 / self.calls_per_s

    def _run(self, argv: List[str]) -> Output:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(),
                start_new_session=True,  # a process group, so that child processes can be killed, too
            )
        except (OSError, ValueError) as error:
            raise Unreadable(f"{argv[0]} can't be started: {error}.")
        try:
            read = self._read_both(process, argv[0])
            status = process.wait(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            raise TimedOut(f"{argv[0]} did not end within {self.timeout_s:g} s.")
        finally:
            _end(process)
        return Output(status, read[0], read[1])

    def _read_both(self, process: "subprocess.Popen[bytes]", name: str) -> List[str]:
        ends_at = time.monotonic() + self.timeout_s
        streams: List[List[bytes]] = [[], []]
        left = [self.most_bytes, MOST_ERROR_BYTES]
        with selectors.DefaultSelector() as selector:
            for place, pipe in enumerate((process.stdout, process.stderr)):
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ, place)
            while selector.get_map():
                ready = selector.select(ends_at - time.monotonic())
                if time.monotonic() >= ends_at:
                    raise TimedOut(f"{name} did not answer within {self.timeout_s:g} s.")
                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        selector.unregister(key.fileobj)
                        continue
                    left[key.data] -= len(chunk)
                    if left[key.data] < 0:
                        raise Unreadable(f"{name} printed more than {self.most_bytes} bytes.")
                    streams[key.data].append(chunk)
        return [b"".join(chunks).decode("utf-8", "replace") for chunks in streams]


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill the whole process group; its number isn't reused until it has been waited for."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def environment() -> Dict[str, str]:
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    kept.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    kept.update(_FIXED)
    return kept


def first_line(output: Output) -> Optional[str]:
    """The first line of a failed command's output."""
    for line in (output.err + "\n" + output.out).splitlines():
        if line.strip():
            return shown(line.strip(), 300)
    return None
