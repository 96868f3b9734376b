"""A test of many cases tries all of them, and its failure names those that failed."""

from __future__ import annotations

import pytest

from tests.each_case import CasesFailed, each_case

TESTS = """
import pytest
from tests.each_case import each_case

@pytest.fixture
def ten():
    return 10

@each_case(("n", "text"), [(1, "one"), pytest.param(2, "two", id="second"), (3, "three")])
@each_case("most", [2, 10])
def test_of_cases(ten, n, text, most):
    assert n < most, f"{text} is too large, of {ten}"

@each_case("n", range(3), ids=lambda n: f"number {n}")
def test_that_raises_nothing(n):
    with pytest.raises(ValueError):
        int("1") if n else int("")

@each_case("n", [1])
def test_that_is_skipped(n):
    pytest.skip("not here")

@each_case("n", [1, 2])
def test_that_passes(ten, n):
    assert n < ten
"""


def test_each_failed_case_is_named_with_its_reason(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:django")
    result.assert_outcomes(failed=3, passed=1)
    result.stdout.fnmatch_lines_random(
        [
            "*2 of 6 cases failed:",
            "*[[]1 second[]]-[[]0 2[]]: AssertionError: two is too large, of 10*",
            "*[[]2 3-'three'[]]-[[]0 2[]]: AssertionError: three is too large, of 10*",
            "*2 of 3 cases failed:",
            "*[[]1 number 1[]]: Failed: DID NOT RAISE*",
            "*[[]2 number 2[]]: Failed: DID NOT RAISE*",
            "*1 of 1 cases failed:",
            "*[[]0 1[]]: Skipped: not here*",
        ]
    )


def test_all_failures_beyond_those_that_are_shown_whole_are_named() -> None:
    @each_case("n", range(100))
    def check(n: int) -> None:
        raise ValueError(f"no {n}")

    with pytest.raises(CasesFailed) as refusal:
        check()
    text = str(refusal.value)
    assert all(f"[{n} {n}]" in text for n in range(100))
    assert len(text.splitlines()) < 40


def test_cases_that_would_not_be_tried_are_refused() -> None:
    def check(n: int) -> None: ...

    with pytest.raises(TypeError, match="Case 1 has marks"):
        each_case("n", [1, pytest.param(2, marks=pytest.mark.deep)])
    with pytest.raises(ValueError, match="Case 0 has 3 values for a, b"):
        each_case("a, b", [(1, 2, 3)])
    with pytest.raises(ValueError, match="tests nothing"):
        each_case("n", [])
    with pytest.raises(TypeError, match="check doesn't take m"):
        each_case("m", [1])(check)
