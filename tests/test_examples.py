"""Which examples a profile draws: `fresh` new ones in each run, and the same ones again by their seed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
_CONFTEST = """
from tests.examples import register_profiles

register_profiles()
pytest_plugins = ["tests.fresh_examples"]
"""
_TEST = """
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples


@examples(100)
@given(number=st.integers(0, 10**12))
def test_drawn(number):
    with open("drawn.txt", "a") as file:
        print(number, file=file)


@given(number=st.integers(0, 10**12))
def test_small(number):
    assert number < 1000
"""
_LITERALS = "NUMBERS = (123456789012, 987654321098, 555555555555)\n"


@pytest.fixture
def elsewhere(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    for name in ("PYTEST_XDIST_WORKER", "DJANGO_SETTINGS_MODULE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("CI", "true")  # by which hypothesis would choose a profile of its own
    pytester.makeconftest(_CONFTEST)
    pytester.makepyfile(test_x=_TEST)
    return pytester


def drawn(elsewhere: pytest.Pytester, *options: str) -> list[str]:
    file = elsewhere.path / "drawn.txt"
    file.unlink(missing_ok=True)
    ended = elsewhere.runpytest_subprocess(*options, "-k", "drawn", "-p", "no:randomly", "-p", "no:django")
    assert ended.ret == 0
    return file.read_text().split()


@pytest.mark.deep
def test_fresh_examples_are_others_in_each_run_and_fixed_ones_the_same(elsewhere: pytest.Pytester) -> None:
    fixed = drawn(elsewhere)
    assert drawn(elsewhere) == fixed
    one, two = (drawn(elsewhere, "--hypothesis-profile=fresh") for _ in range(2))
    assert len(set(one) - set(two)) > 10
    assert len(one) == 2 * len(fixed)


@pytest.mark.deep
def test_a_seed_draws_the_same_also_beside_other_modules_and_on_workers(elsewhere: pytest.Pytester) -> None:
    options = ("--hypothesis-profile=fresh", "--hypothesis-seed=7")
    alone = drawn(elsewhere, *options)
    elsewhere.makepyfile(test_literals=_LITERALS)
    assert drawn(elsewhere, *options) == alone
    assert drawn(elsewhere, *options, "-n", "2") == alone


@pytest.mark.deep
def test_a_failure_names_the_command_that_repeats_it(elsewhere: pytest.Pytester) -> None:
    ended = elsewhere.runpytest_subprocess(
        "--hypothesis-profile=fresh", "-n", "2", "-p", "no:randomly", "-p", "no:django"
    )
    text = ended.stdout.str()
    assert "@reproduce_failure" in text
    seed = re.search(r"--hypothesis-seed=(\d+) 'test_x\.py::test_small'", text)
    assert ended.ret == 1
    assert seed, text
    assert "number=1000," in text
    again = elsewhere.runpytest_subprocess("--hypothesis-profile=fresh", f"--hypothesis-seed={seed[1]}", "-k", "small")
    assert again.stdout.str().count("number=1000,") == text.count("number=1000,")
