"""Tests that took long in the last run come first, an equal share of them in each worker, and modules stay whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.longest_first import KEPT, deal

REPOSITORY = Path(__file__).resolve().parent.parent
_TESTS = """
import os, pytest

@pytest.mark.parametrize("n", range(9))
def test_n(n):
    with open("order.txt", "a") as file:
        print(os.environ.get("PYTEST_XDIST_WORKER"), n, file=file)

@pytest.mark.timeout(900)
def test_of_long_patience():
    with open("order.txt", "a") as file:
        print(os.environ.get("PYTEST_XDIST_WORKER"), "patient", file=file)
"""


@pytest.fixture
def elsewhere(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    for name in ("PYTEST_XDIST_WORKER", "DJANGO_SETTINGS_MODULE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    pytester.makeconftest('pytest_plugins = ["tests.longest_first"]\n')
    pytester.makepyfile(test_x=_TESTS)
    return pytester


def order(elsewhere: pytest.Pytester, *options: str, passed: int = 10) -> list[str]:
    (elsewhere.path / "order.txt").unlink(missing_ok=True)
    ended = elsewhere.runpytest_subprocess("-p", "no:randomly", "-p", "no:django", "-o", "timeout=300", *options)
    ended.assert_outcomes(passed=passed)
    return (elsewhere.path / "order.txt").read_text().splitlines()


def remember(elsewhere: pytest.Pytester, took: dict[str, float]) -> None:
    path = elsewhere.path / ".pytest_cache/v" / KEPT
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(took))


def test_a_first_run_begins_with_tests_that_may_take_long(elsewhere: pytest.Pytester) -> None:
    assert [line.split()[1] for line in order(elsewhere)][:3] == ["patient", "0", "1"]


def test_the_longest_of_the_last_run_is_first(elsewhere: pytest.Pytester) -> None:
    remember(elsewhere, {"test_x.py::test_n[5]": 10.0, "test_x.py::test_n[7]": 90.0})
    assert [line.split()[1] for line in order(elsewhere)][:3] == ["7", "5", "0"]


def test_two_workers_begin_with_a_long_one_each(elsewhere: pytest.Pytester) -> None:
    remember(elsewhere, {"test_x.py::test_n[5]": 10.0, "test_x.py::test_n[7]": 90.0})
    lines = order(elsewhere, "-n", "2", "--dist", "worksteal")
    first = {line.split()[0]: line.split()[1] for line in reversed(lines)}
    assert sorted(first.values()) == ["5", "7"]


def test_a_run_keeps_what_took_long_and_forgets_what_no_longer_does(elsewhere: pytest.Pytester) -> None:
    remember(elsewhere, {"test_x.py::test_n[5]": 10.0, "test_elsewhere.py::test_y": 9.0})
    order(elsewhere)
    kept = json.loads((elsewhere.path / ".pytest_cache/v" / KEPT).read_text())
    assert kept == {"test_elsewhere.py::test_y": 9.0}


def test_a_fixture_of_a_module_is_made_once_although_only_one_of_its_tests_takes_long(
    elsewhere: pytest.Pytester,
) -> None:
    shared = """
import pytest

@pytest.fixture(scope="module")
def site():
    with open("order.txt", "a") as file:
        print("here", "site", file=file)
"""
    test = 'def test_{n}({site}):\n    with open("order.txt", "a") as file:\n        print("here", "{n}", file=file)\n'
    tests = [test.format(n=n, site="site" if n in "ac" else "") for n in "abc"]
    elsewhere.makepyfile(test_x=shared + "\n".join(tests), test_y=test.format(n="y", site=""))
    remember(elsewhere, {"test_y.py::test_y": 50.0, "test_x.py::test_c": 60.0})
    lines = order(elsewhere, passed=4)
    assert [line.split()[1] for line in lines] == ["site", "a", "c", "y", "b"]


@given(n=st.integers(0, 40), sizes=st.lists(st.integers(1, 5)), n_workers=st.integers(1, 6))
def test_each_test_is_dealt_once(n: int, sizes: list[int], n_workers: int) -> None:
    long = [(10.0, [(at, i) for i in range(size)]) for at, size in enumerate(sizes)]
    others = [(-1, i) for i in range(n)]
    assert sorted(deal(long, others, n_workers)) == sorted([*others, *(item for _, group in long for item in group)])


def test_long_groups_are_dealt_by_their_seconds() -> None:
    long = [(50.0, ["a", "a"]), (30.0, ["b"]), (15.0, ["c"]), (9.0, ["d"])]
    assert deal(long, ["x", "y", "z"], 2) == ["a", "a", "x", "y", "b", "c", "d", "z"]


def test_no_test_has_a_limit_below_that_of_the_suite(pytestconfig: pytest.Config) -> None:
    """It says that a test takes long, and it would only fail on a machine that others use as well."""
    usual_s = float(pytestconfig.getini("timeout"))
    limits = {
        f"{path.relative_to(REPOSITORY)}: {limit}"
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        for limit in re.findall(r"mark\.timeout\((\d+)\)", path.read_text(encoding="utf-8"))
        if float(limit) < usual_s
    }
    assert limits == set()
