"""The commands of a snapshot stand once: pages, commands, the agent and the documentation take them from one list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client

from agent import site_commands
from agent.commands import Commands
from agent.records import Unreadable
from agent.site_outputs import read_site
from apps.accounts.models import User
from apps.core.code_paths import REPOSITORY
from apps.priorities.slurm_outputs import split_outputs
from apps.priorities.slurm_qos import read_usage_factors
from tests.pages.page import read
from tests.sign_in import sign_in

SPELLED = re.compile(
    r"format=Name,UsageFactor|sshare (?:-a|--all)|\"sshare\", \"--?a|\"scontrol\", \"show\", \"partition\"|\"qos\", \"f"
)
# Each but the list itself is generated from it, or compared with it below.
WRITTEN_ONCE = {
    "agent/site_commands.py": 3,
    "docs/schedulers.md": 2,
    "docs/recipe-slurm.md": 1,
    "docs/scale.md": 3,  # what a bench asks a Slurm of its own
}
OF_A_RELEASE = {
    "22.05": ("nasty/dump.cfg", "nasty/config.txt", "nasty/sshare.txt"),
    "24.11": ("outputs/24.11.5.txt",),
    "26.05": ("outputs/26.05.5.txt",),
}


def test_no_other_place_spells_a_command_of_the_list() -> None:
    counted = {}
    for folder, ending in (("agent", "py"), ("apps", "py"), ("templates", "html"), ("docs", "md"), ("docsite", "py")):
        for path in (REPOSITORY / folder).rglob(f"*.{ending}"):
            if n := len(SPELLED.findall(path.read_text(encoding="utf-8"))):
                counted[str(path.relative_to(REPOSITORY))] = n
    assert counted == WRITTEN_ONCE


def test_the_documentation_prints_the_list() -> None:
    recipe = (REPOSITORY / "docs/recipe-slurm.md").read_text(encoding="utf-8")
    assert all(line in recipe for line in site_commands.script_of_settings().splitlines())
    assert site_commands.script() in (REPOSITORY / "docs/schedulers.md").read_text(encoding="utf-8")


@pytest.mark.django_db
def test_the_page_prints_the_list_and_who_may_run_it(client: Client) -> None:
    sign_in(client, User.objects.create_superuser("eva"))
    page = read(client.get("/setup/"))
    assert page.item("site-commands").text() == site_commands.script()


PROGRAM = """#!/bin/sh
echo "$(basename $0) $*" >> {log}
case "$(basename $0) $*" in
"sacctmgr dump"*) {dump} ;;
"scontrol show config") printf 'Configuration data as of 1\\nClusterName = c1\\n' ;;
*) echo "$(basename $0) $*" ;;
esac
"""


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of the list that log how they are called, and that refuse the dump as Slurm does."""
    (tmp_path / "bin").mkdir()
    for name in site_commands.names():
        program = tmp_path / "bin" / name
        refusal = 'echo " Your uid (64030) is not in the accounting system, can\'t dump cluster." >&2; exit 1'
        program.write_text(PROGRAM.format(log=tmp_path / "calls", dump=refusal))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path


def test_who_may_not_dump_learns_who_may(called: Path) -> None:
    with pytest.raises(Unreadable, match="as root, or as a user with AdminLevel=Administrator"):
        read_site(Commands())


def test_the_agent_runs_every_command_of_the_list(called: Path) -> None:
    program = called / "bin/sacctmgr"
    program.write_text(PROGRAM.format(log=called / "calls", dump="touch ${3#file=}"))
    read_site(Commands())
    calls = (called / "calls").read_text().splitlines()
    assert {site_commands.text_of(argv) for argv in site_commands.PRINTED} < set(calls)
    assert len(calls) == len(site_commands.PRINTED) + 1


@pytest.mark.parametrize("release", OF_A_RELEASE)
def test_what_each_release_prints_is_separated(release: str, golden_dir: Path) -> None:
    text = "".join((golden_dir / "slurm" / name).read_text() for name in OF_A_RELEASE[release])
    outputs = split_outputs(text)
    assert all((outputs.dump, outputs.config, outputs.sshare, outputs.qos))
    assert read_usage_factors(outputs.qos), "the UsageFactor of each QOS"
