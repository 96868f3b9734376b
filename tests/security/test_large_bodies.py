"""Requests with large bodies run in processes of their own: as in the web process, within bounds, or not at all."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from django.http import HttpResponseBase
from pytest_django import Settings

from apps.core.clock import VARIABLE as CLOCK
from apps.policies.models import ChangeSet
from apps.runs.fault_points import VARIABLE as FAULT
from apps.usage.models import Record
from fairshare_web.server import large_bodies
from fairshare_web.server.application import Application
from fairshare_web.server.bodies import Refused
from fairshare_web.server.environ import Environ
from fairshare_web.server.large_bodies import Bounds, LargeBodies, NotStarted, sender_of
from fairshare_web.server.views import Views
from tests.examples import first
from tests.instants import AT
from tests.security.large_body_urls import MANY_PIECES
from tests.security.test_bodies import Message, in_a_loop, scope
from tests.small_site import Site, build_site

BODY = b"x" * 300_000
PUSH = "POST /api/v1/usage/records?source=cluster-a"


def environment(**more: str) -> dict[str, str]:
    """Of a process on the database of this test, at its instant."""
    database = connection.settings_dict
    url = f"postgres://{quote(database['USER'])}:{quote(database['PASSWORD'])}@/{database['NAME']}"
    url += f"?host={quote(str(database['HOST']), safe='')}&port={database['PORT']}"
    settings_module = {"DJANGO_SETTINGS_MODULE": "tests.security.large_body_settings"}
    return {**os.environ, **settings_module, "DATABASE_URL": url, CLOCK: AT.isoformat(), **more}


@pytest.fixture(scope="module")
def processes() -> Iterator[LargeBodies]:
    """Of the whole file, because each takes seconds to start."""
    made = LargeBodies(Bounds(cpu_s=3, n_bytes=1024**3), environment())
    yield made
    made.end_idle()


@pytest.fixture
def committed_site(transactional_db: None) -> Site:
    return build_site(AT)


def request(name: str, body: bytes = BODY) -> Environ:
    return {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": f"/api/v1/tried/{name}",
        "QUERY_STRING": "a=1&b=%C3%A4",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "localhost",
        "HTTP_USER_AGENT": "J\xc3\xb6rg/1",
        "REMOTE_ADDR": "192.0.2.1",
        "CONTENT_LENGTH": str(len(body)),
        "CONTENT_TYPE": "application/octet-stream",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
    }


_INSTANT = re.compile(r"(?<=expires=)[^;]* GMT")  # the second response may be of a later second


def parts(response: HttpResponseBase) -> tuple[int, dict[str, str], set[str]]:
    """What a client gets beside the content; of ids of requests that there is one."""
    headers = {name.lower(): value for name, value in response.items()}
    headers |= {"x-request-id": ""} if headers["x-request-id"] else {}
    headers["content-security-policy"] = str(sorted(headers["content-security-policy"].split("; ")))
    cookies = {_INSTANT.sub("", each.OutputString()) for each in response.cookies.values()}
    return response.status_code, headers, cookies


def content(response: HttpResponseBase) -> bytes:
    return b"".join(response)


def process_of(response: HttpResponseBase) -> int:
    return int(json.loads(content(response))["process"])


@pytest.mark.deep
def test_a_response_is_that_of_the_web_process(processes: LargeBodies, settings: Settings) -> None:
    settings.ROOT_URLCONF = "tests.security.large_body_urls"
    here, there = Views()._respond(request("echo")), processes.respond(request("echo"))
    assert parts(there) == parts(here)
    own, other = json.loads(content(here)), json.loads(content(there))
    assert other["sha256"] == hashlib.sha256(BODY).hexdigest()
    assert int(own.pop("process")) == os.getpid() != int(other.pop("process"))
    assert own == other


@pytest.mark.deep
def test_a_body_on_disk_is_read_from_its_beginning(processes: LargeBodies) -> None:
    with large_bodies.temporary_file() as file:
        file.write(BODY)
        response = processes.respond({**request("echo"), "wsgi.input": file})
        assert json.loads(content(response))["sha256"] == hashlib.sha256(BODY).hexdigest()
        assert not file.closed, "who has read it closes it"


def test_a_long_response_arrives_completely(processes: LargeBodies) -> None:
    response = processes.respond(request("many"))
    assert response.streaming
    assert content(response) == b"".join(MANY_PIECES)
    assert response["Content-Type"] == "text/csv"


@pytest.mark.deep
def test_one_process_answers_until_it_is_idle_or_killed_or_has_grown(processes: LargeBodies) -> None:
    first = process_of(processes.respond(request("echo")))
    assert Path(f"/proc/{first}/oom_score_adj").read_text() == "500\n", "it ends before processes of look-ups"
    processes.end_idle(idle_s=3600.0)
    assert process_of(processes.respond(request("large"))) == first, "it has not been idle for so long"
    second = process_of(processes.respond(request("echo")))
    assert second != first, "that one has grown"
    (idle,) = processes._idle
    idle._process.kill()
    idle._process.wait()
    third = process_of(processes.respond(request("echo")))
    assert third != second
    processes.end_idle()
    assert not processes._idle
    with pytest.raises(ProcessLookupError):
        os.kill(third, 0)


@pytest.mark.parametrize(
    ("view", "status", "code", "says"),
    first(
        1,
        [
            ("killed", 503, "interrupted", "before you send it again"),
            ("endless", 413, "too_costly", "3 s of processor time. See whether it was done"),
            ("insatiable", 413, "too_costly", "memory. See whether it was done"),
            ("broken", 503, "interrupted", "before you send it again"),
        ],
    ),
)
def test_a_process_that_ends_early_is_a_refusal(
    processes: LargeBodies, view: str, status: int, code: str, says: str
) -> None:
    with pytest.raises(Refused, match=says) as refused:
        processes.respond(request(view))
    assert (refused.value.status, refused.value.code) == (status, code)
    assert not processes._idle, "the next request has another process"


def test_without_room_for_a_process_a_thread_answers(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    settings.ROOT_URLCONF = "tests.security.large_body_urls"

    def no_room(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", no_room)
    processes = LargeBodies()
    for _ in range(2 * large_bodies.N_PROCESSES):
        with pytest.raises(NotStarted):
            processes.respond(request("echo"))
    assert process_of(Views(processes)._respond_apart(request("echo"))) == os.getpid()


class Sent:
    """What the application sends for one request. n_declared: bytes that its head says."""

    def __init__(
        self, application: Application, asked: str, body: bytes, headers: Mapping[str, str], n_declared: int = 0
    ) -> None:
        self.messages: list[Message] = []
        method, _, address = asked.partition(" ")
        path, _, query = address.partition("?")
        named = {**headers, "host": "localhost", "content-length": str(n_declared or len(body))}
        line = {"path": path, "raw_path": path.encode(), "query_string": query.encode(), "method": method}

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            self.messages.append(message)

        encoded = [(name.encode(), value.encode()) for name, value in named.items()]
        in_a_loop(application(scope(headers=encoded, **line), receive, send))
        self.status: int = self.messages[0]["status"]
        self.json: Any = json.loads(b"".join(each["body"] for each in self.messages[1:]))


def records(n: int) -> bytes:
    """Of jobs of one minute, n of them, in more bytes than a thread reads."""
    start, end = "2026-11-19T10:00:00Z", "2026-11-19T10:01:00Z"
    one = {"user": "alice", "group": "physics", "start": start, "end": end, "cpus": 1}
    return json.dumps([{"job": f"{i:040}", **one} for i in range(n)]).encode()


def table(n: int) -> bytes:
    """A policy of so many users."""
    return ("path,shares\n/physics,60\n" + "".join(f"/physics/user-{i:06},{i % 7}\n" for i in range(n))).encode()


def bearer(site: Site) -> Mapping[str, str]:
    scopes = ("policies:write", "policies:read", "usage:write")
    return {"authorization": f"Bearer {site.token(*scopes)}", "content-type": "application/json"}


@pytest.mark.deep
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("body", [table(12_000), gzip.compress(table(12_000))], ids=["plain", "packed"])
def test_a_large_policy_file_is_compared_and_proposed_as_in_the_web_process(committed_site: Site, body: bytes) -> None:
    processes = LargeBodies(environment=environment())
    asked, headers = "PUT /api/v1/policies/grid/document?format=csv", bearer(committed_site)
    try:
        here = Sent(Application(), f"{asked}&dry_run=true", body, headers)
        there = Sent(Application(large_bodies=processes), f"{asked}&dry_run=true", body, headers)
        assert there.json == here.json
        assert (here.status, here.json["counts"]["added"]) == (200, 12_000)
        assert len(processes._idle) == 1, "it was a process"
        assert not ChangeSet.objects.exclude(state=ChangeSet.State.PUBLISHED).exists()
        proposed = Sent(Application(large_bodies=processes), asked, body, headers)
        assert (proposed.status, proposed.json["counts"]) == (201, here.json["counts"])
        assert ChangeSet.objects.get(pk=proposed.json["change_set"]).state != ChangeSet.State.PUBLISHED
    finally:
        processes.end_idle()


@pytest.mark.django_db(transaction=True)
def test_of_a_process_killed_while_it_stores_nothing_is_stored_and_the_body_can_be_sent_again(
    committed_site: Site,
) -> None:
    asked, headers = PUSH, bearer(committed_site)
    n_before = Record.objects.count()
    killed = LargeBodies(environment=environment(**{FAULT: "usage.ingest.after_copy:kill"}))
    answer = Sent(Application(large_bodies=killed), asked, records(3_000), headers)
    assert (answer.status, answer.json["code"]) == (503, "interrupted")
    assert Record.objects.count() == n_before
    processes = LargeBodies(environment=environment())
    try:
        again = Sent(Application(large_bodies=processes), asked, records(3_000), headers)
    finally:
        processes.end_idle()
    assert (again.status, again.json["new"]) == (200, 3_000)
    assert Record.objects.count() == n_before + 3_000


@pytest.mark.django_db(transaction=True)
def test_a_body_with_garbage_behind_its_end_stores_nothing(committed_site: Site) -> None:
    processes = LargeBodies(environment=environment())
    headers = {**bearer(committed_site), "content-encoding": "gzip"}
    n_before = Record.objects.count()
    try:
        for body in (gzip.compress(records(6_000), 1) + b"garbage", gzip.compress(records(6_000), 1)[:-9]):
            answer = Sent(Application(large_bodies=processes), PUSH, body, headers)
            assert (answer.status, answer.json["code"]) == (400, "corrupt_gzip")
        assert len(processes._idle) == 1
    finally:
        processes.end_idle()
    assert Record.objects.count() == n_before


@pytest.mark.django_db(transaction=True)
def test_a_body_that_ends_in_the_middle_reaches_no_process(
    committed_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexpected(*_: object) -> None:
        raise AssertionError("a process is asked")

    monkeypatch.setattr(LargeBodies, "respond", unexpected)
    whole = records(3_000)
    application, headers = Application(large_bodies=LargeBodies()), bearer(committed_site)
    answer = Sent(application, PUSH, whole[:-1], headers, n_declared=len(whole))
    assert (answer.status, answer.json["code"]) == (400, "cut_short")


def test_a_sender_waits_for_its_own_requests_alone() -> None:
    """Six bodies of one person, whose client had gone away, held up another's push for 154 s."""
    bodies, order = LargeBodies(), []

    def second() -> None:
        with bodies.turn_of("ada"):
            order.append("second")

    waits = threading.Thread(target=second)
    with bodies.turn_of("ada"):
        waits.start()
        while bodies.n_of("ada") < 2:  # until it waits
            time.sleep(0)
        with pytest.raises(Refused) as refused, bodies.turn_of("ada"):
            order.append("third")
        with bodies.turn_of("ben"):
            order.append("ben")
        order.append("first")
    waits.join(30)
    assert order == ["ben", "first", "second"]
    assert (refused.value.status, refused.value.code, refused.value.retry_after_s) == (503, "busy", 60)
    assert (bodies.n_of("ada"), bodies.n_of("ben")) == (0, 0)


def test_a_sender_is_its_token_else_its_session_else_its_address(settings: Any) -> None:
    address = {"REMOTE_ADDR": "192.0.2.1"}
    session = {**address, "HTTP_COOKIE": f"a=b; {settings.SESSION_COOKIE_NAME}=s1"}
    requests = [
        address,
        session,
        {**session, "HTTP_AUTHORIZATION": "Bearer t1"},
        {**address, "HTTP_AUTHORIZATION": "Bearer t1"},
    ]
    names = [sender_of(each) for each in requests]
    assert (len(set(names)), names[2]) == (3, names[3])
    assert not any("t1" in name or "s1" in name for name in names)
