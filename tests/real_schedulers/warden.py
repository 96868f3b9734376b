"""First process of a site of daemons: starts and signals them as it is asked, and when it dies the kernel ends all.

Runs in mount, PID, network and host name namespaces of its own (`enclosure.py` starts it). One JSON object a line comes
on stdin and gets one on stdout; the end of stdin ends the site. Standard library only.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

_MS_BIND, _MS_REC = 4096, 16384
_SIOCSIFADDR, _SIOCSIFNETMASK, _SIOCSIFFLAGS, _IFF_UP, _IFF_RUNNING = 0x8916, 0x891C, 0x8914, 1, 64
_libc = ctypes.CDLL(None, use_errno=True)
_daemons: dict[str, subprocess.Popen[bytes]] = {}


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    data = options.encode() or None
    if _libc.mount(source.encode(), target.encode(), kind.encode() or None, flags, data):
        raise OSError(ctypes.get_errno(), f"mount {source} on {target}")


def enter_root(root: str) -> None:
    """From here on / is what lies in root, and what is written to it is forgotten with the site.

    The folder beneath is only read: sites run side by side in one root.
    """
    mount("tmpfs", "/mnt", "tmpfs")
    for name in ("written", "work", "root"):
        os.mkdir(f"/mnt/{name}")
    mount("overlay", "/mnt/root", "overlay", options=f"lowerdir={root},upperdir=/mnt/written,workdir=/mnt/work")
    mount("proc", "/mnt/root/proc", "proc")
    for name in ("/dev", "/sys"):
        mount(name, f"/mnt/root{name}", flags=_MS_BIND | _MS_REC)


def bring_up_loopback(address: str) -> None:
    """Loopback and, on the same interface, an address that isn't one of loopback's: Grid Engine wants such a host."""

    def request(name: bytes, ip: str) -> bytes:
        return struct.pack("16sHH4s8x", name, socket.AF_INET, 0, socket.inet_aton(ip))

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP | _IFF_RUNNING))
        fcntl.ioctl(control, _SIOCSIFADDR, request(b"lo:1", address))
        fcntl.ioctl(control, _SIOCSIFNETMASK, request(b"lo:1", "255.255.255.255"))


def start(name: str, argv: list[str], env: dict[str, str], log: str, cwd: str) -> dict[str, Any]:
    with open(log, "ab") as output:
        _daemons[name] = subprocess.Popen(
            argv, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=cwd,
            start_new_session=True,
        )  # fmt: skip
    return {"pid": _daemons[name].pid}


def signal_daemon(name: str, number: int) -> dict[str, Any]:
    """Sends it and, if it isn't one that a process outlives, waits until the daemon has ended."""
    daemon = _daemons[name]
    if daemon.poll() is None:
        daemon.send_signal(number)
        if number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            try:
                daemon.wait(60)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
    return status(name)


def status(name: str) -> dict[str, Any]:
    return {"exit": _daemons[name].poll()}


def reap() -> None:
    """Processes whose parents have ended are the first process's; those of Popen are left to it."""
    own = {daemon.pid for daemon in _daemons.values() if daemon.returncode is None}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
            if state == "Z" and parent == "1" and int(entry) not in own:
                os.waitpid(int(entry), os.WNOHANG)
        except (OSError, ValueError):
            continue


DOES: dict[str, Callable[..., dict[str, Any]]] = {"start": start, "signal": signal_daemon, "status": status}


def main() -> None:
    setup = json.loads(sys.stdin.readline())
    socket.sethostname(setup["host"])
    bring_up_loopback(setup["address"])
    base = ""
    if setup["root"]:
        enter_root(setup["root"])
        base = "/mnt/root"
    for source, target in setup["binds"]:
        if base and not os.path.exists(base + target):
            os.makedirs(base + target) if os.path.isdir(source) else open(base + target, "x").close()
        mount(source, base + target, flags=_MS_BIND)
    if base:  # of Python, nothing that isn't loaded yet can be loaded after this
        os.chroot(base)
        os.chdir("/")
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        try:
            found = DOES[wanted.pop("do")](**wanted)
        except (OSError, KeyError) as error:
            found = {"error": repr(error)}
        reap()
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
