"""`python -m apps.cli.demo.cleaner FOLDER`: waits for the end of the demo, however it ends, and removes its folder.

The demo holds the other end of standard input: its end is the end of the demo, also by SIGKILL. Its processes end with
it; the database's take a moment.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

from apps.cli.stack import processes
from apps.cli.stack.paths import socket_dir

PREFIX = "fairshare-demo-"
_PATIENCE_S = 20.0


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    if not folder.name.startswith(PREFIX):
        sys.exit(f"{folder} is no folder of a demo.")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while sys.stdin.buffer.read(4096):
        pass
    data = folder / "pg"
    if not processes.wait_gone(lambda: processes.working_in(data, "postgres"), _PATIENCE_S):
        for pid in processes.working_in(data, "postgres"):
            processes.send(pid, signal.SIGKILL)
        processes.wait_gone(lambda: processes.working_in(data, "postgres"), _PATIENCE_S)
    for _ in range(3):  # a process that was killed may just have made another file
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(socket_dir(folder), ignore_errors=True)


if __name__ == "__main__":
    main()
