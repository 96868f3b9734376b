"""What the benches share."""

from __future__ import annotations

import importlib
import itertools
import math
import os
import pkgutil
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import bench
from apps.contrib.starts.prediction.predictor import PastPromise
from apps.contrib.starts.prediction.promises import LEVELS, Outcome, Promise, WaitingJob
from apps.core import clock
from apps.core.code_paths import REPOSITORY
from bench import day_bytes, flux_tree, shapes, sizing, starts
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


@pytest.mark.deep
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


def test_each_constant_of_the_sizing_names_a_bench_that_measures_it() -> None:
    modules = {each.measured_by.removeprefix("bench ") for each in sizing.CONSTANTS.values()}
    assert {name for name in modules if not (Path(flux_tree.__file__).parent / f"{name}.py").is_file()} == set()


def test_each_bench_has_a_goal_on_the_page_of_scale() -> None:
    page = (REPOSITORY / "docs/scale.md").read_text(encoding="utf-8")
    table = page.partition("## Goals")[2].partition("## ")[0]
    named = [
        name for cell in re.findall(r"\| ([^|]+) \|$", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    ]
    modules = {module.name for module in pkgutil.iter_modules(bench.__path__) if module.name != "against"}
    measuring = {
        name for name in modules if {"measure", "measure_large"} & set(vars(importlib.import_module(f"bench.{name}")))
    }
    assert sorted(named) == sorted(measuring)


def test_larger_sites_need_more() -> None:
    for before, after in itertools.pairwise(map(sizing.needs_of, sizing.SITES)):
        assert all(more >= less for less, more in zip(before, after, strict=True))


def test_a_day_of_each_minute_logs_each_snapshot_and_keeps_one_an_hour() -> None:
    kinds = day_bytes.Kinds(
        extended=day_bytes.Written(500, 0), computed=day_bytes.Written(6_000, 5_000), removed=day_bytes.Written(100, 0)
    )
    assert kinds.day(1_440) == (1_440 * 6_000 + 1_416 * 100, 24 * 5_000)
    assert kinds.day(24) == (24 * 6_000 + 1_416 * 500, 24 * 5_000)


@pytest.mark.parametrize(("outcome", "share"), [(Outcome.KEPT, "1.000"), (Outcome.BROKEN, "0.000"), (None, "nan")])
def test_a_share_of_zero_is_shown_as_zero_and_no_promise_as_nan(outcome: Outcome | None, share: str) -> None:
    promise = Promise(WaitingJob("alice", 1.0, None), 0.0, 0.0, (60.0,) * len(LEVELS), "")
    settled = [] if outcome is None else [PastPromise(promise, (outcome,) * len(LEVELS), 60.0, None)]
    assert starts._by_job(settled).split() == [share] * len(LEVELS)
    assert starts._by_burst(settled).split() == [share] * len(LEVELS)


def test_a_share_of_nothing_misses_its_goal() -> None:
    line = starts._within("80 %", [0.0, 0.8], 0.7, 0.9)
    assert line.ratio == math.inf
