"""Commands of a scheduler, replaced by small programs that print what real ones printed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Import, Record, RejectedLine, Source
from apps.usage.services import NewSource, make_source
from apps.usage.sources.command import windows
from apps.usage.sources.programs import environment
from apps.usage.sources.schedule import enqueue_collection, enqueue_due_collections
from apps.usage.sources.source_settings import validate_terms
from apps.usage.tasks import collect_due_usage
from tests.faults.stack import eventually
from tests.instants import AT

pytestmark = pytest.mark.django_db

SACCT = ["sacct", "-a", "-X", "-P", "-S", "{from}", "-E", "{to}", "--name=a b; touch $HOME/no && `id`"]
DOCUMENTS = {
    "flux/document": json.dumps({
        "jobs": [
            {"id": id, "username": "ada", "userid": 1, "t_submit": 1767225600.0, "t_run": 1767225660.0}
            | {"t_inactive": 1767229260.0, "ncores": 8, "nnodes": 1}
            for id in (1, 2)
        ]
    }),
    "htcondor/xml": "<?xml version='1.0'?>\n<classads>\n"
    + "".join(
        f'<c><a n="ClusterId"><i>{cluster}</i></a><a n="ProcId"><i>0</i></a><a n="JobStatus"><i>4</i></a>'
        '<a n="QDate"><i>1767225600</i></a><a n="JobCurrentStartDate"><i>1767225660</i></a><a n="RequestCpus"><i>8</i>'
        '</a><a n="CompletionDate"><i>1767229260</i></a><a n="Owner"><s>ada</s></a></c>\n'
        for cluster in (1, 2)
    )
    + "</classads>\n",
}  # fmt: skip
Program = Callable[..., Path]
Ask = Callable[..., Source]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    def set_to(at: datetime) -> None:
        monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())

    set_to(AT)
    return set_to


@pytest.fixture
def program(tmp_path: Path, settings: Any) -> Program:
    """`program(name, code)` is an executable that may be run; it notes its arguments and its environment first."""

    def make(name: str, code: str) -> Path:
        path = tmp_path / name
        path.write_text(
            f"#!{sys.executable}\nimport json, os, sys, time\n"
            f"with open({str(tmp_path / 'asked')!r}, 'a') as asked:\n"
            "    print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]), file=asked)\n" + code
        )
        path.chmod(0o755)
        settings.FAIRSHARE_COLLECT_COMMANDS = [*settings.FAIRSHARE_COLLECT_COMMANDS, str(path)]
        return path

    return make


@pytest.fixture
def asked(tmp_path: Path) -> Callable[[], list[Any]]:
    return lambda: [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]


@pytest.fixture
def command() -> Ask:
    def make(*arguments: str, **terms: Any) -> Source:
        source = make_source(NewSource(slug="slurm", name="Slurm", cluster=""), at=AT, actor=COMMAND)
        source.kind, source.collect_every_s, source.collect_due_at = Source.Kind.COMMAND, 300, AT
        given = {"command": list(arguments), "look_back_s": 86400, "overlap_s": 600, **terms}
        source.collecting = validate_terms(source.kind, given, time_zone="")
        source.save()
        return source

    return make


def prints(path: Path) -> str:
    return f"sys.stdout.write(open({str(path)!r}).read())\n"


def collect(source: Source, at: datetime = AT) -> Run:
    return work_run_now(enqueue_collection(source, at=at).pk)


def counts(run: Run) -> dict[str, int]:
    assert run.state == "succeeded", run.error
    return {name: n for name, n in run.counts.items() if n}


def error_of(source: Source) -> str:
    source.refresh_from_db()
    return source.collect_error


def test_accounting_is_fetched_from_the_cursor_with_an_overlap_and_counted_once(
    program: Program, command: Ask, asked: Callable[[], list[Any]], golden_dir: Path, clock: Callable[[datetime], None]
) -> None:
    program("sacct", prints(golden_dir / "slurm/samples/sacct-X-P.txt"))
    source = command(*SACCT)
    first = counts(collect(source))
    assert first["new"] == Record.objects.count() > 10
    clock(AT + timedelta(minutes=5))
    second = counts(collect(source, AT + timedelta(minutes=5)))
    assert "new" not in second
    assert second["duplicate"] == first["new"]
    (given, place, cwd), (again, *_) = asked()
    assert given[3:7] == ["-S", "2026-11-19T12:00:00", "-E", "2026-11-20T12:00:00"]
    assert again[3:7] == ["-S", "2026-11-20T11:50:00", "-E", "2026-11-20T12:05:00"]
    assert given[7:] == [SACCT[8]]
    assert (place["SLURM_TIME_FORMAT"], place["TZ"], cwd) == ("%s", "UTC", "/")


def test_programs_see_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"DATABASE_URL": "secret", "SECRET_KEY": "secret", "LD_PRELOAD": "x", "SGE_ROOT": "/opt/sge", "PATH": "/x"}
    given = environment("/opt/slurm/bin/sacct", "Europe/Stockholm", ours)
    assert given == {
        **{"PATH": "/opt/slurm/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/", "TZ": "Europe/Stockholm"},
        **{"SLURM_TIME_FORMAT": "%s", "SGE_ROOT": "/opt/sge"},
    }


def test_json_commands_get_no_time_format() -> None:
    """sacct 22.05 --json can't read its own -S in seconds; a real one showed that."""
    assert "SLURM_TIME_FORMAT" not in environment("/usr/bin/sacct", "UTC", {}, wants_json=True)


