"""`make papers`: measure all that the appendix papers.md shows, and replace what differs; exits with 1 then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import django

from apps.core.code_paths import REPOSITORY
from docsite.marked_tests import marked_tests
from docsite.papers import records
from docsite.papers.records import Records, Report

_PROCESSES = 2


def main() -> int:
    report = run_tests()  # first: the suite chooses its settings itself
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
    django.setup()
    from docsite.pages import files
    from docsite.papers.measuring import measure_all

    curves, rms, rows = measure_all(_PROCESSES)
    measured = Records(tests=report, curves=curves, rms=rms, sweep=rows)
    changed = replace_text(records.PATH, records.text_of(measured))
    changed += [name for path, text in files() for name in replace_text(path, text)]
    for name in changed:
        print(f"{name} differs from what is committed and was replaced.", file=sys.stderr)
    return 1 if changed else 0


def run_tests() -> Report:
    """Run the tests that are marked with claims; SystemExit if one fails."""
    tests = sorted({test for tests in marked_tests("paper").values() for test in tests})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        options = ["-q", "-n", str(_PROCESSES), "--dist", "worksteal", "--paper-report", str(file)]
        ended = subprocess.run([sys.executable, "-m", "pytest", *options, *tests], cwd=REPOSITORY, check=False)
        if ended.returncode:
            raise SystemExit(ended.returncode)
        report: Report = json.loads(file.read_text(encoding="utf-8"))
    return report


def replace_text(path: Path, text: str) -> list[str]:
    """Write the file if it has another text; its name then."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return [str(path.relative_to(REPOSITORY))]


if __name__ == "__main__":
    sys.exit(main())
