"""Imports survive whatever dies beside them: every record counts once, without manual help.

FAIRSHARE_FAULT_RECORDS says how many records each import has: 20,000 beside all other tests, a million in
`make test-faults`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from apps.cli.stack import processes
from tests.faults.conftest import FirstStart
from tests.faults.stack import PATIENCE_S, Stack, eventually

N_RECORDS = int(os.environ.get("FAIRSHARE_FAULT_RECORDS", "20000"))
LEASE_S = 3
RESUMED_WITHIN_S = 60.0
IMPORTED_WITHIN_S = PATIENCE_S + N_RECORDS / 5_000
N_CORRECTED = N_RECORDS // 100
_BYTES = 16 * 1024**2  # several pieces, however few the records

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not processes.CAN_SEE, reason="processes are watched through /proc; run on Linux"),
]


class Totals(NamedTuple):
    """What a source holds."""

    n_records: int
    n_different: int
    n_counted: int
    cpu_s: float
    jobs: float


def _run_s(job: int) -> int:
    return 600 + job % 5000


def write_log(path: Path, first: int, last: int, *, corrected: int = 0) -> None:
    """Jobs with these numbers; the first ones come again at the end, a second longer."""
    padding = " " * max(0, _BYTES // (last - first) - 60)
    line = "{0} {1} -1 {2} {3} -1 -1 -1 -1 " + padding + "-1 1 {4} {5} -1 -1 1 -1 -1\n"
    with path.open("w", encoding="ascii") as log:
        log.write("; UnixStartTime: 1132444805\n")
        for longer, jobs in ((0, range(first, last)), (1, range(first, first + corrected))):
            for job in jobs:
                log.write(line.format(job, job % 2_000_000, _run_s(job) + longer, 1 + job % 3, job % 50, job % 7))


def _expected(first: int, last: int, *, corrected: int = 0) -> Totals:
    cpu_s = sum((1 + job % 3) * _run_s(job) for job in range(first, last))
    cpu_s += sum(1 + job % 3 for job in range(first, first + corrected))
    n = last - first
    return Totals(n, n, n, float(cpu_s), float(n))


@pytest.fixture(scope="module")
def stack(first_start: FirstStart) -> Iterator[Stack]:
    stack = Stack(settings={"FAIRSHARE_TESTING": "1", "FAIRSHARE_LEASE_S": str(LEASE_S)}, like=first_start.var)
    stack.settings["FAULT_FILE"] = str(stack.var / "fault")
    try:
        stack.start()
        yield stack
    finally:
        for pid in _frozen(stack):
            processes.send(pid, signal.SIGCONT)
        stack.remove()


@pytest.fixture(scope="module")
def log(stack: Stack) -> Path:
    path = stack.var / "jobs.swf"
    write_log(path, 0, N_RECORDS, corrected=N_CORRECTED)
    return path


ASK = """
from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.usage.services import NewImport, start_import
for slug, path in {asked!r}:
    with open(path, "rb") as file:
        new = NewImport(source_slug=slug, format="swf", file=file, file_name="jobs.swf", all_or_nothing={whole!r},
            makes_source=True)
        made = start_import(new, at=now(), actor=COMMAND)
    print("run", made.run_id, made.pk)
"""


def _ask(stack: Stack, *asked: tuple[str, Path], whole: bool = False) -> list[tuple[int, int]]:
    """Imports that the stack's own workers will do: (run, import)."""
    done = stack.run(ASK.format(asked=[(slug, str(path)) for slug, path in asked], whole=whole))
    return [(int(line.split()[1]), int(line.split()[2])) for line in done.splitlines() if line.startswith("run ")]


def _arm(stack: Stack, fault: str) -> None:
    for left in (Path(stack.settings["FAULT_FILE"]), _done(stack)):
        left.unlink(missing_ok=True)
    Path(stack.settings["FAULT_FILE"]).write_text(fault, encoding="utf-8")


def _done(stack: Stack) -> Path:
    return Path(stack.settings["FAULT_FILE"] + ".done")


