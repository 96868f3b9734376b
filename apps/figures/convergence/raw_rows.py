"""The rows of a CSV, written when one asks for it: the JSON of a figure has none of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from math import isfinite
from typing import Any

from apps.analytics.series.storage.columns import F8
from apps.figures import axes


class RawRows(Sequence[Sequence[Any]]):
    """A day (or an hour) and percents with four digits, "" where none is known. columns: fractions by `on`."""

    def __init__(self, on: Sequence[date], columns: Sequence[F8]) -> None:
        self._on, self._columns = on, columns

    def __len__(self) -> int:
        return len(self._on)

    def __getitem__(self, at: Any) -> Any:
        numbers = (float(column[at]) * 100 for column in self._columns)
        return [axes.moment(self._on[at]), *(round(one, 4) if isfinite(one) else "" for one in numbers)]
