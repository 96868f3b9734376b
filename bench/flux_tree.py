"""flux-accounting's walk in C++ beside the engine's `flux`, from usage of the leaves to ranks, in processor time.

`flux_tree.cpp` is that algorithm written anew. It is compiled at the beginning; without a compiler nothing is measured,
and the reason is printed. Rounds alternate. Both rank the standard trees, and the ranks of all users
have to be equal.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from apps.engine import fast
from apps.engine.algorithms import compute
from apps.engine.arrays import FloatArray, IntArray
from apps.engine.tree import FairshareTree
from bench import shapes
from bench.report import BenchLine

SOURCE = Path(__file__).with_suffix(".cpp")
COMPILERS = (os.environ.get("CXX", ""), "g++", "c++", "clang++")
GOALS = {100_000: 0.4, 1_000_000: 0.27}  # with [fast]; numpy alone passes a dozen times over each column
ROUNDS = {100_000: 21, 1_000_000: 7}
ALGORITHM = {"name": "flux"}


class NoCompiler(Exception):
    """There is no C++ compiler, or it fails."""


def measure() -> Iterator[BenchLine]:
    """Ours / theirs at each size, median of rounds in turn; the goals are for [fast]."""
    try:
        with compiled() as program:
            for n_leaves in GOALS:
                yield _line(program, n_leaves)
    except NoCompiler as reason:
        print(f"flux_tree is left out: {reason}", file=sys.stderr)


def _line(program: Path, n_leaves: int) -> BenchLine:
    tree, usage = whole_usage(*shapes.standard(n_leaves))
    rounds = ROUNDS[n_leaves]
    with FluxTree(program, tree, usage) as theirs:
        plain = _rounds(tree, usage, theirs, rounds, is_fast=False)
        with_kernels = _rounds(tree, usage, theirs, rounds, is_fast=True) if fast.IS_INSTALLED else None
        check_equal_order(theirs.finish(), tree, usage)
    ours = with_kernels or plain
    name = f"fair tree (flux), {n_leaves:,} leaves / flux-accounting's walk in C++"
    detail = f"{ours.ours * 1e3:.2f} / {ours.theirs * 1e3:.2f} ms; {tree.n_entries:,} entries, ranks equal"
    detail += f"; {plain.ours / plain.theirs:.2f} by numpy alone"
    return BenchLine(name, ours.ours / ours.theirs, GOALS[n_leaves] if with_kernels else None, detail)


class _Seconds(NamedTuple):
    ours: float
    theirs: float


def _rounds(tree: FairshareTree, usage: FloatArray, theirs: FluxTree, rounds: int, *, is_fast: bool) -> _Seconds:
    """Medians; the first round, which prepares the tree and compiles, isn't counted."""
    ours_s, theirs_s = [], []
    with fast.switched(is_fast):
        for _ in range(rounds + 1):
            theirs_s.append(theirs.walk_s())
            began = time.process_time()
            compute(tree, usage, algorithm=ALGORITHM)
            ours_s.append(time.process_time() - began)
    return _Seconds(statistics.median(ours_s[1:]), statistics.median(theirs_s[1:]))


def whole_usage(tree: FairshareTree, usage: FloatArray) -> tuple[FairshareTree, FloatArray]:
    """Usage as flux-accounting has it: whole numbers, here milliseconds."""
    return tree, np.floor(usage * 1000.0)


def check_equal_order(ahead: IntArray, tree: FairshareTree, usage: FloatArray) -> None:
    """Raise AssertionError unless all users have the engine's rank."""
    result = compute(tree, usage, algorithm=ALGORITHM)
    ours = np.where(result.is_ranked, result.rank - 1, -1)
    n_different = int(np.count_nonzero(ours != ahead))
    assert not n_different, f"{n_different:,} of {tree.n_entries:,} ranks differ from the walk in C++"


class FluxTree:
    """The compiled program on one tree: a round for each call of `walk_s`."""

    def __init__(self, program: Path, tree: FairshareTree, usage: FloatArray) -> None:
        totals = usage.copy()
        for level in reversed(tree.levels):  # as its database has them
            totals[level.parents] += np.add.reduceat(totals[level.lo : level.hi], level.starts)
        self._place = tempfile.TemporaryDirectory(prefix="fairshare-bench-")
        columns = Path(self._place.name) / "columns"
        self._ahead = Path(self._place.name) / "ahead"
        with columns.open("wb") as file:
            for column, kind in (
                (np.array([tree.n_entries]), np.int64),
                (tree.parent, np.int64),
                (tree.shares, np.uint64),
                (totals, np.uint64),
                (tree.is_ranked, np.uint8),
            ):
                file.write(column.astype(kind).tobytes())
        command = [str(program), str(columns), str(self._ahead)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> FluxTree:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._place.cleanup()

    def walk_s(self) -> float:
        """Seconds of processor time of one walk over a fresh tree."""
        to, answers = self._process.stdin, self._process.stdout
        assert to is not None
        assert answers is not None
        _send_line(to)
        return float(answers.readline())

    def finish(self) -> IntArray:
        """End the program; return the users strictly ahead of each entry in its last walk, −1 for banks."""
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0
        return np.fromfile(self._ahead, dtype=np.int64)


def _send_line(to: IO[bytes]) -> None:
    to.write(b"\n")
    to.flush()


@contextmanager
def compiled() -> Iterator[Path]:
    """The program, compiled for this processor. Raises NoCompiler with the reason."""
    compiler = next(filter(None, map(shutil.which, filter(None, COMPILERS))), None)
    if compiler is None:
        raise NoCompiler("no C++ compiler here: apt-get install g++, or set CXX")
    with tempfile.TemporaryDirectory(prefix="fairshare-bench-") as place:
        program = Path(place) / "flux_tree"
        command = [compiler, "-std=c++17", "-O3", "-march=native", "-o", str(program), str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise NoCompiler(f"{compiler} fails: {done.stderr.strip()[:500]}")
        yield program
