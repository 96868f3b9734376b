"""Compiled kernels: kept for exactly the sources they were made from, and the same bits as plain ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from apps.engine import fast
from apps.engine.algorithms import all_algorithms, compute, load_machine_code
from apps.engine.numerics import flux_walk, long_kernels
from apps.engine.tree import FairshareTree


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "caller.py").write_text("from callee import step\n")
    (tmp_path / "callee.py").write_text("def step(x): return x + 1\n")
    monkeypatch.setattr(fast, "_ENGINE", tmp_path)
    return tmp_path


def state(folder: Path) -> str:
    fast._digest_of_sources.cache_clear()
    digest = fast._digest_of_sources(folder)
    fast._digest_of_sources.cache_clear()
    return digest


def test_compiled_code_is_rebuilt_when_a_called_file_changes(sources: Path) -> None:
    before = state(sources)
    assert state(sources) == before
    (sources / "callee.py").write_text("def step(x): return x + 2\n")
    assert state(sources) != before
    (sources / "callee.py").write_text("def step(x): return x + 1\n")
    assert state(sources) == before


def test_compiled_code_of_another_package_is_rebuilt_when_it_or_the_engine_changes(
    sources: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    package = tmp_path_factory.mktemp("package")
    (package / "kernel.py").write_text("def run(x): return x\n")
    before, of_engine = state(package), state(sources)
    (package / "other.py").write_text("def step(x): return x\n")
    assert state(package) != before
    assert state(sources) == of_engine
    (package / "other.py").unlink()
    (sources / "callee.py").write_text("def step(x): return x + 2\n")
    assert state(package) != before


@pytest.mark.parametrize("chosen", ["", "chosen"])
def test_kernels_are_cached_in_a_folder_named_by_source_hash(
    chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also within the folder that NUMBA_CACHE_DIR names, which outlives a release."""
    numba = pytest.importorskip("numba", reason="no machine code: numba is not installed; make setup")
    folder = str(tmp_path / chosen) if chosen else ""
    monkeypatch.setattr(numba.config, "CACHE_DIR", folder)

    @fast.compiled
    def add(x: float, y: float) -> float:
        return x + y

    assert add(0.1, 0.2) == 0.1 + 0.2
    assert folder == numba.config.CACHE_DIR
    kept_in = Path(folder) if chosen else fast._ENGINE / "__pycache__"
    assert list(kept_in.glob(f"machine-code-{fast._digest_of_sources(Path(__file__).parent)}/*/*.nbi"))


@pytest.mark.parametrize("compiled", [fast.compiled, fast.compiled_borrowing])
def test_other_threads_run_python_while_a_kernel_works(compiled: Callable[[Any], Any]) -> None:
    pytest.importorskip("numba", reason="no machine code: numba is not installed; make setup")

    @compiled
    def await_answer(began: npt.NDArray[np.int64], answer: npt.NDArray[np.int64], most: int) -> int:
        for turn in range(most):
            began[0] = turn + 1
            if answer[0] != 0:
                return 1
        return 0

    began, answer = np.zeros(1, np.int64), np.zeros(1, np.int64)
    await_answer(began.copy(), answer + 1, 1)  # compiles it
    with ThreadPoolExecutor(1) as threads:
        answered = threads.submit(await_answer, began, answer, 4_000_000_000)
        while not began[0] and not answered.done():
            pass
        answer[0] = 1
        assert answered.result() == 1, "the kernel ended before this thread could answer"


def test_machine_code_of_large_trees_is_loaded_ahead() -> None:
    pytest.importorskip("numba", reason="no machine code: numba is not installed; make setup")
    load_machine_code()
    loaded = signatures()
    assert loaded["walk"], "flux's walk"
    assert loaded["fill_level_fairshare"], "Fair Tree's near ties"
    random, n = np.random.default_rng(75), 20_000
    parents = np.concatenate(([-1], np.zeros(100, np.int64), np.sort(random.integers(1, 101, n - 101))))
    tree, _order = FairshareTree.from_columns(parents, random.random(n))
    usage = np.where(tree.child_count > 0, 0.0, random.random(n))
    for name in all_algorithms():
        compute(tree, usage, algorithm=name)
    assert signatures() == loaded


def signatures() -> dict[str, list[Any]]:
    """Of kernels that Python calls, by name; those that they call are loaded with them."""
    return {
        name: list(kernel.signatures)
        for module in (flux_walk, long_kernels)
        for name, kernel in vars(module).items()
        if hasattr(kernel, "signatures")
    }


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        ("ImportError('no module')", ""),
        ("OSError('no library')", "numba can't be loaded"),
        ("AttributeError('no types')", "numba can't be loaded"),
    ],
)
def test_the_engine_is_loaded_where_numba_is_not(tmp_path: Path, raised: str, says: str) -> None:
    (tmp_path / "numba.py").write_text(f"raise {raised}\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from apps.engine import fast; print(fast.is_on())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
    assert says in done.stderr
    assert bool(done.stderr) == bool(says)


def test_disabling_compiled_code_is_limited_to_the_block() -> None:
    before = fast.is_on()
    with fast.switched(False):
        assert not fast.is_on()
        with fast.switched(True):
            assert fast.is_on() == fast.IS_INSTALLED
        assert not fast.is_on()
    assert fast.is_on() == before


def test_a_function_that_borrows_its_arrays_neither_returns_nor_allocates_one() -> None:
    numba = pytest.importorskip("numba", reason="no machine code: numba is not installed; make setup")

    def returns(values: list[float]) -> list[float]:
        return values

    def allocates(n: int) -> int:
        return len([0.0 for _ in range(n)])

    with pytest.raises(TypeError, match="returns more than a number"):
        fast.compiled_borrowing(returns)
    with pytest.raises(numba.core.errors.NumbaRuntimeError):
        fast.compiled_borrowing(allocates)(3)
