"""The service behind nginx and Caddy, with the proxy count and without."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import FirstStart
from tests.security.conftest import Instance, start_instance
from tests.security.proxies import proxy
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
