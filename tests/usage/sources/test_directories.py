"""Watched directories: real files, each counted once, however they grow, move, and are cut off."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Import, Record, RejectedLine, Source
from apps.usage.quality.findings import list_reasons
from apps.usage.services import NewSource, make_source
from apps.usage.sources.schedule import enqueue_collection
from tests.instants import AT

pytestmark = pytest.mark.django_db

HEADER = "; UnixStartTime: 1132444805\n"
Watch = Callable[..., Source]


def line(job: int) -> str:
    return f"{job} {job * 7} -1 3000 {1 + job % 3} -1 -1 -1 -1 -1 1 {job % 5} {job % 2} -1 -1 1 -1 -1\n"


def log(*jobs: int) -> str:
    return HEADER + "".join(map(line, jobs))


def put(path: Path, text: str | bytes, *, age_s: float = 600) -> None:
    """As if it had been written so long ago."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    settle(path, age_s)


def settle(path: Path, age_s: float = 600) -> None:
    written = (datetime.fromtimestamp(path.stat().st_mtime, UTC)).timestamp() - age_s
    os.utime(path, (written, written))


@pytest.fixture
def watch(tmp_path: Path, settings: Any) -> Watch:
    """A source that watches a folder `spool`."""
    spool = tmp_path / "spool"
    spool.mkdir()
    settings.FAIRSHARE_COLLECT_FOLDERS = [str(tmp_path)]

    def make(**terms: Any) -> Source:
        source = make_source(NewSource(slug="watched", name="Watched"), at=AT, actor=COMMAND)
        source.kind = Source.Kind.DIRECTORY
        whole = {"folder": str(spool), "pattern": "*", "files": "whole", "format": "auto", "settle_s": 60}
        source.collecting = {**whole, **terms}
        source.collect_every_s = 300
        source.save()
        return source

    return make


def collect(source: Source) -> Run:
    from apps.core import clock

    source.refresh_from_db()
    return work_run_now(enqueue_collection(source, at=clock.now()).pk)


def counts(run: Run) -> dict[str, int]:
    assert run.state == "succeeded", run.error
    return {name: n for name, n in run.counts.items() if n} if run.counts else {}


def jobs() -> list[int]:
    return sorted(int(job) for job in Record.objects.values_list("job", flat=True))


def test_finished_files_are_read_once_plain_and_compressed(watch: Watch, tmp_path: Path) -> None:
    source = watch()
    put(tmp_path / "spool/a.swf", log(1, 2))
    put(tmp_path / "spool/b.swf.gz", gzip.compress(log(3).encode()))
    assert counts(collect(source)) == {"new": 3, "lines": 5}
    assert counts(collect(source)) == {}
    put(tmp_path / "spool/c.swf", log(4))
    assert counts(collect(source)) == {"new": 1, "lines": 2}
    assert jobs() == [1, 2, 3, 4]
    source.refresh_from_db()
    assert (source.collect_error, source.n_records) == ("", 4)
    assert source.collected_at is not None
    assert source.collect_due_at is not None
    assert source.collect_due_at - source.collected_at == timedelta(seconds=300)


def test_a_renamed_file_is_not_read_again_and_a_replaced_one_is(watch: Watch, tmp_path: Path) -> None:
    source = watch()
    put(tmp_path / "spool/a.swf", log(1))
    collect(source)
    (tmp_path / "spool/a.swf").rename(tmp_path / "spool/a.swf.1")
    put(tmp_path / "spool/a.swf", log(2))
    assert counts(collect(source)) == {"new": 1, "lines": 2}
    (tmp_path / "spool/a.swf.1").unlink()
    collect(source)
    put(tmp_path / "spool/again.swf", log(1))
    assert counts(collect(source)) == {}
    put(tmp_path / "spool/a.swf", log(2, 3))
    assert counts(collect(source)) == {"new": 1, "duplicate": 1, "lines": 3}


