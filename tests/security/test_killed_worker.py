"""The import of a killed worker continues at once, though its lease would hold for minutes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from apps.cli.stack import processes
from tests.faults.conftest import FirstStart, first_start  # noqa: F401 - a fixture
from tests.faults.stack import Stack, eventually

LEASE_S = 600
N_RECORDS = 5_000
pytestmark = [
    pytest.mark.faults,
    pytest.mark.deep,  # tests/runs/test_holders.py shows the same without a stack
    pytest.mark.timeout(300),
    pytest.mark.skipif(not processes.CAN_SEE, reason="processes are named through /proc; run on Linux"),
]
ASK = """
from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.usage.services import NewImport, start_import
with open({path!r}, "rb") as file:
    new = NewImport(source_slug="killed", format="swf", file=file, file_name="jobs.swf", makes_source=True)
    made = start_import(new, at=now(), actor=COMMAND)
print("run", made.run_id)
"""


@pytest.fixture
def stack(first_start: FirstStart) -> Iterator[Stack]:  # noqa: F811 - a fixture
    stack = Stack(settings={"FAIRSHARE_TESTING": "1", "FAIRSHARE_LEASE_S": str(LEASE_S)}, like=first_start.var)
    stack.settings |= {"FAULT_FILE": str(stack.var / "fault"), "FAIRSHARE_SWEEP_S": "10"}
    try:
        stack.start()
        yield stack
    finally:
        stack.remove()


def attempts_and_state(stack: Stack, run_id: int) -> tuple[int, str]:
    try:
        with stack.connect() as session:
            row = session.execute("SELECT attempts, state FROM runs_run WHERE id = %s", [run_id]).fetchone()
    except psycopg.OperationalError:
        return 0, ""
    assert row is not None
    return row  # type: ignore[return-value]


@pytest.mark.fault("F1")
def test_the_import_of_a_killed_worker_is_resumed_without_waiting_for_its_lease(stack: Stack) -> None:
    log = stack.var / "jobs.swf"
    rows = (f"{n} {n} -1 600 2 -1 -1 -1 -1 -1 -1 1 {n % 50} {n % 7} -1 -1 1 -1 -1\n" for n in range(N_RECORDS))
    log.write_text("; UnixStartTime: 1132444805\n" + "".join(rows), encoding="ascii")
    fault = Path(stack.settings["FAULT_FILE"])
    fault.write_text("usage.import.after_ingest:kill", encoding="utf-8")
    run_id = int(stack.run(ASK.format(path=str(log))).split("run ")[1].split()[0])
    eventually(Path(f"{fault}.done").exists, "a worker dies")
    died = time.monotonic()
    eventually(lambda: attempts_and_state(stack, run_id)[0] == 2, "another worker takes the import")
    print(f"resumed {time.monotonic() - died:.1f} s after the worker died, with a lease of {LEASE_S} s")
    eventually(lambda: attempts_and_state(stack, run_id) == (2, "succeeded"), "the import is done")
    with stack.connect() as session:
        counted = session.execute("SELECT count(*), count(DISTINCT job) FROM usage_record").fetchone()
    assert counted == (N_RECORDS, N_RECORDS)
