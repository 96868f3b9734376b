"""Figure 17 of the operators paper beside what its definitions give: bits that make a job of 2,000 h show.

The published cells don't follow from the text: no reading that it allows gives them. So ours are listed beside them, by
named readings, and none is fitted to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apps.engine.analysis import job_size
from apps.engine.analysis.job_size import Reading
from apps.engine.operators import get_operator

COLUMNS = ("balance", "over", "under", "overall")
# Source: operators paper, figure 17; a year on 600 nodes, a job of 2,000 node-hours.
PUBLISHED: Mapping[str, tuple[int, int, int, int]] = {
    "absolute": (12, 14, 12, 14),
    "relative": (9, 14, 9, 14),
    "relative-2": (9, 15, 8, 15),
    "sigmoid": (9, 12, 9, 12),
    "sigmoid-2": (6, 11, 9, 11),
    "slurm": (9, 13, 8, 13),
    "combined": (10, 15, 8, 15),
}


@dataclass(frozen=True)
class NamedReading:
    """A reading with what it says; is_comparable: the one that may be held against the published cells."""

    name: str
    text: str
    reading: Reading
    is_comparable: bool = False


READINGS = (
    NamedReading("plain", "printed eq. 25, the biggest job over all targets and priorities", job_size.PLAIN_PRINTED),
    NamedReading(
        "easiest target", "printed eq. 25, the easiest target, then the worst priority", job_size.EASIEST_TARGET
    ),
    NamedReading("plain, corrected", "k = D/(1 − s − D), else as plain", job_size.PLAIN_CORRECTED),
    NamedReading(
        "typical",
        "k = D/(1 − s − D), the easiest target, the priority at a third of the region",
        job_size.TYPICAL,
        is_comparable=True,
    ),
)


@dataclass(frozen=True)
class Cell:
    """Bits by a reading, None for more than 20, beside the published ones."""

    operator: str
    column: str
    bits: int | None
    published: int


def cells(reading: Reading) -> list[Cell]:
    """All 28 cells of the figure by one reading, operator by operator."""
    table = job_size.bits_table([get_operator(name) for name in PUBLISHED], reading)
    return [
        Cell(name, column, table[name][column], published)
        for name, row in PUBLISHED.items()
        for column, published in zip(COLUMNS, row, strict=True)
    ]