@pytest.mark.parametrize(("option", "expected"), [("--json", "none"), ("-P", "%s")])
def test_only_text_commands_get_the_time_format(
    program: Program, command: Ask, asked: Callable[[], list[Any]], option: str, expected: str
) -> None:
    program("sacct", "print('{}')\n")
    collect(command("sacct", option))
    (_, place, _), *_ = asked()
    assert place.get("SLURM_TIME_FORMAT", "none") == expected


def test_missed_periods_are_fetched_one_day_at_a_time() -> None:
    terms = {"overlap_s": 600, "look_back_s": 86400}
    to_s = int((AT - timedelta(days=2, hours=6)).timestamp())
    found = list(windows({"to_s": to_s}, terms, AT))
    assert found[0].from_at == AT - timedelta(days=2, hours=6, minutes=10)
    assert found[-1].to_at == AT
    assert all(later.from_at == earlier.to_at for earlier, later in pairwise(found))
    assert max(one.to_at - one.from_at for one in found) == timedelta(days=1)
    ahead = int((AT + timedelta(days=9)).timestamp())  # our clock was set back
    assert list(windows({"to_s": ahead}, terms, AT)) == [(AT - timedelta(minutes=10), AT)]


def test_a_listing_closes_absent_jobs_and_an_incomplete_one_none(
    program: Program, command: Ask, golden_dir: Path, tmp_path: Path, clock: Callable[[datetime], None]
) -> None:
    listing = json.loads((golden_dir / "slurm/samples/squeue.json").read_text())
    (tmp_path / "squeue.json").write_text(json.dumps(listing))
    program("squeue", prints(tmp_path / "squeue.json"))
    at = AT + timedelta(days=300)  # after the jobs of the sample
    clock(at)
    source = command("squeue", "--json")
    assert counts(collect(source, at))["new"] == len(listing["jobs"])
    n_open = Record.objects.filter(state__in=("pending", "running")).count()
    assert n_open == sum(one["job_state"] in ("PENDING", "RUNNING") for one in listing["jobs"]) > 1
    gone = next(one for one in listing["jobs"] if one["job_state"] == "RUNNING")
    rest = [one for one in listing["jobs"] if one is not gone]
    broken = [*rest, {**gone, "job_id": "not a number at all"}]
    for n, jobs in enumerate((broken, rest), start=1):
        (tmp_path / "squeue.json").write_text(json.dumps({**listing, "jobs": jobs}))
        clock(at + timedelta(minutes=5 * n))
        run = collect(source, at + timedelta(minutes=5 * n))
        assert run.counts["vanished"] == n - 1, (n, run.counts)
    assert Record.objects.filter(note="vanished").count() == 1


