"""Before any test: which interpreter `make setup` installs with, and where the suite's databases lie."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from apps.cli.stack.var_lock import VarLock
from tests import start
from tests.material import REPOSITORY


@pytest.mark.parametrize("is_fit", [True, False])
def test_an_unfit_python3_gives_way_to_that_of_the_system(tmp_path: Path, is_fit: bool) -> None:
    """A stand-in for `python3` answers whether it is new enough, optimized and able to install."""
    stand_in = tmp_path / "python3"
    stand_in.write_text(f"#!/bin/sh\nexit {int(not is_fit)}\n")
    stand_in.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    chosen = subprocess.run(
        ["sh", ".ci/python"], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()
    if is_fit:
        assert chosen == "python3"
    else:  # the system's own may be older, or may be missing
        fit = 'import sys; sys.exit(sys.version_info < (3, 11) or sys.prefix != "/usr")'
        has_other = Path("/usr/bin/python3").exists() and not subprocess.run(["/usr/bin/python3", "-c", fit]).returncode
        assert chosen == ("/usr/bin/python3" if has_other else "python3")


def test_databases_of_killed_runs_are_removed_and_those_of_others_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "_MEMORY", str(tmp_path))
    monkeypatch.setattr(start, "_MEMORY_BYTES", 0)
    at_work, killed = Path(start.make_var()), Path(start.make_var())
    assert at_work.parent == tmp_path
    start._locks.pop().release()
    found = Path(start.make_var())
    assert {*tmp_path.iterdir()} == {at_work, found}
    for _run in range(2):
        start._locks.pop().release()
    assert VarLock(at_work, "postgres.lock").take()
    assert not killed.exists()
