"""What the benches share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from apps.core import clock
from bench import flux_tree, shapes
from bench.clock import stopped_clock

AT = datetime(2026, 6, 2, 6, tzinfo=UTC)


@pytest.mark.parametrize("clock_before", [None, "2026-01-31T12:00:00+00:00"])
def test_a_bench_that_stops_the_clock_restores_the_environment(
    monkeypatch: pytest.MonkeyPatch, clock_before: str | None
) -> None:
    if clock_before is None:
        monkeypatch.delenv(clock.VARIABLE, raising=False)
    else:
        monkeypatch.setenv(clock.VARIABLE, clock_before)
    before = dict(os.environ)
    with pytest.raises(ZeroDivisionError):
        fail_under_a_stopped_clock()
    assert dict(os.environ) == before


def fail_under_a_stopped_clock() -> None:
    with stopped_clock(AT):
        assert clock.now() == AT
        print(1 / 0)


@pytest.fixture(scope="module")
def walk_in_cpp() -> Iterator[Path]:
    try:
        with flux_tree.compiled() as program:
            yield program
    except flux_tree.NoCompiler as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("shape", [shapes.standard, shapes.tie_heavy, shapes.all_idle, shapes.flat, shapes.six_levels])
@pytest.mark.parametrize("n_leaves", [1, 3_000])
def test_the_walk_in_cpp_ranks_users_as_the_engine_does(
    walk_in_cpp: Path, shape: Callable[[int], shapes.Shape], n_leaves: int
) -> None:
    tree, usage = flux_tree.whole_usage(*shape(n_leaves))
    with flux_tree.FluxTree(walk_in_cpp, tree, usage) as theirs:
        assert theirs.walk_s() > 0
        flux_tree.check_equal_order(theirs.finish(), tree, usage)


def test_a_rank_that_differs_from_the_walk_in_cpp_is_named() -> None:
    tree, usage = flux_tree.whole_usage(*shapes.standard(200))
    with pytest.raises(AssertionError, match="200 of 204 ranks differ"):
        flux_tree.check_equal_order(np.full(tree.n_entries, -1), tree, usage)


def test_without_a_compiler_the_walk_is_left_out_and_the_reason_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(flux_tree, "COMPILERS", ("no-such-compiler",))
    assert list(flux_tree.measure()) == []
    assert "flux_tree is left out: no C++ compiler here" in capsys.readouterr().err


def test_a_compiler_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flux_tree, "COMPILERS", ("false",))
    with pytest.raises(flux_tree.NoCompiler, match="false fails"), flux_tree.compiled():
        pass
