"""Slow and greedy clients of a real instance: none keeps look-ups and /healthz from answering."""

from __future__ import annotations

import json
import os
import resource
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.security.conftest import Instance
from tests.security.wire import ask, connect, dribbling, form_cookie, head, header, lookup, read_to_end, status

pytestmark = pytest.mark.timeout(300)
HEALTH = head("GET", "/healthz", "Connection: close")
FORM = "Content-Type: application/x-www-form-urlencoded"


def slow_posts(instance: Instance, n: int) -> list[bytes]:
    """Of every kind: the sign-in form, a look-up, a push of usage, a chunked body."""
    bearer = {name: f"Authorization: Bearer {token}" for name, token in instance.tokens.items()}
    json_type = "Content-Type: application/json"
    look, push = "/api/v1/policies/grid/priorities/lookup", "/api/v1/usage/records?source=cluster"
    kinds = [
        head("POST", "/sign-in/", form_cookie(instance.port), FORM, "Content-Length: 9000") + b"u",
        head("POST", look, bearer["reader"], json_type, "Content-Length: 9000") + b"{",
        head("POST", look, bearer["reader"], json_type, "Transfer-Encoding: chunked") + b"1\r\n{\r\n",
        head("POST", push, bearer["pusher"], json_type, "Content-Length: 9000") + b"[",
    ]
    return [kinds[i % len(kinds)] for i in range(n)]


def assert_answers(instance: Instance) -> None:
    assert status(ask(instance.port, HEALTH)) == 200
    assert status(ask(instance.port, lookup(instance.tokens["reader"]))) == 200


@pytest.mark.deep
@pytest.mark.parametrize("n", [20, 200])
def test_stalled_bodies_block_no_one(instance: Instance, n: int) -> None:
    with dribbling(instance.port, slow_posts(instance, n)):
        for _ in range(5):
            assert_answers(instance)
        assert status(ask(instance.port, head("GET", "/sign-in/", "Connection: close"))) == 200  # pages, too


def test_slow_bodies_and_endless_headers_are_refused(instance: Instance) -> None:
    """Both after ten seconds, which pass at the same time."""
    with connect(instance.port, 60.0) as unended, dribbling(instance.port, slow_posts(instance, 4)) as connections:
        unended.sendall(b"GET /healthz HTTP/1.1\r\nHost: local")
        assert_answers(instance)
        answers = [read_to_end(connection) for connection in connections]
        assert read_to_end(unended)[:12] in (b"", b"HTTP/1.1 408")
    assert [status(answer) for answer in answers] == [408] * 4
    assert {header(answer, "connection") for answer in answers} == {"close"}
    problem = json.loads(answers[1].partition(b"\r\n\r\n")[2])
    assert problem["code"] == "too_slow"


@pytest.mark.parametrize(
    ("path", "n_bytes", "limit"),
    [
        ("/sign-in/", 20_000, "16 kB"),
        ("/api/v1/policies/grid/document", 90_000_000, " MB"),
        ("/nowhere/", 20_000, "16 kB"),
    ],
)
def test_a_body_over_the_limit_of_its_route_is_refused_unread(
    instance: Instance, path: str, n_bytes: int, limit: str
) -> None:
    answer = ask(instance.port, head("POST", path, FORM, f"Content-Length: {n_bytes}"))  # nothing of it is sent
    assert (status(answer), header(answer, "connection")) == (413, "close")
    assert limit.encode() in answer


def test_a_chunked_body_is_counted(instance: Instance) -> None:
    with connect(instance.port) as connection:
        connection.sendall(head("POST", "/sign-in/", FORM, "Transfer-Encoding: chunked"))
        connection.sendall((b"400\r\n" + b"x" * 1024 + b"\r\n") * 17)
        answer = read_to_end(connection)
    assert (status(answer), header(answer, "connection")) == (413, "close")


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_look_up_with_any_framing_is_answered(instance: Instance, framing: str) -> None:
    """Short, and long enough to be asked for by the view before it is read."""
    for n_accounts in (1, 9_000):
        names = ["alice", *(f"account-{n}" for n in range(n_accounts - 1))]
        answer = post(instance, "/api/v1/policies/grid/priorities/lookup", json.dumps({"accounts": names}), framing)
        found = json.loads(answer.partition(b"\r\n\r\n")[2])["results"]
        assert (len(found), found[0]["entry"]) == (n_accounts, "/physics/alice")


def test_a_long_anonymous_body_is_refused_unread(instance: Instance) -> None:
    path = "/api/v1/usage/records?source=cluster"
    answer = ask(instance.port, head("POST", path, "Content-Type: application/json", "Content-Length: 9000000"))
    assert (status(answer), header(answer, "connection")) == (401, "close")
    admin_page = ask(instance.port, head("POST", "/usage/import/", FORM, "Content-Length: 900000000"))
    assert (status(admin_page), header(admin_page, "connection")) == (302, "close")  # to the sign-in form


def test_a_long_push_is_stored_once(instance: Instance) -> None:
    records = [
        {
            "job": f"{n}",
            "user": "alice",
            "cpus": 1,
            "submit": "2026-01-01T00:00:00Z",
            "start": "2026-01-01T00:00:00Z",
            "end": "2026-01-01T01:00:00Z",
        }
        for n in range(5_000)
    ]
    path = "/api/v1/usage/records?source=cluster"
    for expected in ("new", "duplicate"):
        answer = post(instance, path, json.dumps(records), "length", "pusher")
        assert status(answer) == 200, answer[-500:]
        assert json.loads(answer.partition(b"\r\n\r\n")[2])[expected] == 5_000


