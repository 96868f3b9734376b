"""With the database stopped, schedulers still get priorities, with their age; with it back, everything goes on."""

from __future__ import annotations

import json
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from apps.cli.stack import processes
from apps.cli.stack.paths import socket_dir
from apps.cli.stack.postgres import DATABASE, PORT, USER, PostgresServer
from tests.faults.stack import Stack, eventually

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not processes.CAN_SEE, reason="NOT TESTED: processes are looked at through /proc"),
]
LOOKUP = "api/v1/policies/nordgrid/priorities?account=kimberg"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    var = Path(tempfile.mkdtemp(prefix="fairshare-outage-"))
    server = PostgresServer(var)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(var, ignore_errors=True)


@pytest.fixture
def stack(server: PostgresServer) -> Iterator[Stack]:
    url = f"postgresql://{USER}@/{DATABASE}?host={quote(str(socket_dir(server.var)), safe='')}&port={PORT}"
    stack = Stack(sample=True, settings={"DATABASE_URL": url, "FAIRSHARE_TICK_S": "2"})
    stack.start()
    yield stack
    stack.remove()


def _answer(stack: Stack, path: str, token: str = "") -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(f"http://127.0.0.1:{stack.port}/{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        body = error.read()
        return error.code, json.loads(body) if body.startswith(b"{") else {}


def test_priorities_are_answered_from_memory_while_the_database_is_stopped(
    server: PostgresServer, stack: Stack
) -> None:
    token = stack.manage(
        "create_token", "--user", "admin", "--scope", "priorities:read", "--policy", "nordgrid"
    ).strip()
    eventually(lambda: _answer(stack, LOOKUP, token)[0] == 200, "priorities are served")
    _, before = _answer(stack, LOOKUP, token)
    assert before["results"][0]["entry"].endswith("/kimberg")

    server.stop()
    eventually(lambda: _answer(stack, "readyz")[0] == 503, "the outage is told")
    status, during = _answer(stack, LOOKUP, token)
    assert status == 200
    assert during["snapshot"] >= before["snapshot"]
    assert [row["entry"] for row in during["results"]] == [row["entry"] for row in before["results"]]
    eventually(lambda: _answer(stack, LOOKUP, token)[1]["age_s"] > during["age_s"], "the age grows")
    assert _answer(stack, "healthz")[0] == 200
    assert _answer(stack, "api/v1/policies", token)[0] in {401, 503}, "other answers are refused, not broken"
    assert _answer(stack, LOOKUP, "fsh_0000_unknown")[0] in {401, 503}

    server.start()
    eventually(lambda: _answer(stack, "readyz")[0] == 200, "ready again")
    eventually(
        lambda: _answer(stack, LOOKUP, token)[1].get("snapshot", 0) > during["snapshot"], "new snapshots are made"
    )
