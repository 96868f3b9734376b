"""Texts of the convergence figures (shares, balances, days), their revision marks and links, and the
rows of their CSV.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from functools import lru_cache
from math import isfinite
from typing import Any

from django.utils import formats
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from apps.priorities.level_facts import IDLE_STATES
from apps.priorities.sentences.numbers import clock_text
from apps.series.convergence.records import Convergence
from apps.series.daily_series import F8
from apps.web.figures import axes
from apps.web.figures.axes import moment


def mark_of(state: str, off: float) -> str:
    """Return the colour token of a line by its latest state."""
    if state == "on":
        return "$level-mark"
    if state in IDLE_STATES:
        return "$line-strong"
    if not isfinite(off):
        return "$under-mark"
    return "$over-mark" if off > 0 else "$under-mark"


def day_text(on: date) -> str:
    if isinstance(on, datetime):
        return clock_text(on, "j M, H:i")
    return _day_text(get_language(), on)


@lru_cache(maxsize=4096)
def _day_text(_language: str | None, on: date) -> str:
    """Only days are cached: equal instants may be in different zones."""
    return formats.date_format(on, "j M Y")


def caption(convergence: Convergence) -> str:
    """Policy, revision and time, for below a downloaded picture."""
    last = convergence.latest_at or (convergence.on[-1] if convergence.on else None)
    until = "" if last is None else clock_text(last) if isinstance(last, datetime) else day_text(last)
    return " · ".join(
        part for part in (convergence.policy_name, _("Revision %(n)s") % {"n": convergence.revision}, until) if part
    )


def file_name(convergence: Convergence, figure: str) -> str:
    first, last = (moment(day)[:10] for day in (convergence.on[0], convergence.on[-1])) if convergence.on else ("", "")
    return f"fairshare_{convergence.policy_slug}_{figure}_{first}_{last}_rev{convergence.revision}"


class RawRows(Sequence[Sequence[Any]]):
    """CSV rows of a day (or hour) and percents with four digits, "" where unknown. columns: fractions by `on`."""

    def __init__(self, on: Sequence[date], columns: Sequence[F8]) -> None:
        self._on, self._columns = on, columns

    def __len__(self) -> int:
        return len(self._on)

    def __getitem__(self, at: Any) -> Any:
        numbers = (float(column[at]) * 100 for column in self._columns)
        return [axes.moment(self._on[at]), *(round(number, 4) if isfinite(number) else "" for number in numbers)]
