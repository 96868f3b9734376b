"""Calls to servers that are busy, slow, hostile or elsewhere: bounded, and the token goes nowhere else."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.records import Refused, ServerFailure
from agent.rest import MOST_REPORT_BYTES, Rest, _shortened, checked_site, read_token
from tests.agent.fakes import TOKEN, FakeSite
from tests.core.outbound_servers import OK, answering, answering_early, make_certificate, redirect, request_of

Handler = Callable[[socket.socket], None]


@pytest.fixture
def site() -> Iterator[FakeSite]:
    found = FakeSite()
    yield found
    found.close()


@pytest.fixture
def listen() -> Iterator[Callable[[Handler], str]]:
    """`listen(handler)` is the address of a server that does with each connection what the handler does."""
    listeners = []

    def start(handler: Handler) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    try:
                        handler(connection)
                    except OSError:
                        continue

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.close()


def rest(url: str, **options: Any) -> tuple[Rest, list[float]]:
    """And the seconds that it would have waited."""
    waited: list[float] = []
    options = {"timeout_s": 0.5, "sleep": waited.append, **options}
    return Rest(url, "head", TOKEN, **options), waited


def test_orders_that_did_not_change_are_not_sent_again(site: FakeSite) -> None:
    source, _ = rest(site.url)
    assert source.orders() == source.orders()
    assert site.requests[1][2]["if-none-match"] == '"7"'
    site.order(weight=5)
    assert source.orders().weight == 5


def test_a_busy_server_is_retried_for_a_bounded_time(site: FakeSite) -> None:
    source, waited = rest(site.url)
    site.statuses = [503, 429, 500]
    assert source.orders().revision == 7
    assert waited == [0.5, 1.0, 2.0]
    site.statuses = [503] * 20
    with pytest.raises(ServerFailure, match="answers 503: as the test wants"):
        source.orders()
    assert len(site.requests) == 4 + 6


@pytest.mark.parametrize(("status", "words"), [(401, "the token"), (403, "schedulers"), (404, "404"), (422, "422")])
def test_a_refused_request_is_not_retried(site: FakeSite, status: int, words: str) -> None:
    source, waited = rest(site.url)
    site.statuses = [status]
    with pytest.raises(ServerFailure, match=words):
        source.orders()
    assert (len(site.requests), waited) == (1, [])


def test_a_repeated_report_has_the_same_key(site: FakeSite) -> None:
    source, _ = rest(site.url)
    site.statuses = [503]
    assert source.report({"pass": "p1"}) == 7
    assert [headers["idempotency-key"] for _, _, headers in site.requests] == ["p1", "p1"]


def test_redirects_are_refused_and_the_token_is_not_sent(listen: Any) -> None:
    seen: list[bytes] = []
    elsewhere = listen(lambda connection: seen.append(request_of(connection)))
    handler = answering(redirect(elsewhere + "/api/v1/schedulers/head/orders"))
    source, _ = rest(listen(lambda connection: handler(connection, threading.Event())))
    with pytest.raises(ServerFailure, match="The token is not sent there"):
        source.orders()
    assert seen == []


def test_an_early_answer_to_a_large_report_is_the_answer(listen: Any) -> None:
    """A server may refuse a report, and close the connection, before it has read all of it."""
    answer = b'{"detail": "revoked"}'
    handler = answering_early(b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))
    source, waited = rest(listen(lambda connection: handler(connection, threading.Event())), timeout_s=20)
    with pytest.raises(ServerFailure, match="the token"):
        source._ask("POST", "/report", {"rows": "x" * 10_000_000})
    assert waited == []


def accept_and_hang(connection: socket.socket) -> None:
    connection.settimeout(20)
    while connection.recv(4096):
        pass


def trickle(connection: socket.socket) -> None:
    request_of(connection)
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b" " * 1000:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


@pytest.mark.parametrize("handler", [accept_and_hang, trickle])
def test_a_hanging_or_slow_server_times_out(listen: Any, handler: Handler) -> None:
    source, _ = rest(listen(handler), timeout_s=0.4, patience_s=0)
    began = time.monotonic()
    with pytest.raises(ServerFailure, match="did not answer within"):
        source.orders()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (OK, "no JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{}", "can't be reached"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "The orders can't be read"),
        (b"\x16\x03\x01garbage\r\n\r\n", "can't be reached"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n{}", "The orders can't be read"),
        (b"HTTP/1.1 503 No\r\nRetry-After: \xb2\r\nContent-Length: 2\r\n\r\n{}", "503"),
        (b"", "can't be reached"),
    ],
    ids=["text", "half", "empty", "no HTTP", "no length", "no time", "nothing"],
)
def test_an_invalid_response(listen: Any, answer: bytes, words: str) -> None:
    handler = answering(answer)
    source, _ = rest(listen(lambda connection: handler(connection, threading.Event())), patience_s=0)
    with pytest.raises(ServerFailure, match=words):
        source.orders()


def test_an_untrusted_certificate_is_refused(listen: Any, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    seen: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            seen.append(secure.recv(4096))

    source, _ = rest(listen(handle).replace("http:", "https:"), patience_s=0)
    with pytest.raises(ServerFailure, match="invalid certificate"):
        source.orders()
    assert seen == []


@pytest.mark.parametrize(
    "address",
    [
        "http://fairshare.example.org",
        "ftp://x",
        "fairshare.example.org",
        "https://a:b@x",
        "https://x/?q=1",
        "https://x:port",
    ],
)
def test_addresses_that_would_leak_the_token_are_refused(address: str) -> None:
    with pytest.raises(Refused):
        checked_site(address)


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o640)
    with pytest.raises(Refused, match="revoke"):
        read_token(str(file))
    file.chmod(0o400)
    assert read_token(str(file)) == TOKEN
    file.chmod(0o600)
    file.write_text("password")
    with pytest.raises(Refused, match="holds no token"):
        read_token(str(file))
    with pytest.raises(Refused, match="can't be read"):
        read_token(str(tmp_path / "none"))


def test_a_too_long_listing_is_truncated() -> None:
    queue = [{"job": str(n), "priority": n, "reason": "x" * 500} for n in range(100_000)]
    found = _shortened({"pass": "p", "queue": queue})["queue"]
    assert MOST_REPORT_BYTES // 700 < len(found) < MOST_REPORT_BYTES // 500
    assert found[0]["priority"] == 99_999


def test_a_truncated_listing_says_how_many_jobs_it_lacks() -> None:
    queue = [{"job": str(n), "priority": n, "reason": "x" * 500} for n in range(200_000)]
    report: dict[str, Any] = {"pass": "p", "queue": queue, "queue_state": {"running": [], "omitted": 5}}
    sent = _shortened(report)
    assert sent["queue_state"]["omitted"] == 5 + 200_000 - len(sent["queue"])
    assert len(json.dumps(sent)) < MOST_REPORT_BYTES
    assert report["queue_state"]["omitted"] == 5
    assert _shortened({**report, "queue": queue[:10]})["queue_state"]["omitted"] == 5
