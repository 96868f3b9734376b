"""The schema is generated once per process; cached responses equal the first one, byte for byte."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.api import schema_view

ANSWERED = ("Content-Type", "Content-Disposition", "Vary", "Allow")


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_view, "_cache", {})


@pytest.mark.parametrize("accept", ["*/*", "application/vnd.oai.openapi+json"])
def test_a_cached_response_equals_the_first_one(client: Client, accept: str) -> None:
    first, second = (client.get("/api/v1/schema", headers={"accept": accept}) for _ in range(2))
    assert first.status_code == second.status_code == 200
    assert first.content == second.content
    assert [first[name] for name in ANSWERED] == [second[name] for name in ANSWERED]
    assert len(schema_view._cache) == 1


def test_media_types_are_cached_apart_and_unknown_parameters_are_not_cached(client: Client) -> None:
    yaml = client.get("/api/v1/schema")
    json = client.get("/api/v1/schema", headers={"accept": "application/vnd.oai.openapi+json"})
    assert yaml["Content-Type"] != json["Content-Type"]
    assert json.json()["openapi"]
    assert len(schema_view._cache) == 2
    for odd in ("?lang=xx", "?version=1"):
        assert client.get(f"/api/v1/schema{odd}").status_code == 200
    assert len(schema_view._cache) == 2
