"""The OpenAPI description is made once, kept for the release, and sent from memory with an ETag."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from django.conf import LazySettings
from django.test import Client

from apps.cli.stack.prepare import describe_api
from apps.web.rest import schema as schema_view
from apps.web.rest.schema import schema_file
from tests.rest_site import refused

JSON = {"accept": "application/vnd.oai.openapi+json"}


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch, settings: LazySettings, tmp_path: Path) -> list[str]:
    """A process that has just started, in an empty directory; what it makes."""
    settings.VAR = tmp_path
    monkeypatch.setattr(schema_view, "_tags", {})
    found: list[str] = []
    make = schema_view.make_schema

    def counted(suffix: str) -> bytes:
        found.append(suffix)
        return make(suffix)

    monkeypatch.setattr(schema_view, "make_schema", counted)
    return found


@pytest.mark.deep
def test_each_schema_format_is_generated_once(client: Client, made: list[str]) -> None:
    first = client.get("/api/v1/schema")
    content = first.getvalue()
    assert client.get("/api/v1/schema").getvalue() == content
    as_json = client.get("/api/v1/schema", headers=JSON).getvalue()
    assert as_json == schema_view.make_schema("json")
    assert yaml.load(content, Loader=yaml.CSafeLoader) == orjson.loads(as_json)
    assert made == ["yaml", "json", "json"]  # the last one by this test


def test_the_document_and_its_page_refuse_query_parameters(client: Client, made: list[str]) -> None:
    for path in ("/api/v1/schema", "/api/v1/docs"):
        for query in ("lang=de", "version=1", "format=json"):
            assert refused(client.get(f"{path}?{query}"))[:2] == (400, "unknown_field")
    assert made == []


def test_an_up_to_date_schema_is_304(client: Client) -> None:
    first = client.get("/api/v1/schema", headers=JSON)
    again = client.get("/api/v1/schema", headers={**JSON, "if-none-match": first["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    assert "Content-Type" not in again
    assert "public" in first["Cache-Control"]


@pytest.mark.deep
def test_the_stack_generates_the_schema_for_the_web_processes(client: Client, made: list[str]) -> None:
    asked = client.get("/api/v1/schema", headers=JSON).getvalue()
    shutil.rmtree(schema_file("json").parent)
    schema_view._tags.clear()
    made.clear()
    describe_api()
    stamps = {suffix: schema_file(suffix).stat().st_mtime_ns for suffix in ("yaml", "json")}
    assert client.get("/api/v1/schema", headers=JSON).getvalue() == asked == schema_file("json").read_bytes()
    assert made == []
    describe_api()  # a second start of the same release
    assert {suffix: schema_file(suffix).stat().st_mtime_ns for suffix in stamps} == stamps


def test_while_one_process_generates_it_others_get_503(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    begun, go_on, calls = threading.Event(), threading.Event(), []

    def slow(suffix: str) -> bytes:
        calls.append(suffix)
        begun.set()
        assert go_on.wait(30)
        return b"{}"

    monkeypatch.setattr(schema_view, "make_schema", slow)
    with ThreadPoolExecutor(1) as pool:
        first: Any = pool.submit(Client().get, "/api/v1/schema", headers=JSON)
        assert begun.wait(30)
        answers = [client.get("/api/v1/schema", headers=JSON) for _ in range(20)]
        go_on.set()
        assert first.result().getvalue() == b"{}"
    assert {refused(answer)[:2] for answer in answers} == {(503, "being_made")}
    assert all("Retry-After" in answer for answer in answers)
    assert client.get("/api/v1/schema", headers=JSON).getvalue() == b"{}"
    assert calls == ["json"]
