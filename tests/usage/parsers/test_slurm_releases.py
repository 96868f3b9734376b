"""Listings and accounting of Slurm's releases: what each parser of 24.11 and 26.05 printed, and 23.02's, built.

tests/golden/slurm/README.md says how they were made.
"""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from apps.core.errors import Unavailable
from apps.usage.parsers.registry import AUTO, format_of
from apps.usage.parsers.slurm_values import WCKEYS
from tests.usage.parsers.slurm_files import READING, facts, read
from tests.usage.parsers.slurm_releases import RELEASE, built, jobs_of_22_05, written

KINDS = {"squeue": "squeue-json", "sacct": "sacct-json"}
PLUGINS = {"squeue": "slurm", "sacct": "slurmdb"}
# The newest is the one that commands and slurmrestd use by themselves.
CAPTURED = {
    "24.11.5": ("v0.0.40", "v0.0.41", "v0.0.42"),
    "26.05.5": ("v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"),
}
OLDER = [(version, parser) for version, parsers in CAPTURED.items() for parser in parsers[:-1]]
EMPTY = [
    *(f"releases/{RELEASE}-{{}}-empty.json", "site/{}-empty.json"),
    *(f"{version}/{{}}-empty.json" for version in CAPTURED),
    *(f"{version}/{{}}-empty-{parser}.json" for version, parser in OLDER),
]


def jobs_of(text: bytes) -> list[Any]:
    """Every fact of each record that is read, by the format that is recognised."""
    found = read(text, collector=format_of(AUTO, text))
    assert found.rejections == []
    return facts(found.batch)


def records(path: Path) -> set[Any]:
    """The same without the line, in which documents of one site differ."""
    return {fact[1:] for fact in jobs_of(path.read_bytes())}


@pytest.fixture
def slurm_dir(golden_dir: Path) -> Path:
    return golden_dir / "slurm"


@pytest.mark.parametrize("kind", KINDS)
def test_23_02_gives_the_records_of_a_real_22_05(slurm_dir: Path, kind: str) -> None:
    real = json.dumps({"jobs": jobs_of_22_05(kind), "errors": []}).encode()
    text = (slurm_dir / f"releases/{RELEASE}-{kind}.json").read_bytes()
    assert format_of(AUTO, text).name == KINDS[kind]
    assert jobs_of(text) == jobs_of(real) != []
    assert text.decode() == written(built(kind))


@pytest.mark.parametrize("version", CAPTURED)
def test_json_and_text_of_one_sacct_give_the_same_records(slurm_dir: Path, version: str) -> None:
    as_text = records(slurm_dir / version / "sacct-X-P-duplicates.txt")
    assert records(slurm_dir / version / "sacct.json") == as_text
    assert len(as_text) == 16


@pytest.mark.parametrize("version", CAPTURED)
def test_a_wckey_leaves_usage_at_account_and_user(slurm_dir: Path, version: str) -> None:
    """A star marks a user's default wckey; one named as another account's user moves no usage there."""
    folder = slurm_dir / version
    head, *rows = (folder / "sacct-X-P-duplicates.txt").read_text().splitlines()
    keys = ("*", "proj", "*proj", "bio", "dan")
    lines = [f"{head}|WCKey", *(f"{row}|{keys[n % len(keys)]}" for n, row in enumerate(rows))]
    plain = records(folder / "sacct-X-P-duplicates.txt")
    assert {fact[1:] for fact in jobs_of("".join(f"{line}\n" for line in lines).encode())} == plain
    first = head.replace("JobIDRaw|", "JobIDRaw|WCKey|", 1)  # a column of free text before those that are read
    lines = [first, *(row.replace("|", f"|{keys[n % len(keys)]}|", 1) for n, row in enumerate(rows))]
    assert {fact[1:] for fact in jobs_of("".join(f"{line}\n" for line in lines).encode())} == plain
    document = json.loads((folder / "sacct.json").read_text())
    for n, job in enumerate(document["jobs"]):
        assert job["wckey"] == {"wckey": "", "flags": []}
        job["wckey"] = {"wckey": keys[n % len(keys)].lstrip("*"), "flags": ["ASSIGNED_DEFAULT"] if n % 2 else []}
    assert {fact[1:] for fact in jobs_of(json.dumps(document).encode())} == plain


