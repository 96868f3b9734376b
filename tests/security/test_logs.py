"""Log lines name their request and run, as text and as JSON; the access log has patterns of addresses, no values."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.test import Client

from apps.core import clock
from apps.runs.models import Run
from apps.runs.services import work_due_runs
from fairshare_web.log_formats import JsonLines, TextLines
from fairshare_web.server.application import Application
from tests.rest_site import Caller
from tests.security.test_bodies import in_a_loop, scope
from tests.small_site import Site


@contextmanager
def logged(formatter: logging.Formatter, *, level: int = logging.INFO) -> Iterator[io.StringIO]:
    """What the process logs, as its handler writes it."""
    text, access = io.StringIO(), logging.getLogger("fairshare.access")
    handler = logging.StreamHandler(text)
    handler.setFormatter(formatter)
    before = access.level
    access.setLevel(level)
    logging.getLogger().addHandler(handler)
    try:
        yield text
    finally:
        logging.getLogger().removeHandler(handler)
        access.setLevel(before)


def lines_of(text: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.getvalue().splitlines()]


def ask(path: str, query: bytes = b"", **headers: str) -> int:
    """One request to the server itself."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    given = [(b"host", b"localhost"), *((name.replace("_", "-").encode(), v.encode()) for name, v in headers.items())]
    asked = scope(method="GET", headers=given, path=path, raw_path=path.encode(), query_string=query)
    in_a_loop(Application()(asked, receive, send))
    return int(sent[0]["status"])


def test_a_request_has_one_line_with_its_route_and_neither_path_nor_query() -> None:
    with logged(JsonLines()) as text:
        assert ask("/healthz", b"key=Sesame-1", x_request_id="asked-by-me") == 200
    [line] = lines_of(text)
    assert line.pop("duration_ms") > 0
    assert line.pop("message").startswith("GET /healthz 200 in ")
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "INFO",
        "logger": "fairshare.access",
        "request_id": "asked-by-me",
        "method": "GET",
        "route": "/healthz",
        "status": 200,
    }


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "status", "route"),
    [
        ("/api/v1/policies/secret-name/tree", 401, "/api/v1/policies/<slug:policy>/tree"),
        ("/static/none.css", 404, "/static/<path>"),
        ("/Sesame-1", 404, ""),
    ],
)
def test_the_route_is_the_pattern_of_an_address(path: str, status: int, route: str) -> None:
    with logged(JsonLines(), level=logging.INFO) as text:
        assert ask(path) == status
    [line] = [line for line in lines_of(text) if line["logger"] == "fairshare.access"]
    assert (line["route"], line["status"]) == (route, status)
    assert "Sesame-1" not in line["message"]


def test_without_the_setting_there_is_no_line() -> None:
    with logged(JsonLines(), level=logging.WARNING) as text:
        assert ask("/healthz") == 200
    assert text.getvalue() == ""


@pytest.mark.django_db(transaction=True)
def test_the_id_of_a_request_reaches_the_run_that_it_starts(site: Site) -> None:
    caller = Caller(user=site.admin)
    answer = caller.post("policies/grid/recompute", {}, x_request_id="from-the-portal")
    assert answer.status_code == 202, answer.content
    assert answer.headers["X-Request-Id"] == "from-the-portal"
    run = Run.objects.get(request_id="from-the-portal")
    with logged(JsonLines()) as text:
        work_due_runs(clock=clock.now, of_kinds=[run.kind])
    [line] = [line for line in lines_of(text) if line.get("request_id") == "from-the-portal"]
    assert (line["logger"], line["run_id"]) == ("fairshare.access", run.pk)
    assert (line["kind"], line["state"]) == (run.kind, "succeeded")


def test_a_traceback_is_one_field_of_json_and_text_names_the_request() -> None:
    def fail() -> None:
        try:
            raise ValueError("two\nlines")
        except ValueError:
            logging.getLogger("apps.example").exception("It failed")

    with logged(JsonLines()) as text:
        fail()
    [line] = lines_of(text)
    assert (line["message"], line["level"]) == ("It failed", "ERROR")
    assert line["traceback"].endswith("ValueError: two\nlines")
    with logged(TextLines()) as text:
        Client().get("/nowhere", headers={"x-request-id": "mine"})
    assert "Not Found: /nowhere (request mine)\n" in text.getvalue()
