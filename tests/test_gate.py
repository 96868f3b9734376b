"""What `make test` answers to runs that are aborted, unstable or broken: each rule on tests that were made so."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests import gate

REPOSITORY = Path(__file__).resolve().parent.parent
TODAY = date(2026, 11, 30)

_FINE = """
import pytest
from pathlib import Path

@pytest.mark.parametrize("n", range(20))
def test_fine(n):
    pass

def fail_once(name):
    mark = Path(name)
    was_here = mark.exists()
    mark.touch()
    assert was_here
"""
_UNSTABLE = """
def test_unstable():
    fail_once("mark")
"""
_BROKEN = """
def test_broken():
    assert False
"""
_SIX_UNSTABLE = """
@pytest.mark.parametrize("n", range(6))
def test_unstable(n):
    fail_once(f"mark{n}")
"""
_UNSTABLE_SETUP = """
@pytest.fixture
def made():
    fail_once("mark")

def test_unstable(made):
    pass
"""
_SKIPPED_AGAIN = """
def test_unstable():
    fail_once("mark")
    pytest.skip("not here")
"""
_CRASH = """
import os

def test_crash():
    try:
        fail_once("mark")
    except AssertionError:
        os._exit(3)
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


class Elsewhere:
    """A folder with tests of its own, whose runs are judged."""

    def __init__(self, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]) -> None:
        self._pytester, self._capfd = pytester, capfd

    def judge(self, *tests: str, hooks: str = "", options: tuple[str, ...] = (), unsteady: str = "") -> int:
        self._pytester.makepyfile(test_x=_FINE + "".join(tests))
        self._pytester.makeconftest('pytest_plugins = ["tests.whole_run"]\n' + hooks)
        named = [gate.UnsteadyTest(unsteady, "it failed", TODAY, TODAY)] if unsteady else []
        return gate.judge(["-p", "xdist", *options], named)

    def last_lines(self) -> list[str]:
        return [line for line in self._capfd.readouterr().out.splitlines() if line.startswith("UNST")]


@pytest.fixture
def elsewhere(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Elsewhere:
    for name in ("PYTEST_XDIST_WORKER", "DJANGO_SETTINGS_MODULE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # of which each run would import all
    return Elsewhere(pytester, capfd)


@pytest.mark.parametrize("tests", [_UNSTABLE, _UNSTABLE_SETUP], ids=["test", "fixture"])
def test_what_fails_once_is_unstable(elsewhere: Elsewhere, tests: str) -> None:
    assert elsewhere.judge(tests) == 0
    assert elsewhere.last_lines() == ["UNSTABLE test_x.py::test_unstable"]


@pytest.mark.parametrize(
    "tests", [(_UNSTABLE, _BROKEN), (_SIX_UNSTABLE,), (_SKIPPED_AGAIN,)], ids=["twice", "six", "skipped"]
)
def test_what_fails_twice_or_in_six_places_or_is_skipped_then_fails_the_run(
    elsewhere: Elsewhere, tests: tuple[str, ...]
) -> None:
    assert elsewhere.judge(*tests) == pytest.ExitCode.TESTS_FAILED
    assert not elsewhere.last_lines()


@pytest.mark.parametrize(
    ("tests", "hooks", "options"),
    [
        (_CRASH, "", ("-n", "2")),
        ("", _FULL_DISK, ()),
        ("", _FULL_DISK, ("-n", "2")),
        (_UNSTABLE, _FORGETFUL, ()),
        ("import no_such_module", "", ()),
    ],
    ids=["a crashed worker", "a full disk", "a full disk with workers", "a test not run", "a module not read"],
)
def test_an_aborted_run_is_not_tried_again(
    elsewhere: Elsewhere, tests: str, hooks: str, options: tuple[str, ...]
) -> None:
    status = elsewhere.judge(tests, hooks=hooks, options=options)
    assert status in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
    assert not elsewhere.last_lines()


def test_where_no_failures_can_be_kept_the_run_fails_without_running_everything_again(
    elsewhere: Elsewhere, pytester: pytest.Pytester
) -> None:
    pytester.path.joinpath(".pytest_cache").touch()
    assert elsewhere.judge(_UNSTABLE) == pytest.ExitCode.NO_TESTS_COLLECTED
    assert not elsewhere.last_lines()


def test_an_unsteady_test_is_printed_and_does_not_decide(elsewhere: Elsewhere) -> None:
    assert elsewhere.judge(_BROKEN, _UNSTABLE, unsteady="test_x.py::test_broken") == 0
    unsteady, unstable = elsewhere.last_lines()
    assert unsteady.startswith("UNSTEADY test_x.py::test_broken: failed (it failed")
    assert unstable == "UNSTABLE test_x.py::test_unstable"


def _listed(count: int, since: str = "2026-11-30", until: str = "2026-12-14", seen: str = "it failed") -> str:
    one = '[[test]]\nname = "tests/test_x.py::test_{}"\nseen = "{}"\nsince = {}\nuntil = {}\n'
    return "".join(one.format(n, seen, since, until) for n in range(count))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (_listed(9), "names 9 tests, 8 at most"),
        (_listed(1, since="2026-11-01", until="2026-11-15"), "and today is 2026-11-30"),
        (_listed(1, until="2026-12-15"), "over 14 days"),
        (_listed(1, seen=""), "what was seen"),
        ('[[test]]\nname = "x"\n', "seen"),
    ],
    ids=["ninth", "past its day", "too long", "without a reason", "incomplete"],
)
def test_the_list_of_unsteady_tests_has_bounds(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "unsteady.toml"
    path.write_text(text)
    with pytest.raises(gate.BadList, match=reason):
        gate.read_unsteady(path, TODAY)


def test_eight_unsteady_tests_are_listed_for_14_days(tmp_path: Path) -> None:
    path = tmp_path / "unsteady.toml"
    path.write_text(_listed(8))
    assert len(gate.read_unsteady(path, TODAY)) == 8
