"""A mail server that takes everything and keeps it as it came over the wire."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Taken:
    """One message: who it is from and for by the envelope, and its lines as they were sent, dots unstuffed."""

    sender: str
    recipients: list[str]
    lines: list[bytes]


@dataclass
class Sink:
    port: int = 0
    messages: list[Taken] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)


@contextmanager
def smtp_sink() -> Iterator[Sink]:
    sink = Sink()

    class Talk(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            taken = Taken("", [], [])
            self.wfile.write(b"220 sink\r\n")
            while line := self.rfile.readline():
                command = line.decode("latin-1").strip()
                sink.commands.append(command)
                verb = command[:4].upper()
                if verb == "MAIL":
                    taken = Taken(command, [], [])
                elif verb == "RCPT":
                    taken.recipients.append(command.partition(":")[2].strip().strip("<>"))
                elif verb == "DATA":
                    self.wfile.write(b"354 go on\r\n")
                    taken.lines = list(self._lines())
                    sink.messages.append(taken)
                elif verb == "QUIT":
                    self.wfile.write(b"221 bye\r\n")
                    return
                self.wfile.write(b"250 sink\r\n")

        def _lines(self) -> Iterator[bytes]:
            """As every server ends lines that may be attacked: a bare LF or CR ends one too."""
            for line in self.rfile:
                for part in line.rstrip(b"\r\n").split(b"\r"):
                    if part == b".":
                        return
                    yield part.removeprefix(b".")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Talk) as server:
        server.daemon_threads = True
        sink.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield sink
        finally:
            server.shutdown()
