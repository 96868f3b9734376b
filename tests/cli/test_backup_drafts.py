"""What a killed backup or restore left is found, named and removed, and nothing of a process that lives."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.cli.backup.drafts import BACKUP_FOLDER, abandoned_folders, draft_folder, remove_abandoned_folders
from apps.cli.backup.making import abandoned_drafts
from apps.cli.doctor.check import Finding
from apps.cli.doctor.instance import check_backups
from apps.cli.stack.processes import started_at
from apps.usage.records import uploads
from tests.cli.test_backup import NOW, Machine, site, site_url
from tests.priority_site import Site

__all__ = ["site"]  # fixture
DRAFT = ".fairshare-20261120T120002Z.backup"


def named_by_doctor() -> list[str]:
    return [each.message for each in check_backups(NOW) if isinstance(each, Finding) and each.name.startswith("aband")]


@pytest.mark.faults
@pytest.mark.fault("F27")
@pytest.mark.django_db(transaction=True)
def test_what_a_killed_backup_left_is_named_by_doctor_and_removed_by_the_next_one(
    site: Site, tmp_path: Path, settings: Any
) -> None:
    here, folder = Machine(site_url(), tmp_path / "var"), tmp_path / "daily"
    folder.mkdir()
    settings.VAR, settings.FAIRSHARE_BACKUP_DIR = here.var, str(folder)
    uploads.store(io.BytesIO(b"waiting"))
    killed = here.run("backup", "--dir", str(folder), FAULT="backup_dumped:kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    (draft,) = folder.iterdir()
    assert draft.name.startswith(f"{DRAFT}.")
    (held,) = here.var.glob(".backup-*")
    assert [path.read_bytes() for path in held.rglob("*") if path.is_file()] == [b"waiting"]
    (named,) = named_by_doctor()
    assert str(draft) in named
    assert str(held) in named
    made = here.run("backup", "--dir", str(folder), "--keep", "2")
    assert made.returncode == 0, made.stderr.decode()
    assert [path.name for path in folder.iterdir()] == [DRAFT[1:]]
    assert list(here.var.glob(".backup-*")) == []
    assert named_by_doctor() == []


def test_drafts_of_living_processes_and_files_of_others_stay(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead, living, locked = (tmp_path / f"{DRAFT}.{pid}" for pid in (ended.pid, os.getpid(), ended.pid + 1_000_000))
    others = [tmp_path / name for name in (".cache.12", f"{DRAFT}.new", DRAFT[1:], f".site.backup.{ended.pid}")]
    for path in (dead, living, locked, *others):
        path.write_text("x")
    with locked.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert list(abandoned_drafts(tmp_path)) == [dead]
    assert set(abandoned_drafts(tmp_path)) == {dead, locked}
    assert list(abandoned_drafts(tmp_path, "site.backup"))[-1] == others[-1], "by the name that is written now"
    os.utime(living, (1, 1))
    assert living in abandoned_drafts(tmp_path), "its number belongs to a later process"
    assert abs((started_at(os.getpid()) or 0) - Path("/proc/self").stat().st_mtime) < 1000


def test_folders_in_use_stay_and_those_of_the_dead_go_at_the_next_start(tmp_path: Path) -> None:
    for name in (".restore-abc", ".backup-def", "pg"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret_key").write_text("x")
    with draft_folder(tmp_path, BACKUP_FOLDER) as in_use:
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [in_use.name, "pg"]
        (tmp_path / ".restore-abc").mkdir()
        remove_abandoned_folders(tmp_path)
        assert in_use.is_dir()
        assert list(abandoned_folders(tmp_path)) == []
        assert not (tmp_path / ".restore-abc").exists()
    assert not in_use.exists()


@pytest.mark.django_db(transaction=True)
def test_a_backup_on_a_full_disk_says_so_in_a_sentence(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CommandError, match=f"No room is left on the disk of {tmp_path / 'x.backup'}. Free some"):
        call_command("backup", str(tmp_path / "x.backup"))
    assert list(tmp_path.iterdir()) == []
