"""Appendices of schedulers: what was tried with real daemons, and what tests measured last."""

from __future__ import annotations

import json

from apps.core.code_paths import REPOSITORY
from docsite.markdown import code, table
from docsite.scheduler_facts import FACTS, SLURM_CHANGES

FIGURES = REPOSITORY / "docsite/scheduler_figures.json"
Rows = dict[str, dict[str, str]]  # version of the scheduler → column → what was measured


def figures() -> dict[str, Rows]:
    """By scheduler; `make test-schedulers TESTS=--record-figures` stores them."""
    stored: dict[str, Rows] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return stored


def numbers_of(version: str) -> tuple[int, ...]:
    """What versions are ordered by: 8.1.9 is before 8.1.10."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def releases_tried(scheduler: str) -> str:
    """A row for each release, oldest first, with what its tests measured and the day (on)."""
    rows = figures().get(scheduler, {})
    columns = [*dict.fromkeys(column for row in rows.values() for column in row if column != "on"), "on"]
    shown = [(version, *(row.get(column, "–") for column in columns)) for version, row in _in_order(rows)]
    return table(("release", *columns), shown)


def _in_order(rows: Rows) -> list[tuple[str, dict[str, str]]]:
    return sorted(rows.items(), key=lambda item: numbers_of(item[0]))


def facts(scheduler: str) -> str:
    rows = [(fact.what, fact.exactness, "<br>".join(map(code, fact.paths))) for fact in FACTS[scheduler]]
    return table(("compared", "how close", "tests"), rows)


def slurm_changes() -> str:
    return table(("release", "what changed", "here"), SLURM_CHANGES)


def store(scheduler: str, version: str, row: dict[str, str]) -> None:
    """Replace what was measured with one version; other columns keep their last value, and an empty one goes."""
    stored = figures()
    rows = stored.setdefault(scheduler, {})
    rows[version] = {column: cell for column, cell in (rows.get(version, {}) | row).items() if cell}
    FIGURES.write_text(stored_text(stored), encoding="utf-8")


def stored_text(stored: dict[str, Rows]) -> str:
    """Of the file of figures."""
    rows = {scheduler: dict(_in_order(stored[scheduler])) for scheduler in sorted(stored)}
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