def test_a_removed_file_that_comes_back_by_another_name_is_not_read_again(watch: Watch, tmp_path: Path) -> None:
    source = watch()
    put(tmp_path / "spool/a.swf", log(1))
    assert counts(collect(source)) == {"new": 1, "lines": 2}
    (tmp_path / "spool/a.swf").unlink()
    collect(source)
    put(tmp_path / "spool/again.swf", log(1))
    assert counts(collect(source)) == {}


def test_growing_hidden_linked_and_special_files_are_skipped(watch: Watch, tmp_path: Path) -> None:
    source = watch(pattern="*.swf*")
    spool = tmp_path / "spool"
    put(spool / "fresh.swf", log(1), age_s=5)
    put(spool / ".hidden.swf", log(2))
    put(spool / "half.swf.part", log(3))
    put(spool / "other.log", log(4))
    put(tmp_path / "outside.swf", log(5))
    (spool / "link.swf").symlink_to(tmp_path / "outside.swf")
    os.mkfifo(spool / "pipe.swf")
    (spool / "folder.swf").mkdir()
    assert counts(collect(source)) == {}
    settle(spool / "fresh.swf")
    assert counts(collect(source)) == {"new": 1, "lines": 2}


def test_an_unreadable_file_is_reported_and_blocks_no_other(watch: Watch, tmp_path: Path) -> None:
    source = watch()
    put(tmp_path / "spool/1.gz", gzip.compress(log(1).encode())[:-9], age_s=900)
    put(tmp_path / "spool/2.txt", "what is this?\n", age_s=800)
    put(tmp_path / "spool/3.swf", log(3))
    assert counts(collect(source)) == {"new": 1, "lines": 2}
    source.refresh_from_db()
    assert "1.gz: " in source.collect_error
    assert "2.txt: The file's format isn't recognised" in source.collect_error
    found = source.collect_error
    assert counts(collect(source)) == {}
    source.refresh_from_db()
    assert source.collect_error == found
    put(tmp_path / "spool/1.gz", gzip.compress(log(1).encode()), age_s=500)
    (tmp_path / "spool/2.txt").unlink()
    assert counts(collect(source)) == {"new": 1, "lines": 2}
    source.refresh_from_db()
    assert source.collect_error == ""


def test_rejected_lines_are_listed_with_file_and_line(watch: Watch, tmp_path: Path) -> None:
    source = watch()
    put(tmp_path / "spool/a.swf", log(1) + "1 2 3\n", age_s=900)
    put(tmp_path / "spool/b.swf", log(2) + "4 5 6\n")
    assert counts(collect(source)) == {"new": 2, "rejected": 2, "lines": 6}
    lines = RejectedLine.objects.order_by("line")
    assert [one.message.partition(":")[0] for one in lines] == ["a.swf line 3", "b.swf line 3"]
    assert Import.objects.get().source == source
    (reason,) = list_reasons(since_at=AT, actor=COMMAND)
    assert (reason.source, reason.n_lines) == ("watched", 2)
    Import.objects.update(dry_run=True)
    assert list_reasons(since_at=AT, actor=COMMAND) == []


def test_a_growing_file_is_read_from_its_last_complete_line(watch: Watch, tmp_path: Path) -> None:
    source = watch(files="grow", pattern="acct*")
    path = tmp_path / "spool/acct"
    path.write_text(log(1, 2) + line(3)[:20])
    assert counts(collect(source)) == {"new": 2, "lines": 3}
    with path.open("a") as file:
        file.write(line(3)[20:] + line(4))
    assert counts(collect(source)) == {"new": 2, "lines": 2}
    assert counts(collect(source)) == {}
    assert jobs() == [1, 2, 3, 4]


def test_rotation_by_renaming_loses_no_line_and_reads_none_twice(watch: Watch, tmp_path: Path) -> None:
    source = watch(files="grow", pattern="acct")  # the name of the rotated one doesn't even match
    path = tmp_path / "spool/acct"
    path.write_text(log(1, 2))
    collect(source)
    with path.open("a") as file:
        file.write(line(3))
    path.rename(tmp_path / "spool/acct.1")
    path.write_text(log(4))
    assert counts(collect(source)) == {"new": 2, "lines": 3}
    with path.open("a") as file:
        file.write(line(5))
    assert counts(collect(source)) == {"new": 1, "lines": 1}
    assert jobs() == [1, 2, 3, 4, 5]


