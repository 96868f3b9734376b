"""docs/appendices/analysis.md prints what the engine computes: its tables are made again and compared."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from apps.engine import operators
from apps.engine.analysis import density, job_size, properties

PAGE = Path(__file__).resolve().parents[3] / "docs/appendices/analysis.md"
SEVEN = tuple(job_size.PUBLISHED)


def row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def head(*names: str) -> list[str]:
    return [row(*names), row(*["---"] * len(names))]


def yes(holds: bool) -> str:
    return "yes" if holds else "no"


def definition_table() -> list[str]:
    lines = head("operator", "definition", "boundaries", "orders like relative", "unused share", "odd")
    relative = operators.get_operator("relative")
    for name in SEVEN:
        apply = operators.get_operator(name)
        found = properties.check_definition(apply)
        is_equivalent = properties.compare_orders(apply, relative).is_full
        unused = "in proportion" if properties.check_redistribution(apply).is_full else "otherwise"
        holds = (not found.broken, found.has_boundaries, is_equivalent)
        lines.append(row(name, *map(yes, holds), unused, yes(found.is_odd)))
    return lines


def density_table(by_operator: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]) -> list[str]:
    lines = head("operator", *(f"{p:g}" for p in density.effective_priorities(8).tolist()))
    shown = {name: [f"{share + 1e-9:.4f}" for share in shares] for name, shares in by_operator.items()}  # halves go up
    return lines + [row(name, *shares) for name, shares in shown.items()]


def figure_table() -> list[str]:
    """Bits at balance, over and under target: as published, and by each reading."""
    by_reading = [job_size.cells(reading.reading) for reading in job_size.READINGS]
    lines = head("operator", "published", *(reading.name for reading in job_size.READINGS))
    for name in SEVEN:
        columns: list[list[object]] = [[cell.published for cell in by_reading[0] if is_shown(cell, name)]]
        columns += [[cell.bits or "> 20" for cell in cells if is_shown(cell, name)] for cells in by_reading]
        lines.append(row(name, *(", ".join(map(str, bits)) for bits in columns)))
    return lines


def is_shown(cell: job_size.Cell, operator: str) -> bool:
    return cell.operator == operator and cell.column != "overall"


def order_table() -> list[str]:
    lines = head("region", "smallest job first")
    chosen = [operators.get_operator(name) for name in SEVEN]
    for region in job_size.REGIONS:
        lines.append(row(region, ", ".join(job_size.best_first(chosen, region, job_size.TYPICAL))))
    return lines


def tables() -> dict[str, list[str]]:
    ours = {name: operators.get_operator(name) for name in SEVEN}
    return {
        "definition": definition_table(),
        "input density": density_table({name: density.input_density(op, 8) for name, op in ours.items()}),
        "local density at 0.1": density_table({name: density.local_density(op, 0.1, 8) for name, op in ours.items()}),
        "figure 17": figure_table(),
        "orders": order_table(),
    }


@pytest.mark.deep
def test_the_page_shows_what_the_engine_computes() -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = dict(re.findall(r"<!-- table: ([^>]*) -->\n(.*?)\n\n", text + "\n\n", flags=re.DOTALL))
    made = tables()
    assert set(shown) == set(made)
    for name, lines in made.items():
        assert shown[name].splitlines() == lines, name


def test_each_reading_of_the_figure_is_described_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [reading.name for reading in job_size.READINGS if reading.text not in text] == []


def test_the_published_cells_equal_the_paper(golden_dir: Path) -> None:
    figure = json.loads((golden_dir / "operators/fig17.json").read_text())
    assert {name: list(row) for name, row in job_size.PUBLISHED.items()} == figure["paper"]
    assert list(job_size.COLUMNS) == figure["columns"]
