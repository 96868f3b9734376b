"""SIGTERM while bodies arrive and requests are worked on: it ends soon, and nothing acknowledged is lost."""

from __future__ import annotations

import json
import signal
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from apps.cli.stack import definitions, supervisor
from tests.faults.conftest import FirstStart
from tests.faults.stack import eventually
from tests.faults.test_import_faults import write_log
from tests.security.conftest import Instance, start_instance
from tests.security.wire import ask, connect, dribbling, head, lookup, status

pytestmark = [pytest.mark.timeout(300), pytest.mark.deep]
N_RECORDS = 3_000
N_IMPORTED = 60_000
IMPORT = """
from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.usage.services import NewImport, start_import
with open({path!r}, "rb") as file:
    new = NewImport(source_slug="stopped", format="swf", file=file, file_name="jobs.swf", makes_source=True)
    made = start_import(new, at=now(), actor=COMMAND)
print("run", made.run_id)
"""
COUNTED = """
SELECT (SELECT count(*) FROM usage_record WHERE source_id = source.id),
    (SELECT count(DISTINCT job) FROM usage_record WHERE source_id = source.id), sum(jobs)
FROM usage_source AS source JOIN usage_bucket ON source_id = source.id WHERE slug = 'stopped' GROUP BY source.id
"""


def push(instance: Instance, name: str) -> bytes:
    times = {"submit": "2026-01-01T00:00:00Z", "start": "2026-01-01T00:00:00Z", "end": "2026-01-01T01:00:00Z"}
    body = json.dumps([{"job": f"{name}-{n}", "user": "alice", "cpus": 1, **times} for n in range(N_RECORDS)]).encode()
    token = f"Authorization: Bearer {instance.tokens['pusher']}"
    lines = (token, "Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close")
    return head("POST", "/api/v1/usage/records?source=cluster", *lines) + body


def stored(instance: Instance, name: str) -> int:
    with instance.stack.connect() as session:
        row = session.execute("SELECT count(*) FROM usage_record WHERE job LIKE %s", [f"{name}-%"]).fetchone()
    assert row is not None
    return int(str(row[0]))


@pytest.mark.fault("F30")
def test_a_stop_completes_started_requests(first_start: FirstStart) -> None:
    instance = start_instance(first_start)
    stack = instance.stack
    try:
        n_pushes = 6
        requests = {f"push{n}": push(instance, f"push{n}") for n in range(n_pushes)}
        half = push(instance, "half")[:100_000]
        with ThreadPoolExecutor(n_pushes) as pool, dribbling(instance.port, [half] * 4):
            answers: dict[str, Future[bytes]] = {
                name: pool.submit(ask, instance.port, request, 60.0) for name, request in requests.items()
            }
            eventually(lambda: any(stored(instance, name) for name in requests), "a push is stored")
            assert stack.signal(signal.SIGTERM) == 0
            acknowledged = {name for name, answer in answers.items() if _is_acknowledged(answer)}
        assert [each for each in stack.processes() if " shell " not in each.command] == []  # that one is this test
        stack.start()
        eventually(lambda: _looks_up(instance), "look-ups again")
        assert acknowledged, "none of the pushes that had begun was answered"
        for name in requests:
            n_stored = stored(instance, name)
            assert n_stored == N_RECORDS if name in acknowledged else n_stored in (0, N_RECORDS), name
        assert stored(instance, "half") == 0
        for name, request in {**requests, "half": push(instance, "half")}.items():
            assert status(ask(instance.port, request, 60.0)) == 200
            assert stored(instance, name) == N_RECORDS
        stack.assert_works()
    finally:
        stack.remove()


@pytest.mark.fault("F30")
def test_a_stop_during_an_import_releases_it_and_each_record_counts_once(first_start: FirstStart) -> None:
    """No attempt is counted: a worker that was killed, after the 28 s that it has, would have cost one."""
    instance = start_instance(first_start)
    stack = instance.stack
    try:
        log = stack.var / "jobs.swf"
        write_log(log, 0, N_IMPORTED)
        run_id = int(stack.run(IMPORT.format(path=str(log))).split("run ")[1].split()[0])
        eventually(lambda: state_of(instance, run_id)[2] > 0, "a part of the file is stored")
        assert stack.signal(signal.SIGTERM) == 0
        assert [each for each in stack.processes() if " shell " not in each.command] == []
        stack.start()
        eventually(lambda: state_of(instance, run_id)[0] == "succeeded", "the import is done")
        assert state_of(instance, run_id)[1] == 1, "one attempt, before and after the restart together"
        with stack.connect() as session:
            counted = session.execute(COUNTED).fetchone()
        assert counted == (N_IMPORTED, N_IMPORTED, float(N_IMPORTED))
    finally:
        stack.remove()


def test_the_stack_stops_within_30_seconds() -> None:
    assert definitions.STOP_S < supervisor.STOPPING_S <= 30


def state_of(instance: Instance, run_id: int) -> tuple[str, int, int]:
    """State, attempts and progress of a run."""
    with instance.stack.connect() as session:
        row = session.execute("SELECT state, attempts, progress_done FROM runs_run WHERE id = %s", [run_id]).fetchone()
    assert row is not None
    return str(row[0]), int(str(row[1])), int(str(row[2]))


def _is_acknowledged(answer: Future[bytes]) -> bool:
    try:
        return answer.result(60).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def _looks_up(instance: Instance) -> bool:
    with connect(instance.port) as connection:
        connection.sendall(lookup(instance.tokens["reader"]))
        return connection.recv(12) == b"HTTP/1.1 200"
