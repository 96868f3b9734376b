"""The service behind nginx and Caddy, with the proxy count and without."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.core.outbound_servers import make_certificate
from tests.faults.conftest import FirstStart
from tests.security.conftest import Instance, start_instance
from tests.security.proxies import NAME, proxy
from tests.security.wire import dribbling, form_cookie, head, header, lookup, read_to_end, status

pytestmark = [pytest.mark.timeout(300), pytest.mark.deep]
KINDS = ["nginx", "caddy"]


@pytest.fixture(scope="module")
def counted(first_start: FirstStart) -> Iterator[Instance]:
    found = start_instance(first_start, FAIRSHARE_PROXY_COUNT="1")
    yield found
    found.stack.remove()


def ask_from(address: str, port: int, request: bytes) -> bytes:
    """address: one of 127.0.0.0/8, all of which are this machine's."""
    with socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(address, 0)) as connection:
        connection.sendall(request)
        return read_to_end(connection)


def metrics(*lines: str) -> bytes:
    return head("GET", "/metrics", *lines, "Connection: close")


@pytest.mark.parametrize("kind", KINDS)
def test_with_the_proxy_count_the_address_is_that_of_the_client(counted: Instance, kind: str, tmp_path: Path) -> None:
    """The allow-list of /metrics has 127.0.0.1, where the proxy is; 127.0.0.2 is another client."""
    with proxy(kind, counted.port, tmp_path / kind) as port:
        assert status(ask_from("127.0.0.1", port, metrics())) == 200
        assert status(ask_from("127.0.0.2", port, metrics())) == 401
        assert status(ask_from("127.0.0.2", port, metrics("X-Forwarded-For: 127.0.0.1"))) == 401
        assert status(ask_from("127.0.0.1", port, metrics("X-Forwarded-For: 192.0.2.1"))) == 200


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_proxy_count_the_proxy_address_grants_nothing(
    instance: Instance, kind: str, tmp_path: Path
) -> None:
    with proxy(kind, instance.port, tmp_path / kind) as port:
        for address in ("127.0.0.1", "127.0.0.2"):
            answer = ask_from(address, port, metrics())
            assert (status(answer), b"FAIRSHARE_PROXY_COUNT is 0" in answer) == (401, True)
        token = f"Authorization: Bearer {instance.tokens['reader']}"
        assert status(ask_from("127.0.0.1", port, metrics(token))) == 200


@pytest.mark.parametrize("kind", KINDS)
def test_slow_and_long_bodies_are_refused_through_a_proxy(instance: Instance, kind: str, tmp_path: Path) -> None:
    form = (form_cookie(instance.port), "Content-Type: application/x-www-form-urlencoded")
    with proxy(kind, instance.port, tmp_path / kind) as port:
        slow = [head("POST", "/sign-in/", *form, "Content-Length: 9000") + b"u"] * 100
        with dribbling(port, slow):
            for _ in range(5):
                assert status(ask_from("127.0.0.1", port, lookup(instance.tokens["reader"]))) == 200
        long = head("POST", "/sign-in/", *form, "Content-Length: 20000", "Connection: close") + b"x" * 20_000
        answer = ask_from("127.0.0.1", port, long)
        assert (status(answer), header(answer, "cache-control")) == (413, "private, no-store")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"), NAME)


@pytest.fixture(scope="module")
def behind_tls(first_start: FirstStart) -> Iterator[Instance]:
    terms = {"FAIRSHARE_PROXY_COUNT": "1", "FAIRSHARE_BEHIND_TLS_PROXY": "1"}
    found = start_instance(first_start, **terms, FAIRSHARE_ALLOWED_HOSTS=f"localhost,127.0.0.1,{NAME}")
    yield found
    found.stack.remove()


@pytest.fixture(params=KINDS)
def ask_tls(
    request: pytest.FixtureRequest, behind_tls: Instance, certificate: tuple[Path, Path], tmp_path: Path
) -> Iterator[Callable[..., bytes]]:
    """Asks by TLS what is sent, from one of this machine's addresses."""
    context = ssl.create_default_context(cafile=str(certificate[0]))
    with proxy(request.param, behind_tls.port, tmp_path / request.param, certificate) as port:

        def ask(sent: bytes, address: str = "127.0.0.1") -> bytes:
            plain = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(address, 0))
            with context.wrap_socket(plain, server_hostname=NAME) as connection:
                with suppress(OSError):  # a body that is refused unread
                    connection.sendall(sent)
                return read_to_end(connection)

        yield ask


