"""A machine of its own, run below `unshare --user --map-root-user --net --mount`: its name server changes its mind.

It has a public address, this machine's own and that of cloud metadata, each with a web server, all behind one name.
What the name leads to is chosen before each attempt. Prints what became of each attempt, and who was connected to.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

HOST = "rebind.example.org"
PUBLIC, OWN, METADATA = "93.184.215.14", "127.0.0.1", "169.254.169.254"
_SIOCSIFADDR, _SIOCSIFFLAGS, _UP_AND_RUNNING, _MS_BIND = 0x8916, 0x8914, 0x41, 0x1000

connected: list[str] = []
leads_to: list[list[str]] = []  # the addresses of each answer to come; the last one stays


def make_network(folder: Path) -> None:
    """Three addresses on the loopback, and a resolver that asks this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _UP_AND_RUNNING))
        for n, address in enumerate((PUBLIC, METADATA), 1):
            alias = f"lo:{n}".encode()
            fcntl.ioctl(
                control, _SIOCSIFADDR, struct.pack("16sHH4s8x", alias, socket.AF_INET, 0, socket.inet_aton(address))
            )
    libc = ctypes.CDLL(None, use_errno=True)
    texts = {"resolv.conf": f"nameserver {OWN}\noptions timeout:2 attempts:1\n", "nsswitch.conf": "hosts: dns\n"}
    for name, text in texts.items():
        (folder / name).write_text(text)
        goal = os.path.realpath(f"/etc/{name}")
        if os.path.exists(goal) and libc.mount(bytes(folder / name), goal.encode(), None, _MS_BIND, None):
            raise OSError(ctypes.get_errno(), f"bind {goal}")


def serve_names() -> None:
    """Answers to questions of type A as planned; to all others that there is none."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind((OWN, 53))

    def answer() -> None:
        while True:
            question, asker = listener.recvfrom(512)
            end = question.index(b"\0", 12) + 5
            addresses = []
            if question[end - 4 : end - 2] == b"\0\1":
                addresses = leads_to.pop(0) if len(leads_to) > 1 else leads_to[0]
            head = question[:2] + struct.pack(">HHHHH", 0x8180, 1, len(addresses), 0, 0)
            found = b"".join(b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + socket.inet_aton(each) for each in addresses)
            listener.sendto(head + question[12:end] + found, asker)

    threading.Thread(target=answer, daemon=True).start()


def serve_pages(address: str, port: int, context: ssl.SSLContext | None) -> None:
    """Every path but /in redirects to the next one; who connects is noted before anything is read."""
    listener = socket.create_server((address, port))

    def talk(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) if context else connection as wrapped:
            reader = wrapped.makefile("rb")
            path = reader.readline().split(b" ")[1].decode()
            head = {
                name.lower(): value
                for name, _, value in (line.partition(b":") for line in iter(reader.readline, b"\r\n"))
            }
            reader.read(int(head.get(b"content-length", 0)))
            hop = f"HTTP/1.1 307 Elsewhere\r\nLocation: {path}x\r\nContent-Length: 0\r\n\r\n"
            wrapped.sendall(b"HTTP/1.1 204 Done\r\n\r\n" if path == "/in" else hop.encode())

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            connected.append(f"{address}:{port}")
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def attempts() -> dict[str, Callable[[], str]]:
    """Every way outwards that a user's address leads to; each says what became of it."""
    from apps.contrib.notices.models import Delivery, Webhook
    from apps.contrib.notices.webhook_calls import call_due
    from apps.core import clock
    from apps.core.errors import DomainError
    from apps.core.outbound import Limits, fetch
    from apps.runs.services import work_run_now
    from apps.usage.models import Source
    from apps.usage.sources.schedule import enqueue_collection as ask_source

    def call(path: str) -> str:
        webhook = Webhook.objects.get()
        Webhook.objects.update(url=f"https://{HOST}{path}")
        made = Delivery.objects.create(
            webhook=webhook, event="test", news_at=clock.now(), due_at=clock.now(), created_at=clock.now()
        )
        call_due(at=clock.now())
        made.refresh_from_db()
        return f"{made.state}: {made.error}"

    def collect() -> str:
        run = work_run_now(ask_source(Source.objects.get(slug="slurm"), at=clock.now()).pk)
        return f"{run.state}: {run.error}"

    def follow() -> str:
        try:
            return str(fetch(f"https://{HOST}/hop", limits=Limits(redirects=5)).status)
        except DomainError as error:
            return error.code

    return {
        "webhook": lambda: call("/in"),
        "redirected webhook": lambda: call("/hop"),
        "collector": collect,
        "fetch": follow,
    }


def main() -> None:
    folder, plan = Path(sys.argv[1]), json.loads(sys.argv[2])
    make_network(folder)
    serve_names()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    for address in (PUBLIC, OWN, METADATA):
        serve_pages(address, 443, context)
        serve_pages(address, 80, None)
    import django

    django.setup()
    ways, found = attempts(), []
    for way, answers in plan:
        leads_to[:] = answers
        connected.clear()
        result: Any = ways[way]()
        found.append({"way": way, "result": result, "connected": sorted(set(connected)), "left": len(leads_to)})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
