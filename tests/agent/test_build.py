"""One file for hosts with an old Python and nothing else."""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from agent import VERSION
from agent.build import build, main
from tests.agent.fakes import Place
from tests.material import REPOSITORY

SOURCES = sorted((REPOSITORY / "agent").rglob("*.py"))


def test_the_same_sources_give_the_same_bytes(tmp_path: Path, archive: bytes) -> None:
    assert main([str(tmp_path / "a")]) == 0
    assert (tmp_path / "a").read_bytes() == build() == archive
    for path in SOURCES:
        path.touch()
    assert hashlib.sha256(build()).digest() == hashlib.sha256(archive).digest(), "times of files don't count"


def test_the_file_has_every_module_and_runs_as_a_program(tmp_path: Path) -> None:
    file = tmp_path / "fairshare-agent.pyz"
    main([str(file)])
    with zipfile.ZipFile(file) as inside:
        assert set(inside.namelist()) == {"__main__.py", *(str(p.relative_to(REPOSITORY)) for p in SOURCES)}
    done = subprocess.run([sys.executable, "-I", str(file), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == VERSION + "\n"
    assert file.stat().st_mode & 0o777 == 0o755


def test_every_module_is_python_3_6() -> None:
    for path in SOURCES:
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))


def test_only_the_standard_library_of_python_3_6_is_used() -> None:
    later = {"dataclasses", "contextvars", "importlib.resources", "zoneinfo", "tomllib", "graphlib", "__future__"}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.partition(".")[0] in {"agent", *sys.stdlib_module_names} - later, f"{path}: {name}"
            if isinstance(node, ast.keyword):
                assert node.arg not in ("capture_output", "text"), f"{path}:{node.value.lineno}"


def test_no_module_uses_a_shell() -> None:
    for path in SOURCES:
        text = path.read_text()
        assert "shell=" not in text
        assert "os.system" not in text
        assert ("subprocess" in text) == (path.name == "commands.py")


def test_a_forked_run_of_these_tests_prints_and_ends_as_the_built_file(place: Place) -> None:
    env = {"PATH": f"{place.scheduler.folder}:{os.environ['PATH']}", "TZ": "UTC", "HOME": str(place.folder)}
    for words in (["--version"], ["nonsense"], ["status"], ["check", "--kind", "slurm"]):
        forked = place.run(*words)
        own = subprocess.run(forked.args, env=env, capture_output=True, text=True, check=False)
        assert (forked.returncode, forked.stdout, forked.stderr) == (own.returncode, own.stdout, own.stderr), words
