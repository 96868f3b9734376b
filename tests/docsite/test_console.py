"""Every ```console block of the documentation is typed on the sample grid, and answers what the page shows."""

from __future__ import annotations

import pytest

from apps.cli.stack.paths import REPOSITORY
from tests.docsite.consoles import Shell, is_answer, steps_of

PAGES = sorted((REPOSITORY / "docs").glob("*.md"))


@pytest.mark.django_db(transaction=True)
def test_commands_of_the_guides_answer_as_shown(sample_grid: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    wrong, n_steps = [], 0
    for page in PAGES:
        shell = Shell()
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
def test_an_answer_matches_whole(shown: str, given: str, is_right: bool) -> None:
    assert is_answer(shown, given) is is_right
