from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from apps.usage.parsers.base import RunEvent
from apps.usage.parsers.lines import MOST_LINE_BYTES
from apps.usage.parsers.lsf import Lsf
from apps.usage.parsers.registry import AUTO, format_of
from apps.usage.parsers.runs import history_of
from tests.each_case import each_case
from tests.oracles import lsf as oracle
from tests.usage.parsers.reading import Read, only, read

LSF = Lsf()
START = 1_767_225_660
H = 3600


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def hosts(*names: str) -> str:
    return " ".join([str(len(names)), *map(quoted, names)])


def finish(**changes: Any) -> str:
    """A line of JOB_FINISH as LSF 10.1 writes it. `tail` replaces all behind the job's description."""
    f: dict[str, Any] = {"version": "10.1", "at": START + H, "job": 101, "options": 33816578}
    f |= {"asked": 4, "submit": START - 60}
    f |= {"start": START, "user": "ada", "queue": "normal", "wanted": "0", "hosts": hosts("4*node1"), "status": 64}
    f |= {"name": "fit", "command": "./fit", "project": "cms", "idx": 0, "rmem": 30720, "exit": 0}
    f |= {
        "saap": "/physics/ada",
        "resized": None,
        "limit": 7200,
        "resreq": "select[type == any] ",
        "src": "",
        "dst": "",
    }
    f |= {"ran": H, "slots": "0", "ext": "0", "rusage": "0"} | changes
    resized = f["start"] if f["resized"] is None else f["resized"]
    usage = "1.0 2.0 3748 0 -1 0 0 436 4 0 928 0 -1 0 0 0 19 2 -1"
    tail = (
        f"{f['ext']} {f['rusage']} {f['limit']} 0 2048 {quoted(f['resreq'])} {quoted(f['src'])} -1 {quoted(f['dst'])} "
        f'-1 0 "" 0 0 "" {f["ran"]} "/home" 0 "" 0.000000 0.00 0.00 0.00 0.00 {f["slots"]} -1 0 0 0'
    )
    return (
        f'"JOB_FINISH" "{f["version"]}" {f["at"]} {f["job"]} 5001 {f["options"]} {f["asked"]} {f["submit"]} 0 0 '
        f'{f["start"]} {quoted(f["user"])} {quoted(f["queue"])} "" "" "" "login1" "/home" "" "out" "" "f" '
        f'{f["wanted"]} {f["hosts"]} {f["status"]} 60.0 {quoted(f["name"])} {quoted(f["command"])} {usage} "" '
        f'{quoted(f["project"])} 0 4 "" "" {f["idx"]} {f["rmem"]} 0 "" "" "" "" 0 "" {f["exit"]} "" -1 '
        f'{quoted(f["saap"])} "" "" "" -1 "" "" 5136 "" {resized} "" "" {changes.get("tail", tail)}\n'
    )


def resize(at: int, since: int, held: str, changed: str, *, grown: bool, **changes: Any) -> str:
    f: dict[str, Any] = {"job": 101, "idx": 0, "start": START, "slots": f" {held} {changed}"} | changes
    return (
        f'"JOB_RESIZE" "10.1" {at} {f["job"]} {f["idx"]} {f["start"]} 5001 "ada" {0 if grown else 1} {since} {held} '
        f"{changed}{f['slots']}\n"
    )


def events_of(found: Read) -> list[RunEvent]:
    return [event for piece in found.pieces for event in piece.batch.events]


def rows_of(text: str) -> tuple[list[tuple[float, float]], set[str]]:
    """Hours and slots of each part of a job, by all its lines, and what they lack; hours −1 while it runs."""
    found = read(LSF, text)
    assert found.rejections == []
    history = history_of(events_of(found))
    parts = []
    for row in history.rows:
        assert row.start_at is not None
        ran_h = -1.0 if row.end_at is None else (row.end_at - row.start_at).total_seconds() / H
        parts.append((ran_h, row.cpus))
    return parts, history.gaps


