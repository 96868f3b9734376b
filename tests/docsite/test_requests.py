"""Every request that the documentation writes as `METHOD /api/v1/… body` is sent unchanged on the sample grid."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from django.test import Client

from apps.core.code_paths import REPOSITORY
from apps.usage.parsers.registry import FORMATS
from tests.docsite.consoles import manage
from tests.instants import AT

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MORE = r"(?:\n\[.*|(?:\n +[\"{].*)+)?"  # a body continues in the next lines
_REQUEST = re.compile(rf"^(GET|POST|PUT|PATCH|DELETE)\s+(/api/v1/\S+)[^\S\n]*(.*{_MORE})$", re.MULTILINE)
_PERIOD = {
    "from=…": "from=2026-11-01T00:00:00Z",
    "to=…": "to=2026-11-20T00:00:00Z",
}  # the one placeholder of an address
_SCOPES = ("policies:read", "policies:write", "priorities:read", "usage:write", "self:read", "schedulers")


class Request(NamedTuple):
    """body: JSON, "" where the page gives none."""

    place: str
    method: str
    path: str
    body: str


def requests() -> Iterator[Request]:
    for page in PAGES:
        for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            for found in _REQUEST.finditer(block[1]):
                method, path, rest = found.groups()
                for placeholder, value in _PERIOD.items():
                    path = path.replace(placeholder, value)
                body = rest.strip() if rest.strip()[:1] in ("{", "[") else ""
                yield Request(f"{page.name}: {method} {path}", method, path, body)


@pytest.mark.deep
@pytest.mark.django_db(transaction=True)
def test_requests_of_the_guides_are_answered(sample_grid: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    client = Client(headers={"host": "127.0.0.1", "Authorization": f"Bearer {_token()}"})
    asked = list(requests())
    assert len(asked) > 8
    wrong = []
    for one in asked:
        answer = client.generic(one.method, one.path, one.body, content_type="application/json")
        text = b"".join(answer).decode(errors="replace")
        # The number of a snapshot is an example; how an old one is answered is what the page says beneath it.
        expected = 410 if "since=" in one.path else 200
        if answer.status_code != expected:
            wrong.append(f"{one.place} {one.body}\n  {answer.status_code}: {text[:500]}")
        elif one.path.endswith("usage/records?source=umea-slurm"):
            assert json.loads(text)["rejected"] == []
    assert not wrong, "\n".join(wrong)


def _token() -> str:
    scopes = [word for scope in _SCOPES for word in ("--scope", scope)]
    return manage(["create_token", "--user", "admin", *scopes], with_errors=False, status=0).strip()


_COMMAND = re.compile(r"^\.venv/bin/python manage\.py (.+)$", re.MULTILINE)
_JOBS = [{"id": "a", "group": "/climate/seasonal", "benefit": 1}]


@pytest.mark.deep
@pytest.mark.django_db(transaction=True)
def test_commands_on_files_of_the_reader_run(
    sample_grid: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those outside of consoles: their files are the reader's, here made."""
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.swf.gz").write_bytes(gzip.compress(FORMATS["swf"].sample.encode()))
    (tmp_path / "jobs.json").write_text(json.dumps(_JOBS))
    texts = [(REPOSITORY / "docs" / page).read_text(encoding="utf-8") for page in ("sources.md", "sam.md")]
    typed = [line for text in texts for block in _BLOCK.finditer(text) for line in _COMMAND.findall(block[1])]
    assert len(typed) > 2
    for line in typed:
        found = ""
        for command in line.split(" | "):
            words = shlex.split(command.removeprefix(".venv/bin/python manage.py "))
            found = manage(words, with_errors=False, stdin=found, status=0)
        assert found, line
