"""Appendices of schedulers: every fact names tests that exist, and the table shows what tests measured."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from apps.core.code_paths import REPOSITORY
from docsite import schedulers
from docsite.scheduler_facts import FACTS


def _tests_of(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_each_fact_has_tests_that_exist() -> None:
    missing = []
    for facts in FACTS.values():
        for fact in facts:
            assert fact.tests, fact.what
            for place in fact.paths:
                path, _, name = place.partition("::")
                if name not in _tests_of(REPOSITORY / path):
                    missing.append(place)
    assert missing == []


def test_the_file_of_figures_is_written_by_its_own_function() -> None:
    assert schedulers.FIGURES.read_text(encoding="utf-8") == schedulers.stored_text(schedulers.figures())


def test_each_scheduler_has_a_version_that_tests_ran_with() -> None:
    """README and the limits name them; an empty table would be a claim without a run."""
    assert set(schedulers.figures()) == set(FACTS)
    for rows in schedulers.figures().values():
        assert rows
        assert all("on" in row for row in rows.values())


def test_a_later_run_replaces_what_it_measured_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedulers, "FIGURES", tmp_path / "figures.json")
    schedulers.FIGURES.write_text("{}")
    schedulers.store("gridengine", "8.1.10", {"on": "2026-11-28"})
    schedulers.store("gridengine", "8.1.9", {"on": "2026-11-28"})
    assert list(schedulers.figures()["gridengine"]) == ["8.1.9", "8.1.10"]
    schedulers.store("slurm", "24.11.5", {"FairShare equal": "11 of 11", "on": "2026-11-28"})
    schedulers.store("slurm", "22.05.8", {"FairShare equal": "24 of 24", "on": "2026-11-28"})
    schedulers.store("slurm", "24.11.5", {"FairShare equal": "12 of 12", "seconds until obeyed": "19.0"})
    rows = schedulers.releases_tried("slurm").splitlines()
    assert rows[0] == "| release | FairShare equal | seconds until obeyed | on |"
    assert rows[2:] == ["| 22.05.8 | 24 of 24 | – | 2026-11-28 |", "| 24.11.5 | 12 of 12 | 19.0 | 2026-11-28 |"]
