"""The event loop's half of a request: what is read, what is refused, in which order a stream leaves."""

from __future__ import annotations

import asyncio
import errno
import gzip
import io
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
import zstandard
from django.test import RequestFactory

from apps.core.code_paths import REPOSITORY
from apps.web.rest.body_limits import KB, Limit
from apps.web.shell.errors import bad_request, refused_body, server_error
from apps.web.templatetags import marks
from fairshare_web.server import bodies, lanes, large_bodies, replies
from fairshare_web.server.application import Application
from fairshare_web.server.bodies import BodyReader, Disconnected, Refused
from fairshare_web.server.environ import environ_of
from fairshare_web.server.replies import Broken, Outbox

LIMIT = Limit(10_000_000)
Message = dict[str, Any]
T = TypeVar("T")


def in_a_loop(work: Coroutine[Any, Any, T]) -> T:
    """In a thread of its own: the one of the tests runs the loop of the browser, once there is one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def pieces(*parts: bytes, ends: bool = True) -> Iterator[Message]:
    for i, part in enumerate(parts):
        yield {"type": "http.request", "body": part, "more_body": not ends or i + 1 < len(parts)}


async def read(messages: Iterator[Message], limit: Limit = LIMIT, declared: int | None = None) -> bytes:
    """The body that these messages are; a client that has sent them all is silent for ever."""

    async def receive() -> Message:
        found = next(messages, None)
        if found is None:
            await asyncio.Event().wait()
        assert found is not None
        return found

    reader = BodyReader(receive, limit, declared)
    await reader.read()
    with await reader.finished() as file:
        return file.read()


def test_a_body_of_any_length_is_read_completely_and_in_order() -> None:
    for n_parts in (1, 3, 40):
        parts = [bytes([i]) * 100_000 for i in range(n_parts)]
        assert in_a_loop(read(pieces(*parts))) == b"".join(parts)


def test_a_body_of_known_length_ends_with_its_last_byte() -> None:
    """The server isn't asked whether more follows: the answer takes as long as the whole of a short body."""
    for parts in ([b"abc"], [b"ab", b"c"]):
        assert in_a_loop(read(pieces(*parts, ends=False), declared=3)) == b"abc"


@pytest.mark.parametrize("parts", [[b""], [b"ab"], [b"a", b"b" * 999]])
def test_a_body_that_says_more_than_it_holds_is_refused(parts: list[bytes]) -> None:
    with pytest.raises(Refused, match=r"of 1001 bytes") as caught:
        in_a_loop(read(pieces(*parts), declared=1001))
    assert (caught.value.status, caught.value.code) == (400, "cut_short")


def test_each_of_many_bodies_has_its_own_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """One timer looks after all of them."""
    monkeypatch.setattr(bodies, "GRACE_S", 0.0)
    monkeypatch.setattr(bodies, "LEAST_RATE", 1e-6)  # a body of which anything has come has for ever

    async def run() -> list[object]:
        late = [read(pieces(b"", ends=False)) for _ in range(20)]
        on_time = asyncio.create_task(read(pieces(b"x", ends=False)))
        found = await asyncio.gather(*late, return_exceptions=True)
        assert not on_time.done()
        on_time.cancel()
        return [*found, *await asyncio.gather(on_time, return_exceptions=True)]

    *late, on_time = in_a_loop(run())
    assert [getattr(each, "code", each) for each in late] == ["too_slow"] * 20
    assert isinstance(on_time, asyncio.CancelledError), "who cancels a read by other means is not answered 408"


@pytest.mark.parametrize("n_sent", [0, 5_000, 3_000_000])
def test_a_stalled_body_is_refused_at_its_deadline(n_sent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "GRACE_S", 0.0)
    monkeypatch.setattr(bodies, "LEAST_RATE", 1e12)
    with pytest.raises(Refused) as refused:
        in_a_loop(read(pieces(b"x" * n_sent, ends=False)))
    assert (refused.value.status, refused.value.code) == (408, "too_slow")


def test_an_endless_body_is_refused_at_its_limit() -> None:
    endless = (piece for _ in itertools.count() for piece in pieces(b"x" * 1_000, ends=False))
    with pytest.raises(Refused) as refused:
        in_a_loop(read(endless, limit=Limit(16 * KB)))
    assert (refused.value.status, str(refused.value)) == (413, "The body is over the limit of 16 kB for this address.")


def test_a_disconnected_client_gets_no_response() -> None:
    gone: Message = {"type": "http.disconnect"}
    with pytest.raises(Disconnected):
        in_a_loop(read(itertools.chain(pieces(b"x", ends=False), [gone])))


def test_a_full_disk_refuses_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(Refused) as refused:
        in_a_loop(read(pieces(b"x" * 2_000_000)))
    assert (refused.value.status, refused.value.code) == (503, "no_room")


