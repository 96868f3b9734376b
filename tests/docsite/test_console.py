"""Every ```console block of the documentation is typed on the sample grid, and answers what the page shows."""

from __future__ import annotations

import urllib.request
from datetime import datetime, timedelta
from pathlib import Path
from shutil import rmtree

import pytest
from django.conf import settings

from apps.core.code_paths import REPOSITORY
from tests.docsite.consoles import Shell, is_answer, steps_of
from tests.instants import AT
from tests.worlds import start_sample

PAGES = sorted((REPOSITORY / "docs").rglob("*.md"))


@pytest.mark.deep
@pytest.mark.timeout(900)  # each command is a process
@pytest.mark.django_db(transaction=True)
def test_commands_of_the_guides_print_the_shown_output(
    sample_grid: None, live_server: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_pages(live_server, tmp_path, monkeypatch, AT)


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.django_db(transaction=True)
def test_the_shown_output_does_not_depend_on_the_day(
    live_server: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sample ends when it is started: another day of the week and hour give other ranks."""
    at = AT + timedelta(days=3, hours=9)
    start_sample(at)
    check_pages(live_server, tmp_path, monkeypatch, at)


def check_pages(live_server: object, folder: Path, monkeypatch: pytest.MonkeyPatch, at: datetime) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())
    rmtree(Path(settings.VAR) / "accounts", ignore_errors=True)  # of another test's database: commands would report it
    with urllib.request.urlopen(f"{live_server}/fairshare") as answer:
        program = folder / "fairshare"
        program.write_bytes(answer.read())
    wrong, n_steps = [], 0
    for page in PAGES:
        shell = Shell(program)
        for step in steps_of(page):
            n_steps += 1
            given = shell.run(step.command)
            if not is_answer(step.answer, given):
                wrong.append(f"{step.place}: $ {step.command}\n--- shown\n{step.answer}\n--- given\n{given[:3000]}")
    assert n_steps > 15
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    ("shown", "given", "is_right"),
    [
        ("rank 1", "rank 1\n", True),
        ("rank 1", "rank 12", False),
        ("rank … of 3", "rank 1 of 3", True),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…\nd", "a\nb\nc", False),
        ("", "anything", False),
    ],
)
def test_an_output_must_match_completely(shown: str, given: str, is_right: bool) -> None:
    assert is_answer(shown, given) is is_right