def test_a_listing_overrides_accounting_for_running_jobs(
    program: Program, command: Ask, clock: Callable[[datetime], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accounting that lost the end of a job says for ever that it runs."""
    from apps.usage.sources import collection as runs

    header = "JobIDRaw|Cluster|User|Account|Submit|Start|End|ElapsedRaw|State|AllocCPUS\\n"
    lost = "7|c|ada|g|1795156000|1795156100|Unknown|100|RUNNING|4"
    program("sacct", f"print('{header}{lost}')\n")
    program(
        "squeue", "print(json.dumps({'jobs': [], 'errors': [], 'meta': {'plugin': {'type': 'openapi/v0.0.38'}}}))\n"
    )
    instants = iter(AT + timedelta(minutes=n) for n in range(1, 99))
    monkeypatch.setattr(runs, "fault_point", lambda _: clock(next(instants)))
    source = command(*SACCT, listing=["squeue", "--json"], format="sacct")
    Source.objects.update(cluster="c")
    first = collect(source)
    assert (first.counts["new"], first.counts["vanished"]) == (1, 1), first.error
    assert collect(source).counts["vanished"] == 0
    assert list(Record.objects.values_list("state", "note")) == [("finished", "vanished")]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (
            "sys.stderr.write('sacct: error: slurmdbd: down\\n'); sys.exit(1)\n",
            "status 1: sacct: error: slurmdbd: down",
        ),
        ("os.kill(os.getpid(), 9)\n", "status -9: no reason was given"),
        ("sys.stdout.write('what\\nis\\nthis\\n')\n", "format isn't recognised"),
        ("while True: sys.stdout.write('x' * 65536)\n", "over 1 MB"),
        ("time.sleep(1000)\n", "didn't end in time"),
        pytest.param("os.close(1); os.close(2); time.sleep(1000)\n", "didn't end in time", marks=pytest.mark.deep),
        pytest.param("while True: sys.stderr.write('x' * 65536)\n", "didn't end in time", marks=pytest.mark.deep),
    ],
)
def test_a_failing_hanging_or_flooding_program_is_stopped_and_stored_records_stay(
    code: str, found: str, program: Program, command: Ask, golden_dir: Path, settings: Any, tmp_path: Path
) -> None:
    sample = prints(golden_dir / "slurm/samples/sacct-X-P.txt")
    path = program("sacct", sample)
    source = command(*SACCT, timeout_s=3)
    collect(source)
    n_records, cursor = Record.objects.count(), Source.objects.get().cursor
    settings.FAIRSHARE_UPLOAD_BYTES = 1024**2
    path.write_text(path.read_text().removesuffix(sample) + code)
    assert collect(source).state == "failed"
    assert found in error_of(source)
    assert (Record.objects.count(), Source.objects.get().cursor) == (n_records, cursor)


def test_partial_output_of_a_failed_program_is_not_imported(program: Program, command: Ask, golden_dir: Path) -> None:
    sample = prints(golden_dir / "slurm/samples/sacct-X-P.txt")
    program("sacct", sample + "sys.exit(3)\n")
    assert collect(command(*SACCT)).state == "failed"
    assert not Record.objects.exists()


def test_child_processes_of_a_program_end_with_it(program: Program, command: Ask, tmp_path: Path) -> None:
    child = tmp_path / "child"
    program("sacct", f"pid = os.fork()\nif pid: open({str(child)!r}, 'w').write(str(pid))\ntime.sleep(1000)\n")
    source = command(*SACCT, timeout_s=2)
    assert "didn't end" in (collect(source).error or "")
    stat = Path(f"/proc/{child.read_text()}/stat")

    def is_over() -> bool:
        """Its signal is sent; on a busy machine the kernel ends it a moment later."""
        try:
            return stat.read_text().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    eventually(is_over, "the child of the program has ended")


def test_a_program_removed_from_the_list_is_not_run(
    program: Program, command: Ask, settings: Any, tmp_path: Path
) -> None:
    program("sacct", "")
    source = command(*SACCT)
    settings.FAIRSHARE_COLLECT_COMMANDS = []
    assert collect(source).error_code == "command_not_allowed"
    assert not (tmp_path / "asked").exists()


def test_a_rejected_line_in_the_overlap_is_reported_once(program: Program, command: Ask) -> None:
    header = "JobIDRaw|Cluster|User|Account|Submit|Start|End|ElapsedRaw|State|AllocCPUS\\n"
    program("sacct", f"print('{header}7|c|ada|g|1795156000|1795156100|1795156200|100|COMPLETED|many')\n")
    source = command(*SACCT, format="sacct")
    assert collect(source).counts["rejected"] == 1
    assert collect(source).counts["rejected"] == 0
    assert (Import.objects.count(), RejectedLine.objects.count()) == (1, 1)
    assert RejectedLine.objects.get().message.startswith("sacct line 2: ")


def test_the_schedule_starts_due_collections_once_and_backs_off_after_failures(program: Program, command: Ask) -> None:
    program("sacct", "sys.exit(1)\n")
    source = command(*SACCT)
    assert [enqueue_due_collections(at=AT - timedelta(seconds=1)), collect_due_usage(), collect_due_usage()] == [
        0,
        1,
        0,
    ]
    run = work_run_now(Run.objects.get(kind="usage_collect").pk)
    assert run.state == "failed"
    assert enqueue_due_collections(at=AT + timedelta(seconds=59)) == 0
    assert enqueue_due_collections(at=AT + timedelta(seconds=61)) == 1
    Source.objects.filter(pk=source.pk).update(is_paused=True)
    Run.objects.filter(state="queued").delete()
    assert enqueue_due_collections(at=AT + timedelta(days=1)) == 0


def test_repeatedly_lost_workers_cause_a_backoff(program: Program, command: Ask) -> None:
    program("sacct", "")
    source = command(*SACCT)
    run = enqueue_collection(source, at=AT)
    Run.objects.filter(pk=run.pk).update(state="failed", error_code="worker_lost", finished_at=AT)
    assert enqueue_due_collections(at=AT + timedelta(seconds=90)) == 0
    assert enqueue_due_collections(at=AT + timedelta(seconds=121)) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_a_collection_while_the_clock_was_ahead_does_not_put_off_the_next_one(
    program: Program, command: Ask, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("sacct", "sys.exit(1)\n" if fails else "")
    source = command(*SACCT)
    ahead = AT + timedelta(days=400)
    monkeypatch.setenv("FAIRSHARE_CLOCK", ahead.isoformat())
    assert enqueue_due_collections(at=ahead) == 1
    work_run_now(Run.objects.get(kind="usage_collect").pk)
    source.refresh_from_db()
    assert source.collect_due_at is not None
    assert source.collect_due_at > ahead
    assert enqueue_due_collections(at=AT + timedelta(minutes=2)) == 1


def test_settings_that_change_while_it_is_collected_are_not_overwritten_by_the_old_cursor(
    program: Program, command: Ask, golden_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.usage.sources import collection as runs

    program("sacct", prints(golden_dir / "slurm/samples/sacct-X-P.txt"))
    source = command(*SACCT)

    def change(place: str) -> None:
        if place == "usage.collect.after_fetch":
            Source.objects.filter(pk=source.pk).update(collecting={**source.collecting, "overlap_s": 7}, cursor={})

    monkeypatch.setattr(runs, "fault_point", change)
    assert collect(source).error_code == "settings_changed"
    assert (Source.objects.get().cursor, Record.objects.count()) == ({}, 0)


def test_a_pause_stops_a_collection_at_its_next_step(
    program: Program, command: Ask, golden_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.usage.sources import collection as runs

    program("sacct", prints(golden_dir / "slurm/samples/sacct-X-P.txt"))
    source = command(*SACCT)
    monkeypatch.setattr(runs, "fault_point", lambda _: Source.objects.filter(pk=source.pk).update(is_paused=True))
    assert collect(source).state == "cancelled"
    assert Record.objects.count() == 0


def test_no_fetched_files_are_left(program: Program, command: Ask, settings: Any, golden_dir: Path) -> None:
    program("sacct", prints(golden_dir / "slurm/samples/sacct-X-P.txt"))
    before = os.listdir(settings.FILE_UPLOAD_TEMP_DIR)
    collect(command(*SACCT))
    assert os.listdir(settings.FILE_UPLOAD_TEMP_DIR) == before


@pytest.mark.parametrize("at", [0.0, 0.5, 0.98, -3])
@pytest.mark.parametrize("sample", ["slurm/samples/sacct.json", "htcondor/xml", "flux/document"])
def test_output_that_breaks_off_is_not_stored_and_its_window_is_collected_again(
    at: float, sample: str, program: Program, command: Ask, golden_dir: Path, tmp_path: Path
) -> None:
    whole = DOCUMENTS[sample] if sample in DOCUMENTS else (golden_dir / sample).read_text()
    output = tmp_path / "output"
    output.write_text(whole[: int(at * len(whole)) if at >= 0 else int(at)])
    program("history", prints(output))
    source = command("history", "--json", "-S", "{from}")
    run = collect(source)
    assert (run.state, Record.objects.count(), RejectedLine.objects.count()) == ("failed", 0, 0)
    assert "to_s" not in Source.objects.get().cursor
    output.write_text(whole)
    assert counts(collect(source))["new"] == Record.objects.count() > 1
    assert "to_s" in Source.objects.get().cursor
