"""A text as the picture that cameras read, drawn as one path: nothing to load, and no style to allow."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import qrcode

QUIET = 4  # modules of white that a reader needs around it


@dataclass(frozen=True)
class Qr:
    """d: the dark modules in units of one, inside a square of n."""

    n: int
    d: str

    @property
    def view_box(self) -> str:
        return f"{-QUIET} {-QUIET} {self.n + 2 * QUIET} {self.n + 2 * QUIET}"


def draw_qr(text: str) -> Qr:
    code = qrcode.QRCode(border=0)
    code.add_data(text)
    code.make(fit=True)
    rows = code.get_matrix()
    return Qr(len(rows), "".join(part for y, row in enumerate(rows) for part in _runs(y, row)))


def _runs(y: int, row: list[bool]) -> list[str]:
    parts, x = [], 0
    for is_dark, run in groupby(row):
        width = len(list(run))
        if is_dark:
            parts.append(f"M{x} {y}h{width}v1h-{width}z")
        x += width
    return parts
