"""A run that was aborted fails, and gets no second chance."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
failed_of = runpy.run_path(str(REPOSITORY / ".ci/failed"))["failed_of"]

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


def run(elsewhere: pytest.Pytester, hooks: str, *options: str) -> tuple[int, list[str]]:
    """The exit status, and the tests that may run once more."""
    elsewhere.makeconftest('pytest_plugins = ["tests.whole_run"]\n' + hooks)
    ended = elsewhere.runpytest_subprocess("-p", "no:randomly", "-p", "no:django", *options)
    return int(ended.ret), failed_of(elsewhere.path / ".pytest_cache/v")


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_whole_run_names_its_failed_test(elsewhere: pytest.Pytester, options: tuple[str, ...]) -> None:
    assert run(elsewhere, "", *options) == (1, ["test_x.py::test_unstable"])


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_run_that_a_full_disk_ends_has_no_second_chance(elsewhere: pytest.Pytester, options: tuple[str, ...]) -> None:
    status, again = run(elsewhere, _FULL_DISK, *options)
    assert (status in (2, 3), again) == (True, [])


def test_a_test_that_was_collected_and_not_run_fails_the_run(elsewhere: pytest.Pytester) -> None:
    ended = run(elsewhere, _FORGETFUL, "--deselect", "test_x.py::test_unstable")
    assert ended == (3, [])


def test_a_run_of_which_nothing_is_known_has_no_second_chance(tmp_path: Path) -> None:
    assert failed_of(tmp_path) == []
