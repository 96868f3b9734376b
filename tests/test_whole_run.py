"""A run that was aborted fails, whatever the tests did that it came to."""

from __future__ import annotations

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent

_TESTS = """
import pytest

def test_unstable():
    assert False

@pytest.mark.parametrize("n", range(20))
def test_fine(n):
    pass
"""
_FULL_DISK = """
n_ended = 0

def pytest_runtest_logfinish():
    global n_ended
    n_ended += 1
    if n_ended == 5:
        raise OSError(28, "No space left on device")
"""
_FORGETFUL = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    return True if "fine[7]" in item.nodeid else None
"""


@pytest.fixture
def elsewhere(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    for name in ("PYTEST_XDIST_WORKER", "DJANGO_SETTINGS_MODULE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    pytester.makepyfile(test_x=_TESTS)
    return pytester


def run(elsewhere: pytest.Pytester, hooks: str, *options: str) -> int:
    """The exit status."""
    elsewhere.makeconftest('pytest_plugins = ["tests.whole_run"]\n' + hooks)
    return int(elsewhere.runpytest_subprocess("-p", "no:randomly", "-p", "no:django", *options).ret)


_ALONE_AND_WITH_WORKERS = pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])


@_ALONE_AND_WITH_WORKERS
def test_a_failed_test_fails_a_whole_run(elsewhere: pytest.Pytester, options: tuple[str, ...]) -> None:
    assert run(elsewhere, "", *options) == pytest.ExitCode.TESTS_FAILED


@_ALONE_AND_WITH_WORKERS
def test_a_run_that_a_full_disk_ends_fails(elsewhere: pytest.Pytester, options: tuple[str, ...]) -> None:
    status = run(elsewhere, _FULL_DISK, "--deselect", "test_x.py::test_unstable", *options)
    assert status in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)


def test_a_test_that_was_collected_and_not_run_fails_the_run(elsewhere: pytest.Pytester) -> None:
    assert run(elsewhere, _FORGETFUL, "--deselect", "test_x.py::test_unstable") == pytest.ExitCode.INTERNAL_ERROR
