"""The description is written once a process; later answers are the same, byte for byte."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.api import description

ANSWERED = ("Content-Type", "Content-Disposition", "Vary", "Allow")


@pytest.fixture(autouse=True)
def _nothing_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "_kept", {})


@pytest.mark.parametrize("accept", ["*/*", "application/vnd.oai.openapi+json"])
def test_what_is_kept_is_answered_like_what_was_written(client: Client, accept: str) -> None:
    first, second = (client.get("/api/v1/schema", headers={"accept": accept}) for _ in range(2))
    assert first.status_code == second.status_code == 200
    assert first.content == second.content
    assert [first[name] for name in ANSWERED] == [second[name] for name in ANSWERED]
    assert len(description._kept) == 1


def test_formats_are_kept_apart_and_odd_questions_are_not_kept(client: Client) -> None:
    yaml = client.get("/api/v1/schema")
    json = client.get("/api/v1/schema", headers={"accept": "application/vnd.oai.openapi+json"})
    assert yaml["Content-Type"] != json["Content-Type"]
    assert json.json()["openapi"]
    assert len(description._kept) == 2
    for odd in ("?lang=xx", "?version=1"):
        assert client.get(f"/api/v1/schema{odd}").status_code == 200
    assert len(description._kept) == 2
