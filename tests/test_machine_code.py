"""One process compiles at a time, and a kernel with those that it calls."""

from __future__ import annotations

import fcntl
import inspect
from pathlib import Path

import pytest

from tests.machine_code import OneProcess, compile_alone


def is_free(path: Path) -> bool:
    with path.open("w") as other:  # as another process has it
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_no_other_process_compiles_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    free = []

    class Dispatcher:
        def __init__(self, *calls: Dispatcher) -> None:
            self.calls = calls

        def compile(self, signature: str) -> str:
            free.append(is_free(path))
            for one in self.calls:
                one.compile(signature)
            free.append(is_free(path))
            if signature == "wrong":
                raise TypeError(signature)
            return f"code of {signature}"

    compile_alone(Dispatcher, OneProcess(path))
    kernel = Dispatcher(Dispatcher(), Dispatcher())
    assert kernel.compile("float64") == "code of float64"
    assert free == [False] * 6
    assert is_free(path)
    with pytest.raises(TypeError):
        kernel.compile("wrong")
    assert is_free(path)


def test_numba_looks_for_stored_code_in_the_method_that_is_guarded() -> None:
    dispatcher = pytest.importorskip("numba.core.dispatcher").Dispatcher
    assert "load_overload" in inspect.unwrap(dispatcher.compile).__code__.co_names