def test_lines_of_every_release_stand_in_one_file(golden_dir: Path) -> None:
    data = (golden_dir / "field/l01_releases.acct").read_bytes()
    assert format_of(AUTO, data).name == "lsf"
    found = read(LSF, data)
    assert found.rejections == []
    assert [
        (j.job, j.array_task, j.user, j.group, j.project, j.state, j.cpus, j.nodes, j.gpus) for j in found.jobs
    ] == [
        ("101", "", "ada", "", "", "finished", 1, 1, 0),
        ("102", "", "bob", "", "cms", "finished", 4, 2, 0),
        ("103", "", "eve", "climate", "earth", "finished", 32, 2, 0),
        ("104", "7", "ada", "", "", "finished", 1, 1, 0),
        ("105", "", "kim", "physics", "vision", "finished", 4, 2, 4),
        ("106", "", "kim", "physics", "", "withdrawn", 0, 0, 0),
    ]
    assert [j.requested_s for j in found.jobs] == [None, None, 43200, None, 7200, None]
    assert [round(j.mem_mb, 1) for j in found.jobs] == [303.1, 6.5, 10474, 2, 2, 0]
    assert found.cpu_h == 1 + 4 + 32 * 7140 / 3600 + 1 + 4
    assert +found.notes == {"exclusive_jobs": 1, "suspended": 1, "reservations_skipped": 1, "never_ran": 1}


def test_a_resized_job_counts_part_by_part(golden_dir: Path) -> None:
    text = (golden_dir / "field/l02_resized.acct").read_text(encoding="utf-8")
    expected = [(1.0, 4.0), (1.0, 12.0), (2.0, 6.0)]
    for order in itertools.permutations(text.splitlines(keepends=True)):
        assert rows_of("".join(order)) == (expected, set())
    assert rows_of(text + text) == (expected, set())
    assert oracle.slot_seconds(text.splitlines()) == {"201.0": (4 + 12 + 2 * 6) * H}


@each_case(
    ("kept", "parts"),
    [
        ("12", [(1.0, 4.0), (1.0, 12.0), (-1.0, 6.0)]),  # it runs on, by what the newest change left
        ("1", [(1.0, 4.0), (-1.0, 12.0)]),
        ("13", [(1.0, 4.0), (1.0, 12.0), (2.0, 6.0)]),  # the change after line 1 says what it held then
        ("23", [(1.0, 6.0), (1.0, 12.0), (2.0, 6.0)]),
        ("3", [(4.0, 6.0)]),
    ],
)
def test_a_missing_line_of_a_resized_job_is_named(
    golden_dir: Path, kept: str, parts: list[tuple[float, float]]
) -> None:
    lines = (golden_dir / "field/l02_resized.acct").read_text(encoding="utf-8").splitlines(keepends=True)
    by_lines, gaps = rows_of("".join(lines[int(number) - 1] for number in kept))
    assert by_lines == parts
    assert gaps == (set() if kept in ("12", "1", "13") else {"phases_unknown"})


@each_case(
    ("text", "cpus", "nodes"),
    [
        (finish(hosts=hosts("node1")), 1, 1),
        (finish(hosts=hosts("node1", "node1", "node2")), 3, 2),
        (finish(hosts=hosts("16*node1", "4*node2")), 20, 2),
        (finish(wanted=hosts("a", "b", "c"), hosts=hosts("2*node2")), 2, 1),
        (finish(hosts=hosts("2*node1"), slots=hosts("48*node1")), 48, 1),  # tasks and allocated slots differ
        (finish(hosts=hosts("node1@cluster2")), 1, 1),
        (finish(hosts=hosts("has blank", "hasquote")), 2, 2),
    ],
)
def test_slots_are_those_of_the_hosts(text: str, cpus: int, nodes: int) -> None:
    job = only(LSF, text)
    assert (job.cpus, job.nodes, job.hours) == (cpus, nodes, 1)


def test_without_hosts_the_request_counts() -> None:
    found = read(LSF, finish(hosts="0", asked=8) + finish(hosts="0", asked=0))
    assert (found.jobs[0].cpus, found.notes["processors_requested"]) == (8, 1)
    assert found.codes == [(2, "no_processors")]


@each_case(
    ("resreq", "gpus"),
    [
        ("rusage[ngpus_physical=2.00]", 4),
        ("rusage[ngpus_physical=2.00/host]", 4),
        ("rusage[mem=4096.00/task:ngpus_physical=1.00/task]", 10),
        ("rusage[ngpus_physical=3.00/job]", 3),
        ("rusage[mem=100,ngpus_excl_p=1]", 2),
        ("select[ngpus>0] order[r15s:pg]", 0),
        ("select[ngpus=2]", 0),
        ("rusage[ngpus_shared=1]", 0),
        ("{4*{rusage[ngpus_physical=1]}}+{1*{rusage[ngpus_physical=2]}}", 0),
    ],
)
def test_gpus_are_those_of_the_requirement_in_effect(resreq: str, gpus: int) -> None:
    found = read(LSF, finish(resreq=resreq, hosts=hosts("8*node1", "2*node2")))
    assert (found.rejections, found.jobs[0].gpus) == ([], gpus)
    assert found.notes["gpu_requests_not_counted"] == ("+" in resreq)


