"""Logs of PBS: what a run held counts once, from one file, from daily files in any order, and read again."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.actor import COMMAND, SYSTEM
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Bucket, Import, Record, RunLine, Source, UnclearJob
from apps.usage.open_jobs import known_until_s
from apps.usage.parsers.base import Reading
from apps.usage.parsers.pbs import Pbs
from apps.usage.quality.findings import count_unclear
from apps.usage.records import stored_runs
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.undo import undo_import
from apps.usage.services import NewImport, NewSource, make_source, start_import
from apps.usage.sources.merging import merge_sources

pytestmark = pytest.mark.django_db
AT = datetime(2027, 1, 2, tzinfo=UTC)
CPU_S = {
    "501.cl1": 16 * (2 + 3 + 2) * 3600,
    "501.cl2": 16 * 29 * 3600,
    "502.cl1": (96 * 12 + 64 * 12 + 32 * 18) * 3600,
    "503.cl1": 8 * (24 + 24) * 3600,
    "504.cl1": 4 * (2 + 24) * 3600,
    "505.cl1": 2 * 24 * 3600,
    "506.cl1": 12 * 24 * 3600,
    "507.cl1": 10 * 24 * 3600,
    "508.cl1": (40 * 1 + 30 * 23) * 3600,
    "509.cl1": 20 * 2 * 3600,
}


@pytest.fixture
def days(golden_dir: Path) -> list[str]:
    """The log, day by day."""
    text = (golden_dir / "field" / "p01_runs.acct").read_text(encoding="utf-8").splitlines(keepends=True)
    return ["".join(group) for _, group in itertools.groupby(text, key=lambda line: line[:10])]


def ingest(source: Source, text: str, *, zone: str = "UTC") -> int:
    """Number of lines that no run explains."""
    n_unexplained = 0
    for piece in Pbs().parse(io.BytesIO(text.encode()), Reading(AT, ZoneInfo(zone))):
        assert piece.rejections == []
        n_unexplained += ingest_batch(source=source, rows=piece.batch, at=AT).notes.get("lines_unexplained", 0)
    return n_unexplained


def cpu_s() -> dict[str, float]:
    """By job, of what has ended."""
    sums: dict[str, float] = {}
    for row in Record.objects.filter(state="finished"):
        assert row.start_at is not None
        assert row.end_at is not None
        sums[row.job] = sums.get(row.job, 0.0) + row.cpus * (row.end_at - row.start_at).total_seconds()
    return {job: round(total, 3) for job, total in sorted(sums.items())}


def running() -> list[str]:
    return [row.job for row in Record.objects.filter(state="running").order_by("job")]


def test_each_run_counts_what_it_held_from_one_file(source: Source, days: list[str]) -> None:
    assert ingest(source, "".join(days)) == 0
    assert (cpu_s(), running()) == (CPU_S, ["510.cl1"])
    assert sum(Bucket.objects.values_list("cpu_s", flat=True)) == sum(CPU_S.values())


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=lambda order: "".join(map(str, order)))
def test_each_run_counts_what_it_held_from_daily_files(source: Source, days: list[str], order: Sequence[int]) -> None:
    for day in order:
        ingest(source, days[day])
    print(order, {job: (got, CPU_S[job]) for job, got in cpu_s().items() if got != CPU_S[job]}, running())
    assert (cpu_s(), running()) == (CPU_S, ["510.cl1"])


def line(kind: str, day: int, hour: float, text: str = "", *, job: str = "9.cl1") -> str:
    at = BEGIN + timedelta(days=day, hours=hour)
    return f"{at:%m/%d/%Y %H:%M:%S};{kind};{job};{text}\n"


def run_text(day: int, hour: float, *, cpus: int = 8, walltime: str = "90:00:00", **more: Any) -> str:
    start = int((BEGIN + timedelta(days=day, hours=hour)).timestamp())
    text = f"user=ada group=phys queue=q ctime={CTIME} start={start} exec_host=n1/0*{cpus} Resource_List.ncpus={cpus}"
    return f"{text} Resource_List.walltime={walltime} " + " ".join(f"{name}={value}" for name, value in more.items())


def ended(day: int, hour: float, begun: tuple[int, float], **more: Any) -> str:
    end = int((BEGIN + timedelta(days=day, hours=hour)).timestamp())
    return line("E", day, hour, run_text(*begun, end=end, **more))


BEGIN = datetime(2026, 12, 29, tzinfo=UTC)
CTIME = int(BEGIN.timestamp())
RESTED = [  # held 0–2, 20–22, 30–31, 60–61 of 0–61
    line("S", 0, 0, run_text(0, 0)) + line("z", 0, 2) + line("r", 0, 20) + line("z", 0, 22),
    line("r", 1, 6) + line("z", 1, 7),
    line("r", 2, 12) + ended(2, 13, (0, 0), **{"resources_used.walltime": "06:00:00"}),
]


@pytest.mark.parametrize("order", [*itertools.permutations(range(3)), (2, 1, 2, 0, 1), (1, 2, 0, 0)])
def test_suspensions_in_other_files_than_the_end_count_in_any_order(source: Source, order: Sequence[int]) -> None:
    for day in order:
        ingest(source, RESTED[day])
    assert cpu_s() == {"9.cl1": 8 * 6 * 3600}
    assert not UnclearJob.objects.exists()
    hours = Bucket.objects.exclude(cpu_s=0).order_by("hour_at").values_list("hour_at", flat=True)
    assert [(at - BEGIN) // timedelta(hours=1) for at in hours] == [0, 1, 20, 21, 30, 60]


@pytest.mark.parametrize("missing", [0, 1])
def test_a_missing_day_is_named_until_it_comes(source: Source, missing: int) -> None:
    for day in {0, 1, 2} - {missing}:
        ingest(source, RESTED[day])
    assert cpu_s() == {"9.cl1": 8 * 6 * 3600}  # by the walltime
    assert [(each.job, each.gaps) for each in UnclearJob.objects.all()] == [("9.cl1", ["phases_unknown"])]
    assert count_unclear(since_at=BEGIN, actor=SYSTEM) == {source.slug: 1}
    ingest(source, RESTED[missing])
    assert cpu_s() == {"9.cl1": 8 * 6 * 3600}
    assert count_unclear(since_at=BEGIN, actor=SYSTEM) == {}


def test_lines_without_a_run_are_named_and_wait_for_it(source: Source) -> None:
    assert ingest(source, RESTED[1]) == 2
    assert [each.gaps for each in UnclearJob.objects.all()] == [["starts_unknown"]]
    assert not Record.objects.exists()
    assert ingest(source, RESTED[0]) == 0
    assert not UnclearJob.objects.exists()


def test_a_run_that_no_line_ended_is_named_and_ends_when_it_had_to(source: Source) -> None:
    ingest(source, line("S", 0, 0, run_text(0, 0, walltime="02:00:00")) + line("S", 1, 0, run_text(1, 0)))
    assert cpu_s() == {"9.cl1": 8 * 2 * 3600}
    assert [each.gaps for each in UnclearJob.objects.all()] == [["ends_unknown"]]
    ingest(source, ended(0, 1, (0, 0)))
    assert cpu_s() == {"9.cl1": 8 * 3600}
    assert not UnclearJob.objects.exists()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_qalter_changes_how_long_a_run_may_run_and_count(source: Source, order: Sequence[int]) -> None:
    files = [
        line("S", 0, 0, run_text(0, 0, walltime="02:00:00")),
        line("a", 0, 1, "Resource_List.walltime=05:00:00"),
        line("a", 0, 4, "Resource_List.walltime=30:00:00"),
    ]
    for day in order:
        ingest(source, files[day])
    (row,) = Record.objects.all()
    assert (row.state, row.requested_s) == ("running", 30 * 3600)
    assert known_until_s(row) == (BEGIN + timedelta(hours=30)).timestamp()
    ingest(source, line("S", 2, 0, run_text(2, 0)))  # no line ended the first run
    assert cpu_s() == {"9.cl1": 8 * 30 * 3600}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_qalter_changes_what_a_waiting_job_asks_for(source: Source, order: Sequence[int]) -> None:
    waiting = f"user=ada group=phys queue=q ctime={CTIME} Resource_List.ncpus=4 Resource_List.walltime=02:00:00"
    files = [line("Q", 0, 0, waiting), line("a", 0, 1, "Resource_List.ncpus=12 Resource_List.walltime=00:30:00")]
    for day in order:
        ingest(source, files[day])
    (row,) = Record.objects.all()
    assert (row.state, row.cpus, row.requested_s) == ("pending", 12, 1800)


def test_a_run_of_a_later_file_takes_the_place_that_it_has(source: Source) -> None:
    """Torque counts no runs: the second is the first that is known, until the file before it comes."""
    second = line("S", 1, 0, run_text(1, 0)) + ended(1, 1, (1, 0))
    ingest(source, second)
    ingest(source, line("S", 0, 0, run_text(0, 0)) + line("R", 0, 3))
    rows = sorted((row.restart, row.start_at) for row in Record.objects.all())
    assert rows == [(0, BEGIN), (1, BEGIN + timedelta(days=1))]
    assert cpu_s() == {"9.cl1": 8 * 4 * 3600}
    source.refresh_from_db()
    assert source.n_records == 2


def test_lines_of_one_job_are_bounded_and_those_beyond_are_counted(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_runs, "MOST_OF_JOB", 5)
    (piece,) = Pbs().parse(io.BytesIO("".join(RESTED).encode()), Reading(AT, ZoneInfo("UTC")))
    counts = ingest_batch(source=source, rows=piece.batch, at=AT)
    assert (counts.notes["lines_ignored"], RunLine.objects.count()) == (3, 5)


@pytest.mark.parametrize("undone_day", [0, 1, 2])
def test_an_undone_day_leaves_what_the_other_days_say(
    source: Source, undone_day: int, stored: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    days = [day for day in range(3) if day != undone_day]
    for day in days:
        bring(source, RESTED[day])
    before = stored()
    made = bring(source, RESTED[undone_day])
    assert stored() != before
    asked = undo_import(import_id=made.pk, reason="wrong", at=AT, actor=COMMAND)
    assert asked.undone_run_id is not None
    assert work_run_now(asked.undone_run_id).state == "succeeded"
    assert stored() == before
    source.refresh_from_db()
    assert source.n_records == Record.objects.count()


def test_lines_sent_again_during_an_undo_stay(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    bring(source, RESTED[0])
    bring(source, RESTED[2])
    made = bring(source, RESTED[1])
    undo_import(import_id=made.pk, reason="wrong", at=AT, actor=COMMAND)
    assert Run.objects.filter(kind="usage_undo").update(cursor={"id": 0, "last_id": 0}) == 1  # it has begun
    ingest(source, RESTED[1])
    assert not RunLine.objects.filter(run=made.run_id).exists()
    assert cpu_s() == {"9.cl1": 8 * 6 * 3600}


def bring(source: Source, text: str) -> Import:
    file = io.BytesIO(text.encode())
    new = NewImport(source_slug=source.slug, file=file, file_name="a.log", format="pbs", time_zone="UTC")
    made = start_import(new, at=AT, actor=COMMAND)
    run = work_run_now(made.run_id)
    assert run.state == "succeeded", run.error
    return Import.objects.get(pk=made.pk)


def test_merged_sources_make_the_records_of_all_lines(source: Source) -> None:
    other = make_source(NewSource(slug="other", name="Other"), at=AT, actor=COMMAND)
    ingest(source, RESTED[0] + RESTED[2])
    ingest(other, RESTED[1])
    Source.objects.update(namespace=source.namespace)
    merge_sources(kept_slug=source.slug, merged_slug="other", reason="one cluster", at=AT, actor=COMMAND)
    assert cpu_s() == {"9.cl1": 8 * 6 * 3600}
    assert sum(Bucket.objects.filter(source=source).values_list("cpu_s", flat=True)) == 8 * 6 * 3600


def test_a_second_suspension_without_a_resumption_is_filled_by_the_walltime(source: Source) -> None:
    """Held 0–2, 20–22 and 30–61 of 61 hours; the line of hour 20 is missing."""
    text = line("S", 0, 0, run_text(0, 0)) + line("z", 0, 2) + line("z", 0, 22) + line("r", 1, 6)
    ingest(source, text + ended(2, 13, (0, 0), **{"resources_used.walltime": "35:00:00"}))
    assert cpu_s() == {"9.cl1": 8 * 35 * 3600}
    assert [each.gaps for each in UnclearJob.objects.all()] == [["phases_unknown"]]
    hours = Bucket.objects.exclude(cpu_s=0).order_by("hour_at").values_list("hour_at", flat=True)
    assert [(at - BEGIN) // timedelta(hours=1) for at in hours] == [0, 1, 20, 21, *range(30, 61)]


def test_time_awake_that_no_line_names_is_in_the_longest_rest(source: Source) -> None:
    """Rests of 2 and 20 hours in 40, and a walltime of 21: it ran 3 hours within the second."""
    text = line("S", 0, 0, run_text(0, 0)) + line("z", 0, 2) + line("r", 0, 4) + line("z", 0, 10) + line("r", 1, 6)
    ingest(source, text + ended(1, 16, (0, 0), **{"resources_used.walltime": "21:00:00"}))
    assert cpu_s() == {"9.cl1": 8 * 21 * 3600}
    hours = Bucket.objects.exclude(cpu_s=0).order_by("hour_at").values_list("hour_at", flat=True)
    assert [(at - BEGIN) // timedelta(hours=1) for at in hours] == [0, 1, *range(4, 10), *range(27, 40)]


def test_qalter_of_processors_leaves_how_long_a_waiting_job_may_run(source: Source) -> None:
    waiting = f"user=ada group=phys queue=q ctime={CTIME} Resource_List.ncpus=4 Resource_List.walltime=02:00:00"
    ingest(source, line("Q", 0, 0, waiting) + line("a", 0, 1, "Resource_List.ncpus=12"))
    (row,) = Record.objects.all()
    assert (row.state, row.cpus, row.requested_s) == ("pending", 12, 7200)


def test_runs_that_ended_in_sealed_hours_stay_as_they_are(source: Source) -> None:
    """Also after later lines of the job: one of its runs, and one of the sealed run itself."""
    ingest(source, line("S", 0, 0, run_text(0, 0)) + ended(0, 4, (0, 0)))
    source.sealed_before_at = BEGIN + timedelta(days=1)
    source.save()
    ingest(source, line("z", 0, 1) + line("r", 0, 3))
    assert cpu_s() == {"9.cl1": 8 * 4 * 3600}
    ingest(source, line("S", 1, 2, run_text(1, 2)) + ended(1, 3, (1, 2)))
    assert cpu_s() == {"9.cl1": 8 * 5 * 3600}


def test_qalter_before_a_submission_is_of_an_earlier_job_of_the_number(source: Source) -> None:
    waiting = f"user=ada group=phys queue=q ctime={CTIME + 3600} Resource_List.ncpus=4 Resource_List.walltime=02:00:00"
    ingest(source, line("a", 0, 0, "Resource_List.ncpus=12") + line("Q", 0, 1, waiting))
    (row,) = Record.objects.all()
    assert (row.state, row.cpus) == ("pending", 4)
