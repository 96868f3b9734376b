"""What Slurm's commands print on the scheduler's host arrives in the first steps of a site."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.command_line import main
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.onboarding.sshare_comparison import stored_sshare
from tests.small_site import Site

PRINTS = {
    "scontrol": '[ "$2" = config ] && cat {folder}/config.txt || echo PartitionName=batch',
    "sacctmgr": '[ "$1" = dump ] && cp {folder}/dump.cfg ${{3#file=}} || printf "Name|UsageFactor\\nnormal|1.0\\n"',
    "sshare": "cat {folder}/sshare.txt",
}


@pytest.fixture
def commands(golden_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in PRINTS.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text.format(folder=golden_dir / 'slurm/charged')}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")


@pytest.mark.usefixtures("commands")
def test_outputs_are_printed_and_nothing_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", "--print"]) == 0
    done = capsys.readouterr().out
    assert all(
        part in done
        for part in ("Cluster - 'c1'", "PriorityType", "PartitionName=batch", "physics|ann|1|", "normal|1.0")
    )
    assert main(["setup"]) == 2


@pytest.mark.usefixtures("commands")
def test_the_site_starts_the_setup_with_them(
    computed_site: Site, live_server: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(computed_site.token("admin"))
    assert main(["setup", "--server", str(live_server), "--token-file", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "PriorityDecayHalfLife" in printed
    assert "…" not in printed, "the command to type stands at the end of a line"
    assert max(map(len, printed.splitlines())) > 100
    begun = FirstPolicyDraft.objects.get()
    assert (begun.facts["format"], len(stored_sshare(begun))) == ("sacctmgr", 12)
