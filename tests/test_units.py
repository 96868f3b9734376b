"""Units of systemd for a host without containers, as docs/first-site.md starts them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apps.core.code_paths import REPOSITORY
from tests.material import missing

FOLDER = REPOSITORY / "docs/examples/systemd"
UNITS = sorted(path.name for path in FOLDER.glob("*.service"))
ROLES = {"web", "worker", "outgoing", "beat"}
PROGRAM = "/opt/fairshare/bin/fairshare"
_MOST_EXPOSED = 15  # of 100, by the tool's own count; a unit without any of these settings has 96


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """With a program that is there, because the tool looks for it."""
    for name in UNITS:
        text = (FOLDER / name).read_text(encoding="utf-8").replace(PROGRAM, sys.executable)
        for each in [name.replace("@", f"@{role}") for role in sorted(ROLES)] if "@" in name else [name]:
            (tmp_path / each).write_text(text, encoding="utf-8")
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def analysed(*arguments: str, units: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze") or missing("no systemd-analyze", "apt-get install systemd")
    environment = {"SYSTEMD_UNIT_PATH": f"{units}:", "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [program, *arguments], cwd=units, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_units_are_valid(units: Path) -> None:
    services = [f"./{path.name}" for path in units.glob("*.service") if "@." not in path.name]
    assert len(services) == len(ROLES) + 1
    verified = analysed("verify", "--man=no", *services, units=units)
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


@pytest.mark.parametrize("unit", ["fairshare@web.service", "fairshare-prepare.service"])
def test_units_leave_little_to_a_process(unit: str, units: Path) -> None:
    judged = analysed("security", "--offline=true", f"--threshold={_MOST_EXPOSED}", f"./{unit}", units=units)
    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_units_start_roles_that_exist_with_one_hardening() -> None:
    texts = [(FOLDER / name).read_text(encoding="utf-8") for name in UNITS]
    assert [re.findall(rf"^ExecStart={PROGRAM} serve (\S+)$", text, re.M) for text in texts] == [["prepare"], ["%i"]]
    hardened = [text.partition("StateDirectory=")[2].partition("[Install]")[0].split() for text in texts]
    assert set(hardened[1]) - set(hardened[0]) == {"MemoryMax=4G"}, "tables may need more at once"
    page = (REPOSITORY / "docs/first-site.md").read_text(encoding="utf-8")
    assert set(re.findall(r"fairshare@(\w+)", page)) == (ROLES - {"outgoing"})


def test_units_may_write_the_documented_folder_of_backups_and_open_many_files() -> None:
    page = (REPOSITORY / "docs/first-site.md").read_text(encoding="utf-8")
    (folder,) = set(re.findall(r"FAIRSHARE_BACKUP_DIR=(/[\w/]+)", page))
    for name in UNITS:
        text = (FOLDER / name).read_text(encoding="utf-8")
        assert f"ReadWritePaths=-{folder}\n" in text
        assert int(re.findall(r"^LimitNOFILE=(\d+)$", text, re.M)[0]) > 1_024
