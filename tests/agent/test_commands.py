"""Running a scheduler's commands."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from agent.commands import Commands, TimedOut, environment
from agent.records import Unreadable

PYTHON = [sys.executable, "-IS", "-c"]


def test_commands_run_without_a_shell(tmp_path: Path) -> None:
    output = Commands().run(["echo", f"$(touch {tmp_path}/x)", "; id", "*"])
    assert output.out == f"$(touch {tmp_path}/x) ; id *\n"
    assert os.listdir(tmp_path) == []


def test_the_environment_has_a_fixed_locale_and_default_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_FORMAT", "%j")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/x.conf")
    found = environment()
    assert "SQUEUE_FORMAT" not in found
    assert (found["SLURM_TIME_FORMAT"], found["LC_ALL"], found["LANG"]) == ("%s", "C", "C")
    assert found["SLURM_CONF"] == "/etc/slurm/x.conf"


def test_a_hanging_command_is_killed_with_its_children(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(TimedOut, match=r"did not answer within 0\.3 s"):
        Commands(timeout_s=0.3).run(["sh", "-c", f"sleep 600 & echo $! > {tmp_path}/child; wait"])
    assert time.monotonic() - began < 10
    child = int((tmp_path / "child").read_text())
    while is_running(child) and time.monotonic() - began < 10:
        os.sched_yield()  # a killed process ends when it gets its next turn
    assert not is_running(child)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_that_closes_its_output_and_hangs_is_killed() -> None:
    with pytest.raises(TimedOut):
        Commands(timeout_s=0.3).run([*PYTHON, "import os, time; os.close(1); os.close(2); time.sleep(600)"])


def test_unbounded_output_is_truncated() -> None:
    with pytest.raises(Unreadable, match="more than 100000 bytes"):
        Commands(most_bytes=100_000).run(["yes"])


def test_invalid_text_is_replaced() -> None:
    assert Commands().run(["printf", r"\377\n"]).out == "\ufffd\n"


def test_a_missing_command() -> None:
    with pytest.raises(Unreadable, match="no-such-command can't be started"):
        Commands().run(["no-such-command"])


def test_output_is_valid_only_with_success_and_a_last_line() -> None:
    with pytest.raises(Unreadable, match="status 1"):
        Commands().read(["false"])
    with pytest.raises(Unreadable, match="breaks off"):
        Commands().read(["printf", "half"])
    assert Commands().read(["printf", ""]) == ""


def test_calls_are_rate_limited() -> None:
    commands = Commands(calls_per_s=20)
    began = time.monotonic()
    for _ in range(5):
        commands.run(["true"])
    assert time.monotonic() - began >= 4 / 20
    assert commands.n_calls == 5