def _run(stack: Stack, run_id: int) -> dict[str, Any]:
    columns = ("state", "attempts", "counts", "progress_done", "progress_total", "error")
    try:
        with stack.connect() as session:
            query = f"SELECT {', '.join(columns)} FROM runs_run WHERE id = %s"  # noqa: S608 - constants only
            row = session.execute(query.encode(), [run_id]).fetchone()
    except psycopg.OperationalError:
        return dict.fromkeys(columns)
    assert row is not None
    return dict(zip(columns, row, strict=True))


def _succeeds(stack: Stack, run_id: int) -> dict[str, Any]:
    def has_ended() -> bool:
        found = _run(stack, run_id)
        assert found["state"] not in ("failed", "cancelled"), found
        return bool(found["state"] == "succeeded")

    eventually(has_ended, f"run {run_id} is done", IMPORTED_WITHIN_S, lambda: f"{_run(stack, run_id)}")
    return _run(stack, run_id)


def _totals(stack: Stack, slug: str) -> Totals:
    query = """
        SELECT (SELECT count(*) FROM usage_record WHERE source_id = source.id),
            (SELECT count(DISTINCT job) FROM usage_record WHERE source_id = source.id), source.n_records,
            COALESCE(sum(cpu_s), 0), COALESCE(sum(jobs), 0)
        FROM usage_source AS source LEFT JOIN usage_bucket ON source_id = source.id
        WHERE slug = %s GROUP BY source.id"""
    with stack.connect() as session:
        row = session.execute(query, [slug]).fetchone()
    assert row is not None
    return Totals(*row)  # type: ignore[arg-type]


def _is_taken_again(stack: Stack, run_id: int) -> bool:
    return int(_run(stack, run_id)["attempts"] or 0) > 1


def _frozen(stack: Stack) -> list[int]:
    found = []
    for pid in stack.pids():
        try:
            status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found += [pid] if status and status[0] == "T" else []
    return found


PLACES = ["usage.ingest.before_commit:kill:3"]
# At these tests/usage/records/test_imports.py kills a process, without the whole stack.
DEEP_PLACES = [
    "usage.ingest.after_replacing:kill",
    "usage.import.after_ingest:kill",
    "usage.ingest.after_keys:kill:2",
    "usage.ingest.after_copy:kill:2",
    "usage.ingest.after_buckets:kill:2",
    "usage.import.after_commit:kill:2",
    "usage.import.before_finish:kill",
]


@pytest.mark.parametrize("fault", [*PLACES, *(pytest.param(place, marks=pytest.mark.deep) for place in DEEP_PLACES)])
@pytest.mark.fault("F1")
def test_a_worker_killed_anywhere_is_replaced_and_the_import_is_exact(
    stack: Stack, log: Path, fault: str, figure: Callable[[str, float, str], None]
) -> None:
    slug = fault.split(":", maxsplit=1)[0].replace(".", "-")
    _arm(stack, fault)
    [(run_id, _)] = _ask(stack, (slug, log))
    eventually(_done(stack).exists, f"a worker dies at {fault}", IMPORTED_WITHIN_S, lambda: f"{_run(stack, run_id)}")
    died = time.monotonic()
    eventually(lambda: _is_taken_again(stack, run_id), "another worker takes the import", RESUMED_WITHIN_S)
    figure("resumed after", time.monotonic() - died, "s")
    run = _succeeds(stack, run_id)
    assert run["attempts"] == 2
    assert (run["counts"]["new"], run["counts"]["corrected"]) == (N_RECORDS, N_CORRECTED)
    assert run["counts"]["duplicate"] == run["counts"]["rejected"] == 0
    assert run["progress_done"] == run["progress_total"]
    assert _totals(stack, slug) == _expected(0, N_RECORDS, corrected=N_CORRECTED)


@pytest.mark.deep
@pytest.mark.fault("F3")
def test_an_import_continues_after_a_killed_database(stack: Stack, log: Path) -> None:
    _arm(stack, "usage.ingest.after_copy:stop:2")
    [(run_id, _)] = _ask(stack, ("database", log))
    eventually(lambda: bool(_frozen(stack)), "a worker stands still in the middle", IMPORTED_WITHIN_S)
    for pid in stack.roles()["postgres"]:
        processes.send(pid, signal.SIGKILL)
    for pid in _frozen(stack):
        processes.send(pid, signal.SIGCONT)
    eventually(stack.answers, "the database is back", describe=stack.described)
    run = _succeeds(stack, run_id)
    assert run["counts"]["new"] == N_RECORDS
    assert _totals(stack, "database") == _expected(0, N_RECORDS, corrected=N_CORRECTED)