@pytest.mark.parametrize("version", CAPTURED)
def test_jobs_with_a_wckey_are_counted_by_name(slurm_dir: Path, version: str) -> None:
    """In accounting as text and as JSON, and in a listing; `*` alone is no wckey."""
    head, *rows = (slurm_dir / version / "sacct-X-P-duplicates.txt").read_text().splitlines()
    keys = ["proj", "*proj", "*", "", " "] + [""] * (len(rows) - 5)
    lines = [f"{head}|WCKey", *(f"{row}|{key}" for row, key in zip(rows, keys, strict=True))]
    assert _notes_of("".join(f"{line}\n" for line in lines).encode())[WCKEYS] == 2
    named = json.loads((slurm_dir / version / "sacct.json").read_text())
    for job, key in zip(named["jobs"], keys, strict=True):
        job["wckey"]["wckey"] = key
    assert _notes_of(json.dumps(named).encode())[WCKEYS] == 2
    queue = json.loads((slurm_dir / version / "squeue.json").read_text())
    for job, key in zip(queue["jobs"], keys, strict=False):
        job["wckey"] = key
    assert _notes_of(json.dumps(queue).encode())[WCKEYS] == 2
    assert WCKEYS not in _notes_of((slurm_dir / version / "squeue.json").read_bytes())


def test_a_wckey_that_other_free_text_hides_keeps_its_row() -> None:
    """Which of its parts is the wckey can't be said, nor matters: only the note is missing then."""
    text = (
        b"JobIDRaw|JobName|WCKey|Comment|User|Account|State|Submit|Start|End|AllocCPUS\n"
        b"1|plain|proj||ann|hep|COMPLETED|1767225600|1767225660|1767225720|2\n"
        b"2|a|b|proj||ann|hep|COMPLETED|1767225600|1767225660|1767225720|2\n"
    )
    assert len(jobs_of(text)) == 2
    assert _notes_of(text) == {WCKEYS: 1, "bars_in_text": 1}


def _notes_of(text: bytes) -> dict[str, int]:
    return read(text, collector=format_of(AUTO, text)).notes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("version", "parser"), OLDER)
def test_every_parser_gives_the_records_of_the_newest(slurm_dir: Path, version: str, parser: str, kind: str) -> None:
    """Of older ones one job of each state is in the file."""
    folder = slurm_dir / version
    for older, newest in (
        (f"{kind}-{parser}.json", f"{kind}.json"),
        (f"rest/{PLUGINS[kind]}-{parser}-jobs.json", f"rest/{PLUGINS[kind]}-{CAPTURED[version][-1]}-jobs.json"),
    ):
        assert format_of(AUTO, (folder / older).read_bytes()).name == KINDS[kind]
        assert set() != records(folder / older) <= records(folder / newest)


@pytest.mark.parametrize("version", CAPTURED)
def test_slurmrestd_answers_what_the_commands_print(slurm_dir: Path, version: str) -> None:
    """slurmrestd lists jobs that have ended, too."""
    folder, newest = slurm_dir / version, CAPTURED[version][-1]
    assert records(folder / f"rest/slurmdb-{newest}-jobs.json") == records(folder / "sacct.json")
    assert records(folder / "squeue.json") < records(folder / f"rest/slurm-{newest}-jobs.json")


def test_the_state_of_accounting_and_queue_is_a_base_with_flags(slurm_dir: Path) -> None:
    """slurmdbd stores no base beside a flag, which is PENDING then although the run has ended."""
    for version in CAPTURED:
        accounted = json.loads((slurm_dir / version / "sacct.json").read_text())["jobs"]
        words = {tuple(job["state"]["current"]) for job in accounted}
        assert {each for each in words if len(each) > 1} == {("PENDING", "REQUEUED"), ("PENDING", "RESIZING")}
        queued = json.loads((slurm_dir / version / "squeue.json").read_text())["jobs"]
        assert {tuple(job["job_state"]) for job in queued if len(job["job_state"]) > 1} == {("COMPLETED", "COMPLETING")}


@pytest.mark.parametrize("version", CAPTURED)
def test_a_shrunk_job_is_two_records_one_after_the_other(slurm_dir: Path, version: str) -> None:
    """The second row of `sacct` begins with the job, not with the change: charging it from there would count twice."""
    rows = [fact for fact in records(slurm_dir / version / "sacct.json") if fact[0] == b"1"]
    (shrunk, whole) = sorted(rows, key=lambda fact: fact[8])
    start, end = 6, 7
    assert (whole[8], shrunk[8]) == (2.0, 1.0), "processors"
    assert shrunk[start] == whole[end] >= whole[start]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", EMPTY)
def test_no_jobs_give_an_empty_listing_in_every_release(slurm_dir: Path, name: str, kind: str) -> None:
    text = (slurm_dir / name.format(kind)).read_bytes()
    assert format_of(AUTO, text).name == KINDS[kind]
    assert jobs_of(text) == []


@pytest.mark.parametrize("name", ["slurmctld-squeue.json", "slurmctld-slurmrestd-jobs.json"])
def test_a_listing_of_an_unavailable_controller_is_retried(slurm_dir: Path, name: str) -> None:
    """Its list of jobs is empty, and its error has no number of its own."""
    text = (slurm_dir / "site/down" / name).read_bytes()
    assert json.loads(text)["jobs"] == []
    with pytest.raises(Unavailable, match="can't be reached") as refusal:
        list(format_of(AUTO, text).parse(BytesIO(text), READING))
    assert refusal.value.code == "slurm_unreachable"
