"""A mail server on this machine: it accepts, refuses some recipients, hangs at a chosen point, and stops."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage


@dataclass
class MailServer:
    """accepted: messages that it answered with 250. refused: recipients with the code of their refusal.

    hangs_at: the command that it never answers; "connection" for its greeting, "end" for the end of the message.
    trickles: there it sends a byte of an endless answer now and then instead of nothing.
    """

    port: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    hangs_at: str = ""
    trickles: bool = False
    accepted: list[EmailMessage] = field(default_factory=list)
    n_conversations: int = 0
    _listener: socket.socket | None = None
    _stops: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """On the port that it had before."""
        self._stops = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, args=(self._listener, self._stops), daemon=True).start()

    def stop(self) -> None:
        """Connections are refused from now on, and those that hang end."""
        self._stops.set()
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None

    def to(self, name: str) -> list[EmailMessage]:
        return [message for message in self.accepted if message["To"] == f"{name}@example.org"]

    def _accept(self, listener: socket.socket, stops: threading.Event) -> None:
        while not stops.is_set():
            try:
                connection, _address = listener.accept()
            except OSError:
                return
            self.n_conversations += 1
            threading.Thread(target=self._talk, args=(connection, stops), daemon=True).start()

    def _talk(self, connection: socket.socket, stops: threading.Event) -> None:
        with connection, connection.makefile("rb") as lines, suppress(OSError):
            self._answer(connection, "connection", "220 mail.example.org", stops)
            for line in lines:
                command = line.decode().strip()
                verb = command.upper().partition(" ")[0]
                if verb == "DATA":
                    self._answer(connection, verb, "354 go on", stops)
                    self._keep(connection, _body(iter(lines)), stops)
                else:
                    self._answer(connection, verb, self._reply(verb, command), stops)
                if verb == "QUIT":
                    return

    def _reply(self, verb: str, command: str) -> str:
        address = re.search(r"<(.*)>", command)
        code = self.refused.get(address[1], 250) if verb == "RCPT" and address else 221 if verb == "QUIT" else 250
        return f"{code} {'yes' if code < 300 else 'no'}"

    def _keep(self, connection: socket.socket, body: bytes, stops: threading.Event) -> None:
        if self.hangs_at != "end":
            self.accepted.append(message_from_bytes(body, policy=policy.default))
        self._answer(connection, "end", "250 accepted", stops)

    def _answer(self, connection: socket.socket, command: str, text: str, stops: threading.Event) -> None:
        """A hanging one ends with the server, or with the patience of the other side, and has said nothing."""
        if command != self.hangs_at:
            connection.sendall(f"{text}\r\n".encode())
            return
        connection.settimeout(0.02)
        while not stops.is_set():
            with suppress(TimeoutError):
                if not connection.recv(4096):
                    break
            if self.trickles:
                connection.sendall(text[:1].encode())
        raise ConnectionAbortedError


def _body(lines: Iterator[bytes]) -> bytes:
    found = []
    for line in lines:
        if line == b".\r\n":
            break
        found.append(line.removeprefix(b"."))
    return b"".join(found)


@contextmanager
def mail_server() -> Iterator[MailServer]:
    server = MailServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()
