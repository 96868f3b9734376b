"""Texts of the convergence figures (shares, balances, days), their revision marks and links, and the
rows of their CSV.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from math import isfinite
from typing import Any

from django.utils import formats
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from apps.priorities.sentences.numbers import clock_text
from apps.series.convergence.records import Convergence
from apps.series.daily_series import F8
from apps.web.figures import Mark, axes
from apps.web.figures.axes import moment

_IDLE = ("no_demand", "met")
_MOST_MARKS = 48


@dataclass(frozen=True, slots=True)
class Links:
    """Links of a figure. moment: URL with {at} for the value of x (a day or an hour); revision: by number; entry: by
    uid and name; "" if the page has none.
    """

    moment: str = ""
    revision: Callable[[int], str] = lambda _number: ""
    entry: Callable[[str, str], str] = lambda _uid, _name: ""


NO_LINKS = Links()


def mark_of(state: str, off: float) -> str:
    """Return the colour token of a line by its latest state."""
    if state == "on":
        return "$level-mark"
    if state in _IDLE or not isfinite(off):
        return "$line-strong" if state == "no_demand" else "$under-mark"
    return "$over-mark" if off > 0 else "$under-mark"


def day_text(on: date) -> str:
    if isinstance(on, datetime):
        return clock_text(on, "j M, H:i")
    return _day_text(get_language(), on)


@lru_cache(maxsize=4096)
def _day_text(_language: str | None, on: date) -> str:
    """Only days are cached: equal instants may be in different zones."""
    return formats.date_format(on, "j M Y")


def revision_marks(convergence: Convergence, links: Links) -> list[Mark]:
    """Return marks of the period's revisions, limited to the newest."""
    marks = []
    for published in convergence.published[-_MOST_MARKS:]:
        at = moment(convergence.on[published.day]) if published.day >= 0 else published.on.isoformat()
        text = _("Revision %(n)s, %(day)s") % {
            "n": published.revision,
            "day": formats.date_format(published.on, "j M Y"),
        }
        marks.append(Mark(at, _("Rev %(n)s") % {"n": published.revision}, text, links.revision(published.revision)))
    return marks


def moment_url(convergence: Convergence, links: Links) -> str:
    """Return the URL of the page at a point of x: the hour, or the end of the day."""
    return links.moment if convergence.is_by_hour else links.moment.replace("{at}", "{at}T23:59")


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