def collected(make: Callable[[], Iterator[bytes]], *, reads_after_all: bool) -> bytes:
    async def run() -> bytes:
        loop = asyncio.get_running_loop()
        outbox = Outbox(loop)
        filling = loop.run_in_executor(None, outbox.fill, make())
        if reads_after_all:
            await asyncio.wait([filling])
        found = b""
        try:
            while piece := await outbox.next():
                found += piece
        finally:
            outbox.abandon()
            await asyncio.wait([filling])
            filling.exception()
        return found

    return in_a_loop(run())


@pytest.mark.parametrize("reads_after_all", [False, True])
@pytest.mark.parametrize("n_pieces", [0, 1, 30])
def test_a_stream_arrives_completely_for_slow_readers(n_pieces: int, reads_after_all: bool) -> None:
    """Thirty pieces are more than stays in memory."""
    sent = [bytes([i]) * 100_000 for i in range(n_pieces)]
    assert collected(lambda: iter(sent), reads_after_all=reads_after_all) == b"".join(sent)


def test_a_failed_stream_is_never_complete() -> None:
    def failing() -> Iterator[bytes]:
        yield b"x" * 2_000_000
        raise ValueError("no more")

    for reads_after_all in (False, True):
        with pytest.raises(Broken):
            collected(failing, reads_after_all=reads_after_all)


def test_a_client_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "STALL_S", 0.0)

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    from django.http import HttpResponse

    with pytest.raises(Broken):
        in_a_loop(replies.send_response(send, HttpResponse(b"x" * 1_000_000)))


def scope(**more: Any) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        "http_version": "1.1",
        "scheme": "http",
        "path": "/healthz",
        "raw_path": b"/healthz",
        "query_string": b"",
        "client": ("192.0.2.1", 5),
        "server": ("127.0.0.1", 8000),
        "headers": [(b"host", b"localhost")],
        **more,
    }


def test_the_environment_follows_wsgi() -> None:
    headers = [
        (b"host", b"a"),
        (b"x-name", b"J\xc3\xb6rg"),
        (b"x-a", b"1"),
        (b"x-a", b"2"),
        (b"cookie", b"a=1"),
        (b"cookie", b"b=2"),
        (b"x_forwarded_for", b"spoofed"),
        (b"content-type", b"text/plain"),
    ]
    environ = environ_of(scope(raw_path=b"/a%20b/%C3%A4%ff", query_string=b"q=%C3%A4", headers=headers))
    assert environ["PATH_INFO"] == "/a b/\xc3\xa4\xff"
    assert (environ["QUERY_STRING"], environ["CONTENT_TYPE"]) == ("q=%C3%A4", "text/plain")
    assert (environ["HTTP_X_A"], environ["HTTP_COOKIE"]) == ("1,2", "a=1; b=2")
    assert environ["HTTP_X_NAME"].encode("latin-1").decode() == "Jörg"
    assert "HTTP_X_FORWARDED_FOR" not in environ
    assert environ["REMOTE_ADDR"] == "192.0.2.1"


@pytest.mark.fault("F28")
def test_health_is_answered_while_every_thread_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a pool is asked: whatever else runs, the event loop answers."""
    from fairshare_web.server import views

    def no_thread(*_: object, **__: object) -> None:
        raise AssertionError("a thread was asked")

    monkeypatch.setattr(views.Views, "answer_in", no_thread)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("there is no body")

    in_a_loop(Application()(scope(), receive, send))
    assert sent[0]["status"] == 200
    assert sent[1]["body"] == b'{"status":"ok"}'


def answered(path: str, *headers: tuple[bytes, bytes], query: bytes = b"", method: str = "POST") -> list[Message]:
    """What the application sends for a request whose body is longer than what is read unasked."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("the body is read")

    asked = {"path": path, "raw_path": path.encode(), "query_string": query, "method": method}
    headers = ((b"host", b"localhost"), (b"content-length", b"70000"), *headers)
    in_a_loop(Application()(scope(headers=list(headers), **asked), receive, send))
    return sent


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("query", [b"", b"format=csv", b"format=json"])
@pytest.mark.parametrize("scheme", [b"Basic abc", b"Bearer", b"Bearer x", b"Token \xff", b""])
def test_a_long_body_of_a_stranger_to_look_ups_is_refused_unread(query: bytes, scheme: bytes) -> None:
    headers = (b"authorization", scheme), (b"content-type", b"application/json")
    start, body = answered("/api/v1/policies/grid/priorities/lookup", *headers, query=query)
    assert (start["status"], dict(start["headers"])[b"content-type"]) == (401, b"application/problem+json")
    assert json.loads(body["body"])["status"] == 401