@pytest.mark.fault("F15")
def test_a_frozen_worker_is_fenced_off_when_it_wakes(
    stack: Stack, log: Path, figure: Callable[[str, float, str], None]
) -> None:
    _arm(stack, "usage.ingest.before_commit:stop:2")
    [(run_id, _)] = _ask(stack, ("frozen", log))
    eventually(lambda: bool(_frozen(stack)), "a worker freezes", IMPORTED_WITHIN_S)
    frozen, froze = _frozen(stack), time.monotonic()
    eventually(lambda: _is_taken_again(stack, run_id), "another worker takes over", RESUMED_WITHIN_S)
    figure(f"taken over after, with a lease of {LEASE_S} s", time.monotonic() - froze, "s")
    _succeeds(stack, run_id)
    expected = _expected(0, N_RECORDS, corrected=N_CORRECTED)
    assert _totals(stack, "frozen") == expected
    for pid in frozen:
        processes.send(pid, signal.SIGCONT)
    eventually(lambda: not _frozen(stack), "it goes on")
    stack.assert_works()
    assert _totals(stack, "frozen") == expected
    assert _run(stack, run_id)["attempts"] == 2


@pytest.mark.deep
@pytest.mark.fault("F14")
def test_a_lost_broker_loses_nothing(stack: Stack, log: Path) -> None:
    broker = stack.var / "broker"
    broker.rename(stack.var / "broker.away")
    try:
        [(run_id, _)] = _ask(stack, ("broker", log))
        assert _run(stack, run_id)["attempts"] in (0, 1)
    finally:
        for path in (stack.var / "broker.away").glob("*/*"):
            path.unlink(missing_ok=True)  # what was in it is lost
        if not broker.exists():
            (stack.var / "broker.away").rename(broker)
    assert _succeeds(stack, run_id)["counts"]["new"] == N_RECORDS
    assert _totals(stack, "broker") == _expected(0, N_RECORDS, corrected=N_CORRECTED)


@pytest.mark.deep
@pytest.mark.fault("F5")
def test_overlapping_files_by_several_workers_count_each_record_once(stack: Stack) -> None:
    third = N_RECORDS // 3
    parts = [(0, 2 * third), (third, N_RECORDS), (0, N_RECORDS)]
    files = []
    for number, (first, last) in enumerate(parts):
        files.append(stack.var / f"part{number}.swf")
        write_log(files[-1], first, last)
    asked = _ask(stack, *(("overlapping", path) for path in files), *(("beside", path) for path in files[:2]))
    counts = [_succeeds(stack, run_id)["counts"] for run_id, _ in asked]
    assert sum(one["new"] for one in counts[:3]) == sum(one["new"] for one in counts[3:]) == N_RECORDS
    assert sum(one["new"] + one["duplicate"] for one in counts[:3]) == sum(last - first for first, last in parts)
    assert _totals(stack, "overlapping") == _totals(stack, "beside") == _expected(0, N_RECORDS)


@pytest.mark.deep
def test_an_undo_killed_in_the_middle_leaves_nothing_of_the_import(stack: Stack, log: Path) -> None:
    [(run_id, import_id)] = _ask(stack, ("undone", log))
    _succeeds(stack, run_id)
    _arm(stack, "usage.undo.after_commit:kill")
    code = f"""
from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.usage.records.undo import undo_import
print("run", undo_import(import_id={import_id}, at=now(), actor=COMMAND).undone_run_id)
"""
    undo_id = int(stack.run(code).split("run ")[1].split()[0])
    eventually(_done(stack).exists, "a worker dies", IMPORTED_WITHIN_S)
    assert _succeeds(stack, undo_id)["attempts"] == 2
    assert _totals(stack, "undone") == Totals(0, 0, 0, 0.0, 0.0)


@pytest.mark.deep
def test_after_all_faults_every_bucket_is_the_sum_of_its_records(stack: Stack) -> None:
    """Millions of records by now: each is added up once more."""
    assert "every bucket is the sum of its records" in stack.manage("check_usage", patience_s=600)