@each_case(
    ("saap", "group"),
    [
        ("", ""),
        ("/ada", ""),
        ("/physics/ada", "physics"),
        ("/lab/physics/ada", "physics"),
        ("/physics", "physics"),
        ("/others*0", ""),
        ("/physics/others/ada", "physics"),
        ("/ada/ada", "ada"),
    ],
)
def test_the_group_is_the_last_of_the_share_path(saap: str, group: str) -> None:
    assert only(LSF, finish(saap=saap)).group == group


@each_case(
    ("changes", "state", "notes"),
    [
        ({"status": 32, "exit": 5}, "finished", {}),
        ({"status": 32, "exit": 10}, "finished", {"rescheduled": 1}),
        ({"status": 192}, "finished", {}),
        ({"start": 0, "status": 32}, "withdrawn", {"never_ran": 1}),
        ({"dst": "east"}, "withdrawn", {"ran_elsewhere": 1}),
        ({"src": "west", "dst": "east"}, "finished", {}),
        ({"src": "west"}, "finished", {}),
        ({"options": 0x40}, "finished", {"exclusive_jobs": 1}),
        ({"ran": 600}, "finished", {"suspended": 1}),
    ],
)
def test_what_ran_counts_whatever_its_exit(changes: dict[str, Any], state: str, notes: dict[str, int]) -> None:
    found = read(LSF, finish(**({"options": 0} | changes)))
    assert (found.rejections, found.jobs[0].state) == ([], state)
    assert +found.notes == notes


@each_case(
    ("changes", "ignored"),
    [
        ({"rmem": "lots"}, "maxRMem"),
        ({"rmem": -1}, ""),
        ({"limit": -1}, ""),
        ({"submit": "soon"}, "submitTime"),
        ({"submit": 0}, ""),
        ({"options": "x"}, "options"),
        ({"queue": "q\x1b"}, "queue"),
        ({"ext": "x"}, "extensions"),
        ({"ext": "9999 1"}, "extensions"),
        ({"resized": "late"}, "lastResizeTime"),
        ({"resized": START + 2 * H}, "lastResizeTime"),
        ({"tail": ""}, ""),
        ({"tail": "0 0"}, ""),
        ({"tail": "0 0 1 2"}, ""),
        ({"version": "11.9 of later years", "ext": '2 1 "a" 2 "b"'}, ""),
        ({"rusage": "1 node1 1306 0 12 242"}, ""),  # as the reference has it
        ({"rusage": '1 node1 1306 0 12 242 1 "pids" "1 2"'}, ""),  # as 9.1 and later write it
        ({"command": 'a "b c" ""  \\" é', "name": '"'}, ""),
    ],
)
def test_values_that_arent_needed_refuse_no_run(changes: dict[str, Any], ignored: str) -> None:
    found = read(LSF, finish(**changes))
    assert (found.rejections, found.jobs[0].hours, found.jobs[0].cpus) == ([], 1, 4)
    assert [note for note in +found.notes if note.startswith("values")] == [f"values_ignored {ignored}"] * bool(ignored)


@each_case(
    ("text", "code"),
    [
        (finish(job="x"), "bad_job"),
        (finish(job=-1), "bad_job"),
        (finish(idx="x"), "not_a_number"),
        (finish(idx=-1), "negative_number"),
        (finish(start="soon"), "not_a_number"),
        (finish(at=0), "missing_field"),
        (finish(at=START - 1), "end_before_start"),
        (finish(at=9e15), "absurd_time"),
        (finish(start=0, submit=0), "missing_field"),
        (finish(hosts="x"), "not_a_number"),
        (finish(hosts="-1"), "absurd_number"),
        (finish(hosts='1 "4*"'), "bad_fields"),
        (finish(hosts=hosts("999999999*a", "999999999*b", "999999999*c")), "absurd_number"),
        (finish(wanted="99999999999"), "absurd_number"),
        (finish(wanted="500"), "too_few_fields"),
        (finish(user="a\tb"), "bad_text"),
        (finish(at=START + 4000 * 86400), "absurd_run_time"),
        (finish()[:120] + "\n", "too_few_fields"),
        (finish().partition("da")[0] + "\n", "open_quote"),
        (finish().replace('"./fit"', '"./fit" "a"b'), "bad_quotes"),
        ("JOB_DONE 10.1 1\n", "unknown_type"),
        ('"job finish" "10.1"\n', "unknown_type"),
        ("no log\n", "unknown_type"),
        ("\u2028 \u2003\n", "unknown_type"),  # blanks of another kind separate nothing
        (resize(START + H, START - 1, hosts("a"), hosts("b"), grown=True), "end_before_start"),
        (resize(START + H, START + H + 1, hosts("a"), hosts("b"), grown=True), "end_before_start"),
        (resize(START + H, START, "x", hosts("b"), grown=True), "not_a_number"),
        ('"JOB_RESIZE" "10.1" 1767225660 7\n', "too_few_fields"),
    ],
)
def test_implausible_lines_are_rejected_with_their_number(text: str, code: str) -> None:
    found = read(LSF, finish() + text + finish(job=7))
    assert found.codes == [(2, code)]
    assert [job.job for job in found.jobs] == ["101", "7"]