@pytest.mark.parametrize(
    ("token", "query", "expected"),
    [("own", "", 200), ("reader", "", 200), ("reader", "?format=json", 400), ("reader", "?format=csv", 400)],
)
def test_a_long_look_up_is_answered_to_each_token(instance: Instance, token: str, query: str, expected: int) -> None:
    """Look-ups have no tables: `format` is refused as every unknown parameter is."""
    accounts = [f"account-of-a-person-{n}" for n in range(9_999)]
    answer = post(
        instance, f"/api/v1/policies/grid/priorities/lookup{query}", json.dumps({"accounts": accounts}), "length", token
    )
    assert status(answer) == expected, answer[-500:]


def test_a_self_scoped_token_is_answered_by_views(instance: Instance) -> None:
    """Not from memory: whose accounts these are is in the database."""
    assert status(ask(instance.port, lookup(instance.tokens["own"]))) in (403, 404, 200)
    assert status(ask(instance.port, lookup("fsh_unknown_0"))) == 401


@pytest.mark.deep
@pytest.mark.parametrize("n", [20, 200])
def test_many_readers_of_the_schema_block_no_one(instance: Instance, n: int) -> None:
    request = head("GET", "/api/v1/schema", "Connection: close")
    answered: list[int] = []
    done = threading.Event()

    def read() -> None:
        piece = bytearray(1 << 20)  # hundreds of readers that join pieces would be busy with that for minutes
        while not done.is_set():
            with connect(instance.port, 60.0) as connection:
                connection.sendall(request)
                answered.append(status(bytes(piece[: connection.recv_into(piece)])))
                while not done.is_set() and connection.recv_into(piece):
                    pass

    with ThreadPoolExecutor(n) as pool:
        for _ in range(n):
            pool.submit(read)
        try:
            for _ in range(10):
                assert_answers(instance)
        finally:
            done.set()
    assert set(answered) == {200}
    assert len(answered) >= n


def test_a_client_that_does_not_read_blocks_no_one(instance: Instance) -> None:
    """Each asks for a file of megabytes and for a page, and reads nothing."""
    requests = [head("GET", "/api/v1/schema"), head("GET", "/api/v1/schema", "Accept: application/json")] * 20
    opened: list[socket.socket] = []
    try:
        for request in requests:
            opened.append(connect(instance.port, 60.0))
            opened[-1].sendall(request)
        for _ in range(5):
            assert_answers(instance)
            assert status(ask(instance.port, head("GET", "/sign-in/", "Connection: close"))) == 200
    finally:
        for connection in opened:
            connection.close()


def post(instance: Instance, path: str, body: str, framing: str, sender: str = "reader") -> bytes:
    data = body.encode()
    lines = [f"Authorization: Bearer {instance.tokens[sender]}", "Content-Type: application/json", "Connection: close"]
    if framing == "length":
        return ask(instance.port, head("POST", path, *lines, f"Content-Length: {len(data)}") + data, 60.0)
    chunks = [data[i : i + 5000] for i in range(0, len(data), 5000)]
    framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in [*chunks, b""])
    return ask(instance.port, head("POST", path, *lines, "Transfer-Encoding: chunked") + framed, 60.0)


def test_the_server_speaks_only_http_1_and_refuses_trace(instance: Instance) -> None:
    assert not ask(instance.port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").startswith(b"\x00")
    for path in ("/", "/api/v1/me", "/healthz", "/sign-in/", "/nowhere", "/static/favicon.svg"):
        assert status(ask(instance.port, head("TRACE", path, "Connection: close"))) == 405


@pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="limits of other processes are set by prlimit; run on Linux"
)
def test_look_ups_are_answered_at_the_limit_of_open_files(instance: Instance) -> None:
    """Of a web process that may open no further file, while six clients hold idle connections."""
    (pid,) = instance.stack.roles()["web child"]
    idle = [connect(instance.port) for _ in range(6)]
    try:
        for connection in idle:
            connection.sendall(head("GET", "/healthz"))
            assert connection.recv(65536)
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        n_open = len(os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (n_open, limits[1]))
        try:
            for _ in range(3):
                assert_answers(instance)
            with ThreadPoolExecutor(20) as clients:
                answers = clients.map(lambda _: ask(instance.port, lookup(instance.tokens["reader"])), range(20))
                assert {status(answer) for answer in answers} == {200}
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    finally:
        for connection in idle:
            connection.close()


BROKEN_CHUNKS = [b"-5\r\nabcde\r\n", b"ffffffffffffffffff\r\nx\r\n", b"zz\r\nx\r\n", b"5\r\nab\r\n0\r\n\r\n"]


@pytest.mark.parametrize("chunks", BROKEN_CHUNKS)
@pytest.mark.parametrize("path", ["/api/v1/policies/grid/priorities/lookup", "/sign-in/"])
def test_broken_chunks_are_a_bad_request(instance: Instance, path: str, chunks: bytes) -> None:
    bearer = f"Authorization: Bearer {instance.tokens['reader']}"
    sent = head("POST", path, bearer, "Content-Type: application/json", "Transfer-Encoding: chunked") + chunks
    with connect(instance.port) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        answer = read_to_end(connection)
    assert (status(answer), header(answer, "connection")) == (400, "close")
    assert b"body" in answer
