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


def test_nothing_goes_through_a_shell(tmp_path: Path) -> None:
    output = Commands().run(["echo", f"$(touch {tmp_path}/x)", "; id", "*"])
    assert output.out == f"$(touch {tmp_path}/x) ; id *\n"
    assert os.listdir(tmp_path) == []


def test_the_environment_has_one_language_and_nothing_that_changes_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_FORMAT", "%j")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/x.conf")
    found = environment()
    assert "SQUEUE_FORMAT" not in found
    assert (found["SLURM_TIME_FORMAT"], found["LC_ALL"], found["LANG"]) == ("%s", "C", "C")
    assert found["SLURM_CONF"] == "/etc/slurm/x.conf"


def test_a_command_that_hangs_is_ended_with_all_its_children(tmp_path: Path) -> None:
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


def test_a_command_that_closes_its_output_and_stays_is_ended() -> None:
    with pytest.raises(TimedOut):
        Commands(timeout_s=0.3).run([*PYTHON, "import os, time; os.close(1); os.close(2); time.sleep(600)"])


def test_output_without_end_is_cut_off() -> None:
    with pytest.raises(Unreadable, match="more than 100000 bytes"):
        Commands(most_bytes=100_000).run(["yes"])


def test_what_is_no_text_is_replaced() -> None:
    assert Commands().run(["printf", r"\377\n"]).out == "\ufffd\n"


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(Unreadable, match="no-such-command can't be started"):
        Commands().run(["no-such-command"])


def test_reading_needs_success_and_a_last_line() -> None:
    with pytest.raises(Unreadable, match="status 1"):
        Commands().read(["false"])
    with pytest.raises(Unreadable, match="breaks off"):
        Commands().read(["printf", "half"])
    assert Commands().read(["printf", ""]) == ""


def test_calls_are_spread_over_time() -> None:
    commands = Commands(calls_per_s=20)
    began = time.monotonic()
    for _ in range(5):
        commands.run(["true"])
    assert time.monotonic() - began >= 4 / 20
    assert commands.n_calls == 5
