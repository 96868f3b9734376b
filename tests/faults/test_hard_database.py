"""A full volume of the database, and one that answers after seconds: bounded refusals, then work goes on."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from apps.cli.sample.grid import POLICY_SLUG, SOURCE
from apps.cli.stack import processes
from apps.cli.stack.paths import socket_dir
from apps.cli.stack.postgres import DATABASE, PORT, USER, PostgresServer
from tests.faults.conftest import FirstStart
from tests.faults.stack import Stack, copy_instance, eventually
from tests.faults.test_outage import TOKEN, ask, look_up, sign_in, status_of

pytestmark = [
    pytest.mark.deep,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not processes.CAN_SEE, reason="processes are watched through /proc; run on Linux"),
]
PUSH = TOKEN.replace('"priorities:read"', '"usage:write"')
N_BATCH = 2_000


@pytest.fixture
def volume() -> Iterator[Path]:
    """A file system of its own, of 400 MB."""
    place = Path(tempfile.mkdtemp(prefix="fairshare-volume-"))
    options = ["-t", "tmpfs", "-o", "size=400m,mode=755", "tmpfs", str(place)]
    done = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if done.returncode:
        place.rmdir()
        pytest.skip(f"no volume can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
        place.rmdir()


def push(stack: Stack, token: str, batch: int) -> tuple[int, dict[str, Any]]:
    """Status and answer of one batch of finished jobs; the same batch has the same keys."""
    day = {"start": "2026-03-01T08:00:00Z", "end": "2026-03-01T10:00:00Z", "cpus": 1}
    rows = [{"job": f"full-{batch}-{n}", "user": "filler", **day} for n in range(N_BATCH)]
    request = urllib.request.Request(
        f"http://127.0.0.1:{stack.port}/api/v1/usage/records?source={SOURCE}",
        data=json.dumps(rows).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return int(answer.status), json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def fill(volume: Path) -> Path:
    filler = volume / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(64 * 1024)):
            pass
    return filler


@pytest.mark.fault("F21")
def test_a_full_volume_of_the_database_refuses_writes_and_recovers(first_start: FirstStart, volume: Path) -> None:
    stack = Stack(sample=True, settings={"FAIRSHARE_TICK_S": "5"}, like=first_start.var, place=volume)
    try:
        stack.start()
        reader, writer = stack.run(TOKEN).strip(), stack.run(PUSH).strip()
        account = json.loads(ask(stack, reader, "priorities/all").splitlines()[0])["account"]
        accepted = [0]
        assert push(stack, writer, 0)[1]["new"] == N_BATCH
        filler = fill(volume)
        refused: tuple[int, dict[str, Any]] | None = None
        for batch in range(1, 60):
            status, answer = push(stack, writer, batch)
            if status != 200:
                refused = status, answer
                break
            accepted.append(batch)
        assert refused is not None, "a full volume takes no records"
        assert refused[0] in (503, 507), refused
        assert refused[1]["code"], refused
        assert look_up(stack, reader, account)["results"][0]["factor"] is not None
        filler.unlink()
        eventually(stack.answers, "/readyz says 200 again", describe=stack.described)
        for batch in accepted:
            assert push(stack, writer, batch)[1]["duplicate"] == N_BATCH, "what was accepted is there, once"
        last = accepted[-1] + 1
        again = push(stack, writer, last)[1]
        assert again["new"] + again["duplicate"] == N_BATCH
        assert again["new"] in (0, N_BATCH), "all of a batch or none of it"
        assert push(stack, writer, last)[1]["duplicate"] == N_BATCH
        stack.assert_works()
    finally:
        stack.remove()


class SlowProxy:
    """Passes connections on to a socket; `delay_s` before each piece that the server sends."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.delay_s = 0.0
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(self._path)
                except OSError:
                    client.close()
                    continue
                threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while piece := source.recv(65_536):
                if is_answer and self.delay_s:
                    time.sleep(self.delay_s)  # the fault itself
                target.sendall(piece)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def slow(first_start: FirstStart) -> Iterator[tuple[Stack, SlowProxy]]:
    home = Path(tempfile.mkdtemp(prefix="fs-slow-"))
    copy_instance(first_start.var, home)
    server = PostgresServer(home)
    server.start()
    proxy = SlowProxy(str(socket_dir(home) / f".s.PGSQL.{PORT}"))
    url = f"postgres://{USER}@127.0.0.1:{proxy.port}/{DATABASE}"
    stack = Stack(sample=True, settings={"DATABASE_URL": url, "FAIRSHARE_TICK_S": "5"}, like=first_start.var)
    try:
        stack.start()
        yield stack, proxy
    finally:
        proxy.delay_s = 0.0
        stack.remove()
        proxy.close()
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.fault("F28")
def test_a_database_that_answers_after_seconds_slows_no_look_up(slow: tuple[Stack, SlowProxy]) -> None:
    stack, proxy = slow
    token, cookie = stack.run(TOKEN).strip(), sign_in(stack)
    account = json.loads(ask(stack, token, "priorities/all").splitlines()[0])["account"]
    page = f"policy/{POLICY_SLUG}/"
    assert status_of(stack, page, Cookie=cookie) == 200
    proxy.delay_s = 2.0
    with ThreadPoolExecutor(40) as readers:
        pages = [readers.submit(_status_or_none, stack, page, cookie) for _ in range(40)]
        for _ in range(20):
            assert stack.answers("healthz"), "alive, though not ready"
            assert look_up(stack, token, account)["results"][0]["factor"] is not None
        assert {each.result() for each in pages} <= {200, 503}
    proxy.delay_s = 0.0
    eventually(stack.answers, "/readyz says 200 again", describe=stack.described)
    eventually(lambda: status_of(stack, page, Cookie=cookie) == 200, "pages are served again")


def _status_or_none(stack: Stack, page: str, cookie: str) -> int | None:
    """None: no answer within five minutes."""
    request = urllib.request.Request(f"http://127.0.0.1:{stack.port}/{page}", headers={"Cookie": cookie})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except TimeoutError:
        return None
