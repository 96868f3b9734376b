"""The core without any plug-in: all its tests can be loaded, and some of each face pass (make test-core runs all)."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from apps.core.code_paths import REPOSITORY
from tests.conftest import WHOLE_PRODUCT

OF_THE_SUITE = ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "FAIRSHARE_CLOCK", "FAIRSHARE_TESTING", "FAIRSHARE_VAR")
FACES = (
    "tests/cli/test_sample.py",  # the command line
    "tests/pages/my_priority/test_my_priority.py",
    "tests/pages/overview/test_overview.py",
    "tests/pages/tree",
    "tests/test_idor_matrix.py::test_every_route_has_its_row",
    "tests/web/shell",
)
IN_SIGHT_OF_PLUGINS = re.compile(r"^\s*(?:from|import) apps\.contrib\b", re.MULTILINE)


def pytest_without_plugins(*arguments: str) -> str:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in OF_THE_SUITE and not name.startswith(("PYTEST_", "FAIRSHARE_TESTS_"))
    }
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=short", *arguments],
        cwd=REPOSITORY,
        env={**kept, "FAIRSHARE_PLUGINS_LEFT_OUT": "all"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]
    return ended.stdout


@pytest.mark.deep
def test_tests_that_import_plugins_are_loaded_without_them() -> None:
    """Of the test below what is likeliest to fail: an import at the head of a test of the core."""
    tests = REPOSITORY / "tests"
    files = [
        path.relative_to(REPOSITORY).as_posix()
        for path in sorted(tests.rglob("test_*.py"))
        if not {path.relative_to(tests).parts[0], path.relative_to(tests).as_posix()} & {"contrib", *WHOLE_PRODUCT}
        and IN_SIGHT_OF_PLUGINS.search(path.read_text("utf-8"))
    ]
    assert files
    assert " tests collected" in pytest_without_plugins("--collect-only", *files)


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_every_test_of_the_core_is_loaded_without_plugins() -> None:
    printed = pytest_without_plugins("--collect-only", "tests")
    assert int(re.findall(r"(\d+)(?:/\d+)? tests collected", printed)[-1]) > 8_000
    assert "tests/contrib" not in printed


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_tests_of_the_faces_pass_without_plugins() -> None:
    assert " passed" in pytest_without_plugins(*FACES)
