"""Each documented command on schedulers, as a terminal runs it: `call_command` reads no arguments."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import pytest
from django.core.management import load_command_class

from apps.core.code_paths import REPOSITORY
from tests.contrib.schedulers.reports import job, report
from tests.docsite.consoles import manage
from tests.instants import AT
from tests.rest_site import Caller
from tests.small_site import Site

CHECKED = [{"code": "double_counting", "severity": "error", "found": "PriorityWeightFairshare=9", "remedy": "Set 0"}]
VALUES = [{"group": "physics", "user": "alice", "raw_shares": 2, "raw_usage": 7, "fairshare": 0.5}]
SHARES = {"cluster": "demo", "rows": []}
EXAMPLES = "docs/examples/slurm"
#: Commands in their order, and a part of what each prints.
COMMANDS = [
    (
        "scheduler add c9 --policy grid --kind slurm --set mode=shadow --set namespace=a",
        "c9 is connected to grid, mode",
    ),
    ("scheduler set c9 weight=5000 partitions=a,b changed_percent=40", "c9: revision 2"),
    ("scheduler list", "c9"),
    ("scheduler show c9", '"changed_percent": 40'),
    ("scheduler check c1", "double_counting: PriorityWeightFairshare=9"),
    ("scheduler switch-on c1 --partition batch", "It checks again at its next pass, within 30 s"),
    ("scheduler switch-on c9 --all", "c9 is on: all partitions, /"),
    ("scheduler differences c1", "users are equal"),
    ("scheduler shares c1", "only in the policy"),
    ("scheduler pause c9", "c9: revision 4"),
    ("scheduler resume c9", "c9: revision 5"),
    ("scheduler reset-values c9", "c9: revision 6"),
    ("scheduler remove c9 --reason moved", "c9 is removed."),
    (f"scheduler setup c8 --outputs {EXAMPLES}/accounts.cfg --sacct {EXAMPLES}/sacct.txt", "Nothing is published"),
    ("why 101", "No job is ahead of it."),
    ("agent run c1 --once", ""),
]


@pytest.mark.deep
@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(600)  # a process for each
def test_documented_commands_work_in_a_terminal(
    connected: Site, agent: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    sent = report(queue=[job("101")], checks=CHECKED, values=VALUES, shares=SHARES)
    assert agent.post("schedulers/c1/passes", sent).status_code == 200
    wrong = []
    for command, part in COMMANDS:
        output = manage(shlex.split(command))
        if part not in output or "Traceback" in output:
            wrong.append(f"$ {command}\n{output[-1500:]}")
    assert not wrong, "\n\n".join(wrong)


def test_every_command_on_schedulers_is_among_them() -> None:
    parser = load_command_class("apps.contrib.schedulers", "scheduler").create_parser("manage.py", "scheduler")
    (below,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    assert {command.split()[1] for command, _part in COMMANDS if command.startswith("scheduler ")} == set(below.choices)


def test_options_of_commands_on_the_pages_exist() -> None:
    """Also of those in sentences and in blocks that can't run here."""
    parser = load_command_class("apps.contrib.schedulers", "scheduler").create_parser("manage.py", "scheduler")
    (below,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    for page in ("schedulers.md", "recipe-slurm.md"):
        text = Path(REPOSITORY, "docs", page).read_text(encoding="utf-8")
        for after in text.split("manage.py scheduler ")[1:]:
            words = after.partition("\n")[0].partition("`")[0].partition("#")[0].split()
            options = {word for word in words[1:] if word.startswith("--")}
            known = {option for action in below.choices[words[0]]._actions for option in action.option_strings}
            assert options <= known, (page, words)
