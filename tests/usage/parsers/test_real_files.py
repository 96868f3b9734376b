"""Every accounting file at hand comes in with exact counts, and with the totals and shares that are printed beside it.

The LCG log has tests of its own (test_import_lcg.py); of OGF usage records and APEL messages there is no real file.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.db import connection

from apps.accounts.actor import COMMAND
from apps.runs.services import work_run_now
from apps.usage.models import Import, Record, Source
from apps.usage.services import NewImport, start_import
from tests.instants import AT

SLURM = "slurm/samples/"

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Expected:
    """What a file holds: `lines` read, `states` of the records stored, `rejected` by code; cpu_h of what is over."""

    path: str
    format: str
    lines: int
    states: dict[str, int]
    cpu_h: float
    rejected: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    shares: dict[str, dict[str, float]] = field(default_factory=dict)  # by group_name or user_name
    zone: str = ""
    corrected: int = 0  # records that a later line of the file replaces
    duplicate: int = 0
    digits: int = 0  # of the printed core-hours

    @property
    def records(self) -> int:
        return sum(self.states.values())


_SACCT = {"finished": 32, "running": 1, "pending": 3, "withdrawn": 3}

FILES = (
    Expected(
        "NASA-iPSC-1993-3.1-cln.swf.gz",
        "swf",
        18_271,
        {"finished": 18_239},
        131_733,
        shares={
            "user_name": {"4": 0.3617, "2": 0.1576, "7": 0.1125, "1": 0.0611},
            "group_name": {"1": 0.9846, "2": 0.0154},
        },
    ),
    Expected(
        "SDSC-SP2-1998-first4961.swf.gz",
        "swf",
        5_000,
        {"finished": 4_961},
        107_666,
        shares={"group_name": {"75": 0.3503, "6": 0.1584, "50": 0.1264, "22": 0.0854, "74": 0.0450, "20": 0.0443}},
    ),
    Expected(
        "HPC2N-2002-first3171.swf.gz",
        "swf",
        3_194,
        {"finished": 3_170},
        139_904,
        shares={"user_name": {"1": 0.4795, "4": 0.2562, "5": 0.1603, "8": 0.0388}},
    ),
    Expected(
        "CERIT-wagap-2013.alea-swf.gz",
        "swf",
        17_900,
        {"finished": 17_900},
        2_679_793,
        shares={"user_name": {"62": 0.1276, "836": 0.0980, "239": 0.0899, "1242": 0.0868}},
    ),
    Expected(
        "OpenPBS-pbslog-anon.log.gz",
        "pbs",
        656,
        {"finished": 200},
        197.5725,
        notes={"other_events_skipped": 54},
        shares={"user_name": {"user01": 0.3781, "user02": 0.6219}},
        corrected=400,
        digits=4,
    ),
    Expected(
        "gridengine/samples/accounting",
        "gridengine",
        17,
        {"finished": 13},
        93 / 3600,
        shares={"user_name": {"gea": 0.4839, "geb": 0.4516, "gec": 0.0323, "ged": 0.0323}},
        digits=6,
    ),
    Expected(
        "sacct-parsable-slurm2110.log.gz",
        "sacct",
        8,
        {"finished": 1},
        0.031111,
        duplicate=4,
        zone="America/New_York",
        notes={"bars_in_text": 5, "steps_skipped": 2},
        digits=6,
    ),
    Expected(
        "sacct-parsable-slurm2101.log.gz",
        "sacct",
        16,
        {"finished": 6, "withdrawn": 6},
        15_296.569444,
        rejected={"too_few_fields": 1},
        zone="America/New_York",
        digits=6,
        notes={"bars_in_text": 4, "steps_skipped": 2, "never_started": 6},
    ),
    Expected(
        "sacct-multiline-submitline.log.gz",
        "sacct",
        19,
        {"finished": 2},
        1_536.031111,
        duplicate=4,
        zone="America/New_York",
        notes={"bars_in_text": 5, "lines_joined": 1, "steps_skipped": 7},
        digits=6,
    ),
    Expected(
        SLURM + "sacct-P.txt",
        "sacct",
        73,
        _SACCT,
        0.425556,
        zone="UTC",
        digits=6,
        notes={"steps_skipped": 33, "never_started": 3, "arrays_waiting": 1},
    ),
    Expected(SLURM + "sacct-X-P.txt", "sacct", 40, _SACCT, 0.425556, zone="UTC", digits=6),
    Expected(SLURM + "sacct-X-P-epoch-noheader.txt", "sacct", 39, _SACCT, 0.425556, digits=6),
    Expected(
        SLURM + "sacct-X-P-more.txt",
        "sacct",
        40,
        _SACCT,
        0.425556,
        zone="UTC",
        digits=6,
        notes={"bars_in_text": 5, "never_started": 3, "arrays_waiting": 1},
    ),
    Expected(SLURM + "sacct-X-p-trailing-bar.txt", "sacct", 4, {"finished": 3}, 0.010556, zone="UTC", digits=6),
    Expected(
        SLURM + "sacct.json",
        "sacct-json",
        4,
        {"finished": 1, "running": 1, "pending": 2},
        0.002778,
        digits=6,
    ),
    Expected(
        SLURM + "slurmrestd-slurmdb-v0.0.38-jobs.json",
        "sacct-json",
        6,
        {"finished": 3, "running": 1, "pending": 2},
        0.005,
        digits=6,
    ),
)


def import_file(path: Path, zone: str) -> Import:
    with path.open("rb") as file:
        made = start_import(
            NewImport(source_slug="cluster", format="auto", file=file, file_name=path.name, time_zone=zone),
            at=AT,
            actor=COMMAND,
        )
    run = work_run_now(made.run_id)
    assert run.state == "succeeded", run.error
    return Import.objects.select_related("run").get(pk=made.pk)


def rows(sql: str) -> list[tuple[str, float]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        found: list[tuple[str, float]] = cursor.fetchall()
        return found


def shares_by(column: str) -> dict[str, float]:
    return dict(
        rows(
            f"SELECT {column}, sum(cpu_s) / (SELECT sum(cpu_s) FROM usage_bucket) FROM usage_bucket"  # noqa: S608
            " JOIN accounts_account AS account ON account.id = account_id GROUP BY 1"
        )
    )


@pytest.fixture
def path(expected: Expected, request: pytest.FixtureRequest) -> Path:
    """Logs of other sites lie beside the checkout; what was measured for this project is part of it."""
    folder: Path = request.getfixturevalue("golden_dir" if "/" in expected.path else "traces_dir")
    return folder / expected.path


@pytest.mark.parametrize("expected", FILES, ids=lambda expected: expected.path.rpartition("/")[2])
def test_a_real_file_has_exact_counts_and_a_second_import_changes_nothing(
    path: Path, source: Source, expected: Expected
) -> None:
    done = import_file(path, expected.zone)
    assert done.format == expected.format
    counts = done.run.counts
    assert (counts["new"], counts["corrected"], counts["late"]) == (expected.records, expected.corrected, 0)
    assert counts["duplicate"] == expected.duplicate
    assert counts["rejected"] == sum(expected.rejected.values())
    assert Counter(done.rejected_lines.values_list("code", flat=True)) == expected.rejected
    assert Counter(Record.objects.values_list("state", flat=True)) == expected.states
    assert round(done.run.result["cpu_s"] / 3600, expected.digits) == round(expected.cpu_h, expected.digits)
    assert counts["lines"] == expected.lines
    if expected.notes:
        assert done.run.result["notes"] == expected.notes
    for column, printed in expected.shares.items():
        found = shares_by(column)
        assert {name: round(found[name], 4) for name in printed} == printed

    again = import_file(path, expected.zone)
    assert (again.run.counts["new"], again.run.counts["corrected"]) == (0, 0)
    assert again.run.result["cpu_s"] == 0


NAMED = {expected.path.rpartition("/")[2] for expected in FILES}


def test_every_accounting_sample_is_covered(golden_dir: Path) -> None:
    """A new file in this folder fails this test until its contents are listed."""
    samples = {path.name for path in (golden_dir / SLURM).glob("sacct[.-]*")}
    assert samples
    assert samples <= NAMED


def test_every_available_trace_is_covered(traces_dir: Path) -> None:
    traces = {path.name for path in traces_dir.glob("*.gz") if not path.name.startswith("ubhpc-")}
    assert traces
    assert traces - {"LCG-2005-1.swf.gz"} <= NAMED
