"""What the other side answers, at its oddest: redirects without end, bodies in crumbs, heads that never stop."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from typing import Any

import pytest

from apps.core import outbound
from apps.core.addresses import Refused, Target, target_of
from apps.core.errors import TooLarge
from apps.core.outbound import Limits, Unreachable, fetch
from tests.core.outbound_servers import OK, Serve, answering, redirect, request_of


@pytest.mark.parametrize("most", [0, 3, pytest.param(1000, marks=pytest.mark.deep)])
def test_a_chain_of_redirects_ends_at_the_limit(most: int, serve: Serve) -> None:
    n_asked = 0

    def onward(connection: socket.socket, closed: threading.Event) -> None:
        nonlocal n_asked
        request_of(connection)
        n_asked += 1
        connection.sendall(redirect(f"/{n_asked}"))

    port = serve(onward)
    try:
        status = fetch(f"http://127.0.0.1:{port}/", limits=Limits(redirects=most, total_s=60)).status
    except Unreachable as refusal:
        status = refusal.code  # type: ignore[assignment]
    assert (status, n_asked) == ((302, 1) if most == 0 else ("too_many_redirects", most + 1))


def test_redirects_never_lead_to_allowed_private_targets(
    serve: Serve, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A public server redirects to the scheduler that only this site itself may ask."""
    asked: list[bytes] = []
    inner = serve(answering(OK, seen=asked))
    outer = serve(answering(redirect(f"https://127.0.0.1:{inner}/jobs")), allowed=False)
    connected = outbound._connected
    there = Target("http", "127.0.0.1", outer, "/")

    def public(target: Any, addresses: Any, deadline: Any) -> socket.socket:
        if target.host != "vo.example.org":
            return connected(target, addresses, deadline)
        settings.FAIRSHARE_OUTBOUND_ALLOW.append(there.place)  # only for this connection, which represents one outside
        try:
            return connected(there, [ipaddress.ip_address("127.0.0.1")], deadline)
        finally:
            settings.FAIRSHARE_OUTBOUND_ALLOW.remove(there.place)

    class Plain:
        def wrap_socket(self, sock: socket.socket, **_named: Any) -> socket.socket:
            return sock

    monkeypatch.setattr(outbound, "_connected", public)
    plain: Any = Plain()
    with pytest.raises(Refused, match="for this site's own use"):
        fetch(
            "https://vo.example.org/", limits=Limits(redirects=3), resolve=lambda _h, _p: ["93.184.215.14"], tls=plain
        )
    assert asked == []


def test_every_address_of_a_name_is_checked(connects: list[tuple[str, int]]) -> None:
    with pytest.raises(Refused):
        fetch("https://many.example.org/", resolve=lambda _h, _p: [*[f"8.8.8.{n}" for n in range(40)], "10.0.0.1"])
    assert connects == []
    with pytest.raises(Unreachable):
        fetch("https://many.example.org/", resolve=lambda _h, _p: [f"8.8.8.{n}" for n in range(40)])
    assert len(connects) == outbound.MOST_ADDRESSES_OF_HOST


def test_an_unusual_port_is_in_the_host_header(serve: Serve) -> None:
    assert outbound._host_header(target_of("https://example.org/")) == "example.org"
    assert outbound._host_header(target_of("https://example.org:8443/")) == "example.org:8443"
    assert outbound._host_header(Target("http", "example.org", 443, "/")) == "example.org:443"
    assert outbound._host_header(Target("https", "::1", 80, "/")) == "[::1]:80"


@pytest.mark.parametrize("coding", ["zstd", "br", "deflate", "gzip, gzip", "zstd, gzip", "compress"])
def test_unknown_encodings_are_not_decoded(coding: str, serve: Serve) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: 4\r\n\r\n\x28\xb5\x2f\xfd".encode(
        "latin-1"
    )
    port = serve(answering(head))
    with pytest.raises(Unreachable, match="coding"):
        fetch(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 204 No Content\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\n", (204, b"")),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\nETag: x\r\n\r\n", (304, b"")),
        (b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nhe", (206, b"he")),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK, (103, b"")),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + OK, (200, b"hello")),
        (OK + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother", (200, b"hello")),  # left over, never read
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhello", (200, b"hello")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 500\r\n\r\nhello", (200, b"hello")),
        (b"HTTP/1.0 200\r\n\r\nhello", (200, b"hello")),
    ],
)
def test_unusual_responses_are_read_without_a_second_one(
    answer: bytes, expected: tuple[int, bytes], serve: Serve
) -> None:
    found = fetch(f"http://127.0.0.1:{serve(answering(answer))}/", limits=Limits(total_s=10))
    assert (found.status, found.body) == expected


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 200 " + b"x" * 70_000 + b"\r\n\r\n", "bad_answer"),
        (b"HTTP/1.1 99999 OK\r\n\r\n", "bad_answer"),
        (b"HTTP/1.1 -1 OK\r\n\r\n", "bad_answer"),
        (b"HTTP/9.9 200 OK\r\n\r\n", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"5" * 70_000, "bad_answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\nhello", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello", "cut_short"),
    ],
)
def test_responses_that_violate_the_protocol_are_errors(answer: bytes, code: str, serve: Serve) -> None:
    with pytest.raises(Unreachable) as refusal:
        fetch(f"http://127.0.0.1:{serve(answering(answer))}/", limits=Limits(total_s=10))
    assert refusal.value.code == code


def test_chunked_bodies_count_their_frames(serve: Serve) -> None:
    def crumbs(connection: socket.socket, closed: threading.Event) -> None:
        request_of(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not closed.is_set():
            connection.sendall(b"1;" + b"x" * 200 + b"\r\nx\r\n")

    port = serve(crumbs)
    with pytest.raises(TooLarge):
        fetch(f"http://127.0.0.1:{port}/", limits=Limits(n_bytes=100_000, total_s=30))


def test_a_head_response_has_no_body_regardless_of_its_length(serve: Serve) -> None:
    port = serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
    answer = fetch(f"http://127.0.0.1:{port}/", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")


def test_a_receiver_that_does_not_read_times_out(serve: Serve) -> None:
    port = serve(lambda connection, closed: closed.wait(20) and None)
    began = time.monotonic()
    with pytest.raises(Unreachable) as late:
        fetch(f"http://127.0.0.1:{port}/", method="POST", body=bytes(32 * 1024**2), limits=Limits(total_s=0.6))
    assert late.value.code == "too_slow"
    assert time.monotonic() - began < 5
