"""Missing material is skipped with its remedy, fails where it is required, and is counted once at the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.material import GOLDEN, REPOSITORY, find_browser, missing

LARGEST = 6_000_000  # bytes of golden data altogether; captures of three releases of Slurm are half of it


@pytest.mark.parametrize("value", [None, "", "0"])
def test_missing_material_is_skipped_regardless_of_ci(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv("FAIRSHARE_REQUIRE_ALL", raising=False)
    if value is not None:
        monkeypatch.setenv("FAIRSHARE_REQUIRE_ALL", value)
    with pytest.raises(pytest.skip.Exception, match="no browser; install one"):
        missing("no browser", "install one")


def test_missing_material_fails_if_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_REQUIRE_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match="no browser; install one"):
        missing("no browser", "install one")


@pytest.mark.parametrize(
    ("named", "found"), [("/nowhere/chromium", "CHROME_BIN names /nowhere/chromium"), ("", "no Chromium")]
)
def test_a_missing_browser_is_reported_with_the_remedy(named: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRSHARE_REQUIRE_ALL", raising=False)
    monkeypatch.setenv("CHROME_BIN", named)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest.skip.Exception, match=found):
        find_browser()


@pytest.mark.parametrize("workers", [pytest.param((), marks=pytest.mark.deep), ("-n", "1")])
def test_skipped_material_is_counted_once_at_the_end(workers: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_two.py").write_text(
        "import pytest\nfrom tests.material import missing\n"
        "@pytest.mark.parametrize('n', range(2))\ndef test_one(n): missing('no browser', 'install one')\n"
        "@pytest.mark.skipif(True, reason='run as root')\ndef test_root(): pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.material", "-p", "no:django", *workers, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": ""},
    )
    assert done.stdout.count("NOT TESTED: 3 cases") == 1, done.stdout + done.stderr
    assert done.stdout.count("    2  no browser; install one") == 1
    assert done.stdout.count("    1  run as root") == 1


def test_golden_data_stay_small() -> None:
    assert sum(path.stat().st_size for path in GOLDEN.rglob("*") if path.is_file()) < LARGEST
