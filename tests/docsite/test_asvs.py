"""docs/asvs.md: each line has a state and a reason, and each test and module that it names exists."""

from __future__ import annotations

import re

from apps.core.code_paths import REPOSITORY

_STATES = {"met", "partly", "not met", "not applicable", "site", "unproven"}
_NUMBER = r"\d+\.\d+\.\d+"


def rows() -> list[list[str]]:
    lines = (REPOSITORY / "docs/asvs.md").read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if re.match(r"\| \d", line)]


def numbers(cell: str) -> list[str]:
    """All requirements of a cell such as "2.1.5–2.1.7, 2.1.9"."""
    found = []
    for part in cell.split(", "):
        first, _, last = part.partition("–")
        head, _, n = first.rpartition(".")
        n_last = int(last.rpartition(".")[2] or n)
        assert re.fullmatch(_NUMBER, first)
        assert not last or last.startswith(f"{head}."), part
        found += [f"{head}.{i}" for i in range(int(n), n_last + 1)]
    return found


def test_each_requirement_has_one_line_with_a_state_and_a_reason() -> None:
    named = [number for cells in rows() for number in numbers(cells[0])]
    assert len(named) == len(set(named)) > 200
    assert {int(number.partition(".")[0]) for number in named} == set(range(1, 15))
    bad = [cells for cells in rows() if len(cells) != 4 or cells[2] not in _STATES or not all(cells)]
    assert bad == []


def test_each_named_test_and_module_exists() -> None:
    missing = []
    for *_rest, evidence in rows():
        for path, _, test in (name.partition("::") for name in re.findall(r"`([\w/.]+(?:::\w+)?)`", evidence)):
            file = REPOSITORY / path
            if not file.is_file() or f"def {test}(" not in file.read_text(encoding="utf-8") + "def (":
                missing.append(f"{path}::{test}")
    assert missing == []


def test_each_met_requirement_names_evidence() -> None:
    assert [cells for cells in rows() if cells[2] == "met" and "`" not in cells[3] and "](" not in cells[3]
            and "see " not in cells[3]] == []  # fmt: skip
