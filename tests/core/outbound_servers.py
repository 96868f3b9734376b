"""Servers on this machine that behave as badly as a test wants them to."""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Handler = Callable[[socket.socket, threading.Event], None]
Serve = Callable[..., int]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def request_of(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data and (more := connection.recv(4096)):
        data += more
    return data


def answering(*answers: bytes, seen: list[bytes] | None = None) -> Handler:
    """One answer for each connection, the last one again and again; a request's body is read first."""
    left = list(answers)

    def handle(connection: socket.socket, closed: threading.Event) -> None:
        request = request_of(connection)
        if seen is not None:
            seen.append(request)
        _read_body(connection, request)
        connection.sendall(left.pop(0) if len(left) > 1 else left[0])

    return handle


def answering_early(answer: bytes) -> Handler:
    """An answer before the body is read, and a connection that is closed with the body unread."""

    def handle(connection: socket.socket, closed: threading.Event) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else a reset may overtake the answer
        request_of(connection)
        connection.sendall(answer)

    return handle


def _read_body(connection: socket.socket, request: bytes) -> None:
    head, _, begun = request.partition(b"\r\n\r\n")
    length = re.search(rb"(?im)^content-length: *([0-9]+)", head)
    left = int(length[1]) - len(begun) if length else 0
    while left > 0 and (more := connection.recv(min(left, 65_536))):
        left -= len(more)


def redirect(location: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode("latin-1")


@pytest.fixture
def serve(settings: Any) -> Iterator[Serve]:
    """`serve(handler)` is the port of a server on this machine that may be connected to."""
    closed = threading.Event()
    listeners: list[socket.socket] = []

    def start(handler: Handler, *, context: ssl.SSLContext | None = None, allowed: bool = True) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        port = int(listener.getsockname()[1])
        if allowed:
            settings.FAIRSHARE_OUTBOUND_ALLOW = [*settings.FAIRSHARE_OUTBOUND_ALLOW, f"127.0.0.1:{port}"]
        threading.Thread(target=accept, args=(listener, handler, context), daemon=True).start()
        return port

    def accept(listener: socket.socket, handler: Handler, context: ssl.SSLContext | None) -> None:
        while not closed.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection, handler, context), daemon=True).start()

    def talk(connection: socket.socket, handler: Handler, context: ssl.SSLContext | None) -> None:
        try:
            with context.wrap_socket(connection, server_side=True) if context else connection as wrapped:
                wrapped.settimeout(20)
                handler(wrapped, closed)
        except OSError:
            return  # the other side has had enough, which is what most of these tests are about

    yield start
    closed.set()
    for listener in listeners:
        listener.close()


@pytest.fixture(scope="session")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Ours, which trusts an authority of this test; theirs, which it has certified as slurm.example.org."""
    public, private = make_certificate(tmp_path_factory.mktemp("tls"), "slurm.example.org")
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(public, private)
    ours = ssl.create_default_context(cafile=os.fspath(public))
    return ours, theirs


@pytest.fixture
def trusted(certified: tuple[ssl.SSLContext, ssl.SSLContext], settings: Any, tmp_path: Path) -> ssl.SSLContext:
    """Theirs, whose authority this site trusts by its setting."""
    ours, theirs = certified
    file = tmp_path / "ca.pem"
    file.write_text("".join(map(ssl.DER_cert_to_PEM_cert, ours.get_ca_certs(binary_form=True)[-1:])))
    settings.FAIRSHARE_OUTBOUND_CA_FILE = str(file)
    return theirs


@pytest.fixture
def squid(serve: Serve, trusted: ssl.SSLContext, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A site behind a proxy that demands credentials; no name of outside is known on this host.

    `squid.lead(port)` makes a server without TLS on this machine reachable as https://slurm.example.org.
    """
    from tests.core.connect_proxy import ConnectProxy, leading_to, running

    class Squid(ConnectProxy):
        def lead(self, port: int) -> str:
            self.leads["slurm.example.org:443"] = serve(leading_to(port), context=trusted, allowed=False)
            return "https://slurm.example.org"

    def look_up(host: str, port: int) -> list[str]:
        if host != "127.0.0.1":
            raise socket.gaierror(host)
        return [host]

    monkeypatch.setattr("apps.core.outbound.look_up", look_up)
    with running(Squid(demands_credentials=True)) as proxy:
        settings.FAIRSHARE_OUTBOUND_PROXY = proxy.url
        yield proxy


def make_certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """Files of a certificate for the host and 127.0.0.1, which is its own authority, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    alternatives: list[x509.GeneralName] = [x509.DNSName(host), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    day = datetime.timedelta(days=1)
    today = datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - day)
        .not_valid_after(today + day)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "cert.pem", folder / "key.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return public, private


@pytest.fixture
def connects(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Every address that a socket of this process was asked to connect to; only those of this machine are reached."""
    asked: list[tuple[str, int]] = []

    class Spy(socket.socket):
        def connect(self, address: Any) -> None:
            asked.append((address[0], address[1]))
            if address[0] != "127.0.0.1":
                raise ConnectionRefusedError("nothing leaves this machine in a test")
            super().connect(address)

    monkeypatch.setattr("apps.core.outbound.socket.socket", Spy)
    return asked
