"""Copies of a tree, each with a mistake in one file at a time, and pytest run in them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_NOT_COPIED = shutil.ignore_patterns(".*", "var", "__pycache__", "node_modules")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - |$)", re.MULTILINE)


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class Result:
    """What became of a run, and the first test that failed."""

    outcome: Outcome
    failed_test: str = ""
    output: str = ""

    def __str__(self) -> str:
        return f"{self.outcome} {self.failed_test}".strip()


class Copy:
    """A tree of its own: the checkout is never written to."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.root = folder / tree.name
        self._temporary = folder / "tmp"  # of tests: what one that was killed leaves behind goes with it
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        shutil.copytree(tree, self.root, ignore=_NOT_COPIED, symlinks=True)
        if (tree.parent / "shared").is_dir():
            (folder / "shared").symlink_to(tree.parent / "shared")

    @contextmanager
    def changed(self, path: str, text: str) -> Iterator[None]:
        file = self.root / path
        before = file.read_text(encoding="utf-8")
        try:
            self._write(file, text)
            yield
        finally:
            self._write(file, before)

    def _write(self, file: Path, text: str) -> None:
        """Python knows compiled files by size and second, which two mutants may share; numba looks at every byte."""
        file.write_text(text, encoding="utf-8")
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()
        shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)  # examples that another mutant failed

    def run(self, tests: Sequence[str], *arguments: str, timeout_s: float, **environment: str) -> Result:
        if self._closed:
            raise RuntimeError("This copy is closed.")
        self._temporary.mkdir()
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:randomly",
            "--tb=line",
            "-rfE",
            "--hypothesis-seed=0",
            "--timeout=0",
            *arguments,
            *tests,
        ]
        with (self.root.parent / "output.txt").open("w+", encoding="utf-8") as output:
            process = self._process = subprocess.Popen(
                command,
                cwd=self.root,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "TMPDIR": str(self._temporary), **environment},
            )
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return Result(Outcome.TIMEOUT)
            finally:
                self._stop()
            output.seek(0)
            text = output.read()
        if process.returncode == 0:
            return Result(Outcome.PASSED, output=text)
        failed = _FAILED.search(text)
        return Result(Outcome.FAILED, failed[1] if failed else text.strip().rpartition("\n")[2], text)

    def close(self) -> None:
        """Nothing is run any more."""
        self._closed = True
        self._stop()

    def _stop(self) -> None:
        """What still runs here, with its database, which has a session of its own and outlives a killed test run."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for lock in self._temporary.glob("*/**/postmaster.pid"):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(lock.read_text(encoding="utf-8").split("\n")[0]), signal.SIGQUIT)
        shutil.rmtree(self._temporary, ignore_errors=True)