def test_large_and_packed_bodies_have_threads_of_their_own() -> None:
    def lane(body: bytes, path: str = "/api/v1/policies/grid/document") -> object:
        environ = environ_of(scope(raw_path=path.encode()))
        return lanes.lane_of({**environ, "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)})

    for path in ("/api/v1/policies/grid/document", "/usage/import/"):
        assert lane(b"x" * 250_000, path) is lanes.REST
        assert lane(b"x" * 300_000, path) is lanes.LARGE
        for pack in (gzip.compress, zstandard.compress):
            short, much = pack(b"x" * 250_000), pack(b"x" * 300_000)
            assert len(much) < 1_000
            for before in (b"", b"x" * 100, b"x" * 20_000):  # a form with a packed file
                assert lane(before + short, path) is lanes.REST, "it has few bytes when it is unpacked"
                assert lane(before + much, path) is lanes.LARGE
                assert lane(before + short + b"--" + short, path) is lanes.LARGE, "two files"
            assert lane(b"x" * 100 + much[:20], path) is lanes.REST, "its reader refuses it"
        assert lane(b"\x1f\x8b\x08" * 1_000, path) is lanes.LARGE, "more marks than files"
    environ = environ_of(scope(raw_path=b"/api/v1/policies/grid/document"))
    assert lanes.lane_of(bodies.without_body(environ, 300_000)) is lanes.REST, "its sender is not known yet"
    with large_bodies.temporary_file() as on_disk:
        assert lanes.lane_of({**environ, "CONTENT_LENGTH": "2000000", "wsgi.input": on_disk}) is lanes.LARGE


@pytest.mark.django_db(transaction=True)
def test_what_a_stranger_has_packed_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """17 kB of nobody started a process of 225 MB, and shared its queue."""
    monkeypatch.setattr(lanes, "LARGE", None)
    body = gzip.compress(Random(1).randbytes(20_000) + b"x" * 1_000_000)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    messages = pieces(body)

    async def receive() -> Message:
        return next(messages)

    path = "/api/v1/policies/grid/document"
    headers = [(b"host", b"localhost"), (b"content-length", str(len(body)).encode()), (b"content-encoding", b"gzip")]
    asked = scope(headers=headers, path=path, raw_path=path.encode(), method="PUT")
    in_a_loop(Application()(asked, receive, send))
    assert sent[0]["status"] == 401


def test_a_failure_of_the_server_itself_is_a_problem_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Application, "_from_threads", None)
    start, body = answered("/api/v1/policies")
    assert (start["status"], dict(start["headers"])[b"content-type"]) == (500, b"application/problem+json")
    assert b"Traceback" not in body["body"]


@pytest.mark.parametrize("expects", [False, True])
def test_a_short_body_over_the_limit_is_drained_before_the_refusal(
    expects: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the connection is reset, and a proxy answers 502. With Expect the client sends nothing before the answer."""
    parts = pieces(b"x" * 10_000, b"x" * 10_000)
    sent: list[Message] = []
    n_read_before: list[int] = []

    async def receive() -> Message:
        n_read_before.append(len(sent))
        return next(parts)

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-length", b"20000")]
    headers += [(b"expect", b"100-continue")] if expects else []
    path = {"path": "/api/v1/nothing", "raw_path": b"/api/v1/nothing"}
    in_a_loop(Application()(scope(method="POST", headers=headers, **path), receive, send))
    name = dict(sent[0]["headers"])[b"x-request-id"].decode()
    assert json.loads(sent[1]["body"])["request_id"] == name
    assert f"(request {name})" in caplog.text or any(getattr(each, "request", None) for each in caplog.records)
    assert (sent[0]["status"], n_read_before) == (413, [] if expects else [0, 0])


def test_a_refused_body_that_never_ends_is_drained_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LINGER_S", 0.0)

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    in_a_loop(bodies.drain(receive))


@pytest.mark.deep
def test_routes_are_loaded_at_the_start_and_not_by_the_first_body(tmp_path: Path) -> None:
    """The event loop is blocked while all views are imported, which takes seconds on a busy machine."""
    program = "import sys, fairshare_web.asgi; print('fairshare_web.urls' in sys.modules)"
    environment = {**os.environ, "FAIRSHARE_VAR": str(tmp_path), "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == ["True"], done.stderr[-2_000:]


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}])
def test_a_refused_body_has_its_page_before_static_files_were_collected(
    tmp_path: Path, settings: Any, headers: dict[str, str]
) -> None:
    settings.STATIC_ROOT = tmp_path
    manifest = {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": manifest}
    marks.icon.cache_clear()
    request = RequestFactory().post("/policy/grid/import/", headers=headers)
    for answer in (refused_body(request, 413, "too_large", "More than 32 MB."), bad_request(request, ValueError())):
        assert answer.status_code in (413, 400)
        assert "That is too large" in answer.text or "The request could not be read" in answer.text
    assert server_error(request).status_code == 500
