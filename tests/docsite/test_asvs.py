"""docs/appendices/asvs.md: each line has a state and a reason, and each test and module that it names exists."""

from __future__ import annotations

import re

from apps.core.code_paths import REPOSITORY

_STATES = {"met", "partly", "not met", "not applicable", "site", "unproven"}
_NUMBER = r"\d+\.\d+\.\d+"
#: All requirements of levels 1 and 2 in OWASP ASVS 4.0.3, without those that it deleted.
PUBLISHED = """
1.1.1–1.1.7, 1.2.1–1.2.4, 1.4.1, 1.4.4–1.4.5, 1.5.1–1.5.4, 1.6.1–1.6.4, 1.7.1–1.7.2, 1.8.1–1.8.2, 1.9.1–1.9.2, 1.10.1,
1.11.1–1.11.2, 1.12.2, 1.14.1–1.14.6,
2.1.1–2.1.12, 2.2.1–2.2.3, 2.3.1–2.3.3, 2.4.1–2.4.5, 2.5.1–2.5.7, 2.6.1–2.6.3, 2.7.1–2.7.6, 2.8.1–2.8.6, 2.9.1–2.9.3,
2.10.1–2.10.4,
3.1.1, 3.2.1–3.2.4, 3.3.1–3.3.4, 3.4.1–3.4.5, 3.5.1–3.5.3, 3.7.1,
4.1.1–4.1.3, 4.1.5, 4.2.1–4.2.2, 4.3.1–4.3.3,
5.1.1–5.1.5, 5.2.1–5.2.8, 5.3.1–5.3.10, 5.4.1–5.4.3, 5.5.1–5.5.4,
6.1.1–6.1.3, 6.2.1–6.2.6, 6.3.1–6.3.2, 6.4.1–6.4.2,
7.1.1–7.1.4, 7.2.1–7.2.2, 7.3.1, 7.3.3–7.3.4, 7.4.1–7.4.3,
8.1.1–8.1.4, 8.2.1–8.2.3, 8.3.1–8.3.8, 9.1.1–9.1.3, 9.2.1–9.2.4, 10.2.1–10.2.2, 10.3.1–10.3.3, 11.1.1–11.1.8,
12.1.1–12.1.3, 12.2.1, 12.3.1–12.3.6, 12.4.1–12.4.2, 12.5.1–12.5.2, 12.6.1,
13.1.1, 13.1.3–13.1.5, 13.2.1–13.2.3, 13.2.5–13.2.6, 13.3.1–13.3.2, 13.4.1–13.4.2,
14.1.1–14.1.4, 14.2.1–14.2.6, 14.3.2–14.3.3, 14.4.1–14.4.7, 14.5.1–14.5.4
"""


def rows() -> list[list[str]]:
    lines = (REPOSITORY / "docs/appendices/asvs.md").read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if re.match(r"\| \d", line)]


def numbers(cell: str) -> list[str]:
    """All requirements of a cell such as "2.1.5–2.1.7, 2.1.9"."""
    each = []
    for part in cell.split(", "):
        first, _, last = part.partition("–")
        head, _, n = first.rpartition(".")
        n_last = int(last.rpartition(".")[2] or n)
        assert re.fullmatch(_NUMBER, first)
        assert not last or last.startswith(f"{head}."), part
        each += [f"{head}.{i}" for i in range(int(n), n_last + 1)]
    return each


def test_each_requirement_has_one_line_with_a_state_and_a_reason() -> None:
    named = [number for cells in rows() for number in numbers(cells[0])]
    assert sorted(named) == sorted(numbers(" ".join(PUBLISHED.split())))
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
