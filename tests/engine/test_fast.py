"""Compiled kernels: kept for exactly the sources they were made from, and the same bits as plain ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.engine import fast


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


def test_kernels_are_cached_in_a_folder_named_by_source_hash() -> None:
    numba = pytest.importorskip("numba", reason="no machine code: numba is not installed; make setup")
    before = numba.config.CACHE_DIR
    kept = [path.name for path in (fast._ENGINE / "__pycache__").glob("machine-code-*")]

    @fast.compiled
    def add(x: float, y: float) -> float:
        return x + y

    assert add(0.1, 0.2) == 0.1 + 0.2
    kept_before = str(before)
    assert str(numba.config.CACHE_DIR) == kept_before
    if not before:
        after = [path.name for path in (fast._ENGINE / "__pycache__").glob("machine-code-*")]
        assert f"machine-code-{fast._digest_of_sources(Path(__file__).parent)}" in after
        assert set(kept) <= set(after)


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
