"""One huge cell of a column: its row is rejected, or read without it, and memory stays that of the file."""

from __future__ import annotations

import tracemalloc
from io import BytesIO

from apps.usage.parsers.base import Reading
from apps.usage.parsers.sacct import Sacct
from tests.each_case import each_case
from tests.instants import AT

COLUMNS = "JobIDRaw|User|Account|Submit|Start|End|ElapsedRaw|State|AllocTRES|SLUID"
ROW = "{}|ada|physics|1767225600|1767225660|1767229260|3600|COMPLETED|cpu=1,node=1|s01JAB3F8QW9ZV"
N_ROWS, N_BYTES, MOST_BYTES = 2_000, 60_000, 20 * 1024**2


@each_case(
    ("column", "code"),
    [
        ("JobIDRaw", "bad_job"),
        ("Submit", "bad_time"),
        ("Start", "bad_time"),
        ("End", "bad_time"),
        ("ElapsedRaw", ""),
        ("SLUID", ""),
        ("User", "bad_text"),
    ],
)
def test_one_huge_cell_does_not_widen_the_others(column: str, code: str) -> None:
    lines = [COLUMNS, *(ROW.format(number) for number in range(1, N_ROWS + 1))]
    place = COLUMNS.split("|").index(column)
    cells = lines[-1].split("|")
    cells[place] = "1" * N_BYTES
    lines[-1] = "|".join(cells)
    data = ("\n".join(lines) + "\n").encode()
    tracemalloc.start()
    try:
        pieces = list(Sacct().parse(BytesIO(data), Reading(AT)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES
    assert [rejection.code for piece in pieces for rejection in piece.rejections] == [code] * bool(code)
    assert sum(len(piece.batch) for piece in pieces) == N_ROWS - bool(code)