def test_rotation_by_copy_and_truncation_is_followed_too(watch: Watch, tmp_path: Path) -> None:
    source = watch(files="grow", pattern="acct*")
    path = tmp_path / "spool/acct"
    path.write_text(log(1, 2, 3))
    collect(source)
    with path.open("a") as file:
        file.write(line(4))
    shutil.copyfile(path, tmp_path / "spool/acct.1")
    os.truncate(path, 0)
    with path.open("a") as file:
        file.write(log(5))
    assert counts(collect(source)) == {"new": 2, "lines": 3}
    assert counts(collect(source)) == {}
    assert jobs() == [1, 2, 3, 4, 5]


def test_a_truncated_and_regrown_file_is_read_from_the_start(watch: Watch, tmp_path: Path) -> None:
    source = watch(files="grow")
    path = tmp_path / "spool/acct"
    path.write_text(log(1, 2))
    collect(source)
    inode = path.stat().st_ino
    os.truncate(path, 0)
    with path.open("a") as file:
        file.write(log(11, 12, 13, 14))
    assert path.stat().st_ino == inode
    assert counts(collect(source)) == {"new": 4, "lines": 5}


def test_compressed_rotations_of_a_growing_file_are_not_read(watch: Watch, tmp_path: Path) -> None:
    source = watch(files="grow")
    (tmp_path / "spool/acct").write_text(log(1))
    (tmp_path / "spool/acct.1.gz").write_bytes(gzip.compress(log(1).encode()) + b"\n")
    assert counts(collect(source)) == {"new": 1, "lines": 2}


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("/etc", "FAIRSHARE_COLLECT_FOLDERS"),
        ("spool/../../..", "FAIRSHARE_COLLECT_FOLDERS"),
        ("relative", "absolute path"),
    ],
)
def test_a_folder_not_permitted_by_the_operator_is_not_read(
    where: str, found: str, watch: Watch, tmp_path: Path
) -> None:
    source = watch(folder=where if where.startswith(("/", "rel")) else str(tmp_path / where))
    run = collect(source)
    assert (run.state, run.error_code) == ("failed", "folder_not_allowed")
    source.refresh_from_db()
    assert found in source.collect_error
    assert not Record.objects.exists()


def test_a_folder_replaced_by_a_link_is_not_read(watch: Watch, tmp_path: Path, settings: Any) -> None:
    place = tmp_path / "allowed"
    (place / "spool").mkdir(parents=True)
    settings.FAIRSHARE_COLLECT_FOLDERS = [str(place)]
    source = watch(folder=str(place / "spool"))
    assert collect(source).state == "succeeded"
    (tmp_path / "secret").mkdir()
    put(tmp_path / "secret/a.swf", log(1))
    (place / "spool").rmdir()
    (place / "spool").symlink_to(tmp_path / "secret")
    assert collect(source).error_code == "folder_not_allowed"
    assert jobs() == []


def test_failures_back_off_and_stored_records_stay(watch: Watch, tmp_path: Path) -> None:
    source = watch()
    put(tmp_path / "spool/a.swf", log(1))
    collect(source)
    shutil.move(tmp_path / "spool", tmp_path / "gone")
    waits = []
    for _ in range(4):
        run = collect(source)
        assert run.state == "failed"
        source.refresh_from_db()
        assert source.collect_due_at is not None
        assert run.finished_at is not None
        waits.append(round((source.collect_due_at - run.finished_at).total_seconds(), -1))
    assert waits == [60, 120, 240, 480]
    assert (source.collect_error[:18], jobs()) == ("There is no folder", [1])
    shutil.move(tmp_path / "gone", tmp_path / "spool")
    assert counts(collect(source)) == {}
    source.refresh_from_db()
    assert source.collect_error == ""