@pytest.mark.parametrize("text", ['"JOB_NEW" "10.1" 1 2\n', "# 1234\n", '"JOB_START" "10.1" 1767225660 101 4\n'])
def test_lines_of_the_event_log_are_passed_over(text: str) -> None:
    found = read(LSF, text + finish())
    assert (found.rejections, len(found.jobs)) == ([], 1)
    assert found.notes["other_events_skipped"] == (not text.startswith("#"))


def test_a_line_with_all_slots_of_a_large_job_is_read_and_a_longer_one_is_named() -> None:
    """Without SHORT_EVENTFILE each slot is a name, and 10.1 has them twice."""
    names = hosts(*[f"node{number // 48:04}" for number in range(20_000)])
    text = finish(hosts=names, slots=names)
    assert len(text) < MOST_LINE_BYTES
    assert only(LSF, text).cpus == 20_000
    too_long = read(LSF, finish(command="x" * MOST_LINE_BYTES) + finish(job=7))
    assert too_long.codes == [(1, "line_too_long")]
    assert "4 MB" in too_long.rejections[0].message
    assert [job.job for job in too_long.jobs] == ["7"]


def test_a_line_cut_anywhere_is_refused_or_says_what_the_whole_line_says(golden_dir: Path) -> None:
    for line in (golden_dir / "field/l01_releases.acct").read_text(encoding="utf-8").splitlines():
        whole = read(LSF, line)
        for end in range(1, len(line), 3):
            found = read(LSF, line[:end])
            if found.jobs:
                assert (found.jobs[0].end_at, found.jobs[0].user) == (whole.jobs[0].end_at, whole.jobs[0].user)
                assert found.jobs[0].cpus == whole.jobs[0].cpus
            else:
                assert found.rejections or found.notes


def test_random_logs_have_the_slot_seconds_that_the_reference_says() -> None:
    rng = random.Random("lsb.acct 2026")
    for _ in range(40):
        log, job = [], 0
        for job in range(1, rng.randrange(2, 12)):
            start, names = START + rng.randrange(10**6), [f"n{rng.randrange(4)}" for _ in range(rng.randrange(1, 5))]
            held = hosts(*[f"{rng.randrange(1, 64)}*{name}" if rng.random() < 0.5 else name for name in names])
            since, idx = start, rng.choice((0, 0, 3))
            for _resize in range(rng.choice((0, 0, 1, 3))):
                at = since + rng.randrange(2, 9000)
                log.append(resize(at, since, held, hosts("n9"), grown=True, job=job, idx=idx, start=start))
                since, held = at, held.replace("n", "m", 1) if rng.random() < 0.5 else hosts("3*n9", "n8")
            command = "".join(rng.choice('ab" ;\\é[]') for _ in range(rng.randrange(30)))
            text = finish(
                job=job, idx=idx, start=start, submit=start - 5, at=since + rng.randrange(2, 9000), hosts=held
            )
            log.append(text.replace('"./fit"', quoted(command)).replace(f'"" {start} ""', f'"" {since} ""'))
        rng.shuffle(log)
        found = read(LSF, "".join(log))
        assert found.rejections == []
        by_job: dict[str, list[RunEvent]] = {}
        for event in events_of(found):
            by_job.setdefault(f"{event.job}.{event.array_task or 0}", []).append(event)
        ours = {f"{one.job}.{one.array_task or 0}": one.cpus * one.hours * H for one in found.jobs}
        for name, events in by_job.items():
            history = history_of(events)
            assert history.gaps == set()
            ours[name] = sum(
                row.cpus * (row.end_at - row.start_at).total_seconds()
                for row in history.rows
                if row.end_at and row.start_at
            )
        assert ours == pytest.approx(oracle.slot_seconds([line.rstrip("\n") for line in log]), abs=1e-6)