def asked(method: str, path: str, *lines: str) -> bytes:
    return head(method, path, *lines, "Connection: close").replace(b"Host: localhost", f"Host: {NAME}".encode())


def test_a_form_of_the_https_address_is_accepted_and_of_another_refused(ask_tls: Callable[..., bytes]) -> None:
    """Django compares the origin with the scheme and the host that it sees."""
    page = ask_tls(asked("GET", "/sign-in/"))
    cookie, token = (re.search(rb"csrftoken=(\w+)", page), re.search(rb'csrfmiddlewaretoken" value="(\w+)"', page))
    assert cookie
    assert token
    body = b"username=eva&password=wrong&csrfmiddlewaretoken=" + token[1]
    lines = (
        f"Cookie: csrftoken={cookie[1].decode()}",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
    )
    for origin, spoofed, is_accepted in [
        (f"https://{NAME}", (), True),
        (f"https://{NAME}", ("X-Forwarded-Proto: http", "X-Forwarded-Host: evil.example"), True),
        (f"http://{NAME}", (), False),
        (f"http://{NAME}", ("X-Forwarded-Proto: http",), False),
        ("https://evil.example", ("X-Forwarded-Host: evil.example",), False),
    ]:
        answer = ask_tls(asked("POST", "/sign-in/", *lines, f"Origin: {origin}", *spoofed) + body)
        assert (status(answer) != 403) is is_accepted, (origin, spoofed, answer[:300])
        assert b"evil.example" not in answer


def test_a_spoofed_client_address_opens_no_metrics(ask_tls: Callable[..., bytes]) -> None:
    """Those of 127.0.0.1 are open to programs of this machine."""
    for spoofed in ("X-Forwarded-For: 127.0.0.1", "X-Real-IP: 127.0.0.1", "Forwarded: for=127.0.0.1"):
        assert status(ask_tls(asked("GET", "/metrics", spoofed), "127.0.0.2")) == 401, spoofed


def test_another_host_is_refused_through_a_proxy(ask_tls: Callable[..., bytes]) -> None:
    answer = ask_tls(asked("GET", "/sign-in/").replace(NAME.encode(), b"evil.example"))
    assert b"csrfmiddlewaretoken" not in answer, "nginx has one site; the service refuses the name"


def test_bodies_of_the_largest_size_pass_and_larger_ones_do_not(
    ask_tls: Callable[..., bytes], behind_tls: Instance
) -> None:
    token = f"Authorization: Bearer {behind_tls.tokens['pusher']}"
    largest, empty = 32 * 1024**2, b'{"source": "cluster", "records": []}'
    lines = (token, "Content-Type: application/json")

    def send(n_bytes: int, body: bytes) -> int:
        request = asked("POST", "/api/v1/usage/records", *lines, f"Content-Length: {n_bytes}")
        return status(ask_tls(request + body))

    accepted = send(len(empty), empty)
    assert accepted in (200, 201, 400, 422)
    assert send(largest, empty.ljust(largest)) == accepted
    assert send(largest + 1, empty.ljust(largest + 1)) == 413
    assert send(3 * 1024**3, b"") == 413, "by its length alone"


def test_static_files_and_compression_come_from_the_service(ask_tls: Callable[..., bytes]) -> None:
    page = ask_tls(asked("GET", "/sign-in/"))
    path = re.search(rb'href="(/static/[^"]+\.css)"', page)
    assert path
    static = ask_tls(asked("GET", path[1].decode(), "Accept-Encoding: br, gzip"))
    assert (status(static), header(static, "content-encoding")) == (200, "br")
    assert "immutable" in str(header(static, "cache-control"))
    packed = ask_tls(asked("GET", "/sign-in/", "Accept-Encoding: gzip"))
    assert header(packed, "content-encoding") == "gzip"
    for path_of_other in ("/healthz", "/no-such-page/"):
        answer = ask_tls(asked("POST", path_of_other, "Content-Length: 0", "Accept-Encoding: gzip"))
        assert header(answer, "content-encoding") is None, "answers to POST stay as they are"
